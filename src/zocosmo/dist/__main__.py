"""python -m zocosmo.dist CONFIG: one process of a study, as torchrun and `zocosmo launch` start it."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from zocosmo.cli.study import as_seeds, progress
from zocosmo.dist.handshake import hand_out
from zocosmo.dist.rendezvous import JOIN, join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.dist.seal import read_key
from zocosmo.errors import ZocosmoError
from zocosmo.experiments.plan import load_plan

UserMistake: type[Any] = typer.BadParameter.__mro__[2]  # ClickException; typer may carry a click of its own

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="A YAML file, the same as for zocosmo run.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the log; runs/NAME if not given.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds in place of the config's: 1,2,3 or 1-40.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a study that was stopped.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Start anew, whatever the folder holds.")
    ] = False,
    checkpoint_every: Annotated[
        int, typer.Option(min=0, help="Rounds between checkpoints; 0: as often as the log.")
    ] = 0,
    deadline: Annotated[
        float | None, typer.Option(help="Seconds to wait for a peer; learnt from the rounds if not given.")
    ] = None,
    join_within: Annotated[float, typer.Option(help="Seconds in which all processes must be there.")] = JOIN,
    key_file: Annotated[
        Path | None, typer.Option(help="Seal messages under the key in this file (mode 600).")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="This machine's address for peers; needed on several machines.")
    ] = None,
    backend: Annotated[str, typer.Option(help="gloo, nccl or mpi.")] = "gloo",
    seeds_from_rank_0: Annotated[
        bool, typer.Option("--seeds-from-rank-0", help="Take the seeds that rank 0 has.")
    ] = False,
    states: Annotated[bool, typer.Option(help="Keep the last states in states.npz.")] = True,
    csv: Annotated[bool, typer.Option("--csv", help="Write log.csv instead of log.parquet.")] = False,
) -> None:
    """Run every trial of a config across processes, and write the log that zocosmo run would write.

    Example: torchrun --nproc-per-node 4 -m zocosmo.dist configs/ring4.yaml --out runs/ring4
    """
    key = None if key_file is None else read_key(key_file)
    given = as_seeds(seeds) if seeds else None
    plan = load_plan(config, given)
    job = join(listen=listen, within=join_within)
    if seeds_from_rank_0:
        plan = load_plan(config, hand_out(job, plan.config["seeds"], key))
    options = Options(
        resume=resume,
        replace_old=replace,
        states=states,
        checkpoint_every=checkpoint_every,
        deadline=deadline,
        key=key,
        backend=backend,
        suffix=".csv" if csv else ".parquet",
    )
    folder = Path("runs") / plan.name if out is None else out
    if job.rank:
        run_ranks(plan, job, folder, options)
        return
    with progress(plan) as tick:
        log = run_ranks(plan, job, folder, options, tick)
    assert log is not None
    lost = int(log.rows["diverged"].sum())
    name = "log.csv" if csv else "log.parquet"
    print(f"{folder / name}: {len(plan.trials)} trials, {lost} diverged, {len(log.rows)} rows")


def main() -> None:
    """As the command `zocosmo`: a mistake is one line that names the rank, and exit code 2."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rank = os.environ.get("RANK", "?")
    try:
        code = app(standalone_mode=False) or 0
    except (ZocosmoError, UserMistake) as error:
        text = error.format_message() if isinstance(error, UserMistake) else str(error)
        print(f"zocosmo: rank {rank}: {' '.join(text.split())}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of connections to peers that are gone must not hold us up


if __name__ == "__main__":
    main()
