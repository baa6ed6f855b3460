"""python -m zocosmo.dist CONFIG: one process of a study, as torchrun and `zocosmo launch` start it."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import typer

from zocosmo.cli.options import (
    JOIN,
    BackendOption,
    CheckpointOption,
    ConfigArgument,
    CsvOption,
    DeadlineOption,
    HandOutOption,
    JoinOption,
    KeyOption,
    ListenOption,
    LostOption,
    OutOption,
    ReplaceOption,
    ResumeOption,
    SeedsOption,
    SetOption,
    StatesOption,
)
from zocosmo.cli.study import as_seeds, progress, where
from zocosmo.dist.handshake import hand_out
from zocosmo.dist.rendezvous import Job, join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.dist.seal import read_key
from zocosmo.errors import ZocosmoError
from zocosmo.experiments.plan import Plan, load_plan

UserMistake: type[Any] = typer.BadParameter.__mro__[2]  # ClickException; typer may carry a click of its own

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def run(
    config: ConfigArgument,
    out: OutOption = None,
    seeds: SeedsOption = "",
    set_: SetOption = None,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    checkpoint_every: CheckpointOption = 0,
    deadline: DeadlineOption = None,
    join_within: JoinOption = JOIN,
    key_file: KeyOption = None,
    listen: ListenOption = None,
    backend: BackendOption = "gloo",
    on_lost_peer: LostOption = None,
    seeds_from_rank_0: HandOutOption = False,
    states: StatesOption = True,
    csv: CsvOption = False,
) -> None:
    """Run every trial of a config across processes, and write the log that zocosmo run would write.

    Example: torchrun --nproc-per-node 4 -m zocosmo.dist configs/runtime.yaml --out runs/runtime
    """
    key = None if key_file is None else read_key(key_file)
    given = as_seeds(seeds) if seeds else None
    plan = load_plan(config, given, set_)
    job = join(listen=listen, within=join_within)
    if seeds_from_rank_0:
        plan = load_plan(config, hand_out(job, plan.config["seeds"], key), set_)
    notice(plan, job)
    options = Options(
        resume=resume,
        replace_old=replace,
        states=states,
        checkpoint_every=checkpoint_every,
        deadline=deadline,
        key=key,
        backend=backend,
        on_lost_peer=on_lost_peer or plan.on_lost_peer,
        suffix=".csv" if csv else ".parquet",
    )
    folder = Path("runs") / plan.name if out is None else out
    if job.rank:
        run_ranks(plan, job, folder, options)
        return
    with progress(plan) as tick:
        log = run_ranks(plan, job, folder, options, tick)
    if log is None:
        return
    living = f", {log.rows['living'].iloc[-1]} nodes living at the end" if "living" in log.rows else ""
    print(where(folder, log, csv=csv) + living)


def notice(plan: Plan, job: Job) -> None:
    """A line, once, where messages are longer than what is charged for them."""
    if plan.wire == "nominal_f32" and plan.dtype != "float32" and job.rank == job.attempt == 0:
        print(
            f"zocosmo: wire nominal_f32: values cross in the type of the states ({plan.dtype}) "
            "and are charged at 32 bits",
            file=sys.stderr,
        )


def main() -> None:
    """As the command `zocosmo`: a mistake is one line that names the rank, and exit code 2."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once, even in the middle of a wait: files are whole
    whose = f"rank {os.environ['RANK']}: " if "RANK" in os.environ else ""
    try:
        code = app(standalone_mode=False) or 0
    except (ZocosmoError, UserMistake) as error:
        text = error.format_message() if isinstance(error, UserMistake) else str(error)
        sys.stderr.write(f"zocosmo: {whose}{' '.join(text.split())}\n")  # whole, beside other ranks' lines
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of connections to peers that are gone must not hold us up


if __name__ == "__main__":
    main()
