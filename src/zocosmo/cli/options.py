"""Options that several commands share, each declared once."""

import functools
import inspect
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError

if TYPE_CHECKING:
    from zocosmo.experiments.plan import Plan

RUNS = Path("runs")  # each study gets a folder here, named after its config
JOIN = 120.0  # seconds within which all processes must join


def option(about: str, *names: str, **more: Any) -> Any:
    """How an option is declared: its help, then its names if they are not those of the parameter."""
    return typer.Option(*names, help=about, **more)


def argument(about: str) -> Any:
    return typer.Argument(help=about)


ConfigArgument = Annotated[Path, argument("A YAML file; zocosmo example has some.")]
OutOption = Annotated[Path | None, option("Folder for the log; runs/NAME if not given.")]
SeedsOption = Annotated[str, option("Seeds that replace the config's: 1,2,3 or 1-40.")]
SetOption = Annotated[
    list[str] | None,
    option(
        "Change the config: problem.model=smollm2, methods.*.mu=0.01; repeat.", "--set", metavar="KEY=VALUE"
    ),
]
ResumeOption = Annotated[bool, option("Continue a study that was stopped.", "--resume")]
ReplaceOption = Annotated[bool, option("Start over, whatever the folder holds.", "--replace")]
JsonOption = Annotated[bool, option("Print JSON instead of text.", "--json")]
ProbabilityOption = Annotated[float, option("Probability of an edge, or of rewiring one.", "--p")]
DegreeOption = Annotated[int, option("Degree in random_regular, rings and small_world.")]


@dataclass(frozen=True)
class StudyOptions:
    """What `run`, `launch` and the processes of `launch` take alike."""

    config: ConfigArgument
    out: OutOption = None
    seeds: SeedsOption = ""
    set_: SetOption = None
    resume: ResumeOption = False
    replace: ReplaceOption = False
    csv: Annotated[bool, option("Write log.csv instead of log.parquet.", "--csv")] = False

    @property
    def suffix(self) -> str:
        return ".csv" if self.csv else ".parquet"

    def plan(self, seeds: Sequence[Seed] | None = None) -> "Plan":
        """The plan of the config, with the seeds of the command line unless others are given."""
        from zocosmo.experiments.plan import load_plan

        return load_plan(self.config, as_seeds(self.seeds) if seeds is None else seeds, self.set_)

    def folder(self, plan: "Plan") -> Path:
        return RUNS / plan.name if self.out is None else self.out


@dataclass(frozen=True)
class ProcessOptions(StudyOptions):
    """What `launch` hands on to `python -m zocosmo.dist`."""

    checkpoint_every: Annotated[int, option("Rounds between checkpoints; 0: as often as the log.", min=0)] = 0
    deadline: Annotated[
        float | None, option("Seconds to wait for a peer; estimated from the rounds if not given.")
    ] = None
    join_within: Annotated[float, option("Seconds within which all processes must join.")] = JOIN
    key_file: Annotated[Path | None, option("Seal messages under the key in this file (mode 600).")] = None
    listen: Annotated[str | None, option("This machine's address for peers; needed on several machines.")] = (
        None
    )
    backend: Annotated[str, option("gloo, nccl or mpi.")] = "gloo"
    on_lost_peer: Annotated[str, option("Only stop, which is what happens.", hidden=True)] = "stop"
    seeds_from_rank_0: Annotated[bool, option("Take the seeds of rank 0.", "--seeds-from-rank-0")] = False
    states: Annotated[bool, option("Keep the last states in states.npz.")] = True
    seeds_file: Annotated[
        Path | None, option("Seeds from a file (mode 600) in place of the config's, one a line, or 1-40.")
    ] = None

    def plan(self, seeds: Sequence[Seed] | None = None) -> "Plan":
        """The plan, with the seeds of the file if there is one; others may not read those of a sealed job."""
        if self.on_lost_peer != "stop":
            from zocosmo.experiments.losses import COME_AND_GO

            raise InputError(f"--on-lost-peer {self.on_lost_peer}: {COME_AND_GO}")
        if seeds is None:
            self._check_secret()
            seeds = None if self.seeds_file is None else read_seeds(self.seeds_file)
        return super().plan(seeds)

    def _check_secret(self) -> None:
        """Refuse to seal messages whose seeds every user of this machine can read."""
        if self.seeds and self.seeds_file is not None:
            raise InputError("--seeds and --seeds-file are two lists of seeds; give one")
        if self.key_file is None or not self.key_file.is_file():
            return  # whoever reads the key says that there is none
        if self.seeds or any(each.partition("=")[0].strip().startswith("seeds") for each in self.set_ or ()):
            raise InputError(
                "a sealed job keeps its seeds to itself, and others can read a command line; "
                "put them into a file of mode 600, and give --seeds-file FILE"
            )
        given_by_0 = self.seeds_from_rank_0 and os.environ.get("RANK", "0") != "0"
        if self.seeds_file is None and not given_by_0 and is_open(self.config):
            raise InputError(
                f"{self.config} has the seeds of a sealed job and others can read it; "
                f"chmod 600 {shlex.quote(str(self.config))}, or give --seeds-file FILE"
            )


def taking(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as options; it receives them as one argument, `options`."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "options"]
        shared = inspect.signature(kind).parameters.values()
        every = [p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *shared)]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            taken = {field.name: given.pop(field.name) for field in fields(kind)}
            command(**given, options=kind(**taken))

        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {p.name: p.annotation for p in every}
        return run

    return wrap


def as_seeds(text: str) -> list[Seed] | None:
    """1,2,3 or 1-40, or both; None for an empty text."""
    if not text:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,18}|[0-9]{1,9}-[0-9]{1,9}", part) for part in parts):
        raise InputError(f"--seeds are whole numbers or ranges, such as 1,2,3 or 1-40; got {text!r}")
    return [int(part) if part.isdecimal() else part for part in parts]


def is_open(path: Path) -> bool:
    """Whether users other than the owner can read a file."""
    try:
        return bool(path.stat().st_mode & 0o044)
    except OSError:
        return False  # whoever reads it says why it cannot be read


def read_seeds(path: Path) -> list[Seed]:
    """Seeds, one a line: whole numbers, ranges, or any text. Only the owner may read the file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"seeds file {path} cannot be read: {error}") from None
    if is_open(path):
        raise InputError(f"seeds file {path} can be read by others; chmod 600 {shlex.quote(str(path))}")
    seeds = [line.strip() for line in lines if line.strip()]
    if not seeds:
        raise InputError(f"seeds file {path} is empty; write one seed a line, or a range such as 1-40")
    return [int(seed) if re.fullmatch(r"[0-9]{1,18}", seed) else seed for seed in seeds]


def as_line(context: typer.Context, *but: str) -> list[str]:
    """Arguments and options as they were given, without those named in `but`, as words of a command line."""
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
