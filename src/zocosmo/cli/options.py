"""Options that several commands share; `zocosmo launch` hands on what `python -m zocosmo.dist` takes."""

from pathlib import Path
from typing import Annotated, Any

import typer

ConfigArgument = Annotated[Path, typer.Argument(help="A YAML file; configs/ has examples.")]
OutOption = Annotated[Path | None, typer.Option(help="Folder for the log; runs/NAME if not given.")]
SeedsOption = Annotated[str, typer.Option(help="Seeds in place of the config's: 1,2,3 or 1-40.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change the config: problem.model=smollm2, methods.*.mu=0.01; repeat.",
    ),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with a study that was stopped.")]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Start anew, whatever the folder holds.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Write log.csv instead of log.parquet.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

CheckpointOption = Annotated[
    int, typer.Option(min=0, help="Rounds between checkpoints; 0: as often as the log.")
]
DeadlineOption = Annotated[
    float | None, typer.Option(help="Seconds to wait for a peer; learnt from the rounds if not given.")
]
JoinOption = Annotated[float, typer.Option(help="Seconds in which all processes must be there.")]
KeyOption = Annotated[Path | None, typer.Option(help="Seal messages under the key in this file (mode 600).")]
ListenOption = Annotated[
    str | None, typer.Option(help="This machine's address for peers; needed on several machines.")
]
BackendOption = Annotated[str, typer.Option(help="gloo, nccl or mpi.")]
LostOption = Annotated[
    str | None, typer.Option(help="stop, or idle: pairs with a lost peer pause. The config's, if not given.")
]
HandOutOption = Annotated[bool, typer.Option("--seeds-from-rank-0", help="Take the seeds that rank 0 has.")]
StatesOption = Annotated[bool, typer.Option(help="Keep the last states in states.npz.")]

JOIN = 120.0  # seconds that processes have to come together


def as_line(context: typer.Context, *but: str) -> list[str]:
    """Arguments and options as they were given, but for those named: what another process is to be told."""
    line = []
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE" or parameter.name in but:
            continue
        line += _as_words(parameter, context.params[str(parameter.name)])
    return line


def _as_words(parameter: Any, value: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [str(value)]
    if parameter.is_flag:
        return [(parameter.opts if value else parameter.secondary_opts)[0]]
    values = value if isinstance(value, list | tuple) else [value]
    return [word for each in values for word in (parameter.opts[0], str(each))]
