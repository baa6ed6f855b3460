"""python -m zocosmo.dist CONFIG: one process of a study, as torchrun and `zocosmo launch` start it."""

import os
import signal
import sys

import typer

from zocosmo.cli.common import UserMistake, refuse, say
from zocosmo.cli.options import ProcessOptions, taking
from zocosmo.cli.study import progress, where
from zocosmo.dist.handshake import hand_out
from zocosmo.dist.rendezvous import Job, join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.dist.seal import read_key
from zocosmo.errors import ZocosmoError
from zocosmo.experiments.plan import Plan

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@taking(ProcessOptions)
def run(options: ProcessOptions) -> None:
    """Run every trial of a config across processes, and write the log that zocosmo run would write.

    Example: torchrun --nproc-per-node 4 -m zocosmo.dist configs/runtime.yaml --out runs/runtime
    """
    key = None if options.key_file is None else read_key(options.key_file)
    plan = options.plan()
    job = join(listen=options.listen, within=options.join_within)
    if options.seeds_from_rank_0:
        plan = options.plan(hand_out(job, plan.config["seeds"], key))
    warn_of_wide_values(plan, job)
    chosen = Options(
        resume=options.resume,
        replace_old=options.replace,
        states=options.states,
        checkpoint_every=options.checkpoint_every,
        deadline=options.deadline,
        key=key,
        backend=options.backend,
        on_lost_peer=options.on_lost_peer or plan.on_lost_peer,
        suffix=options.suffix,
    )
    folder = options.folder(plan)
    if job.rank:
        run_ranks(plan, job, folder, chosen)
        return
    with progress(plan) as tick:
        log = run_ranks(plan, job, folder, chosen, tick)
    if log is None:
        return
    living = f", {log.rows['living'].iloc[-1]} nodes living at the end" if "living" in log.rows else ""
    print(where(folder, log, options.suffix) + living)


def warn_of_wide_values(plan: Plan, job: Job) -> None:
    """Say once, at rank 0, that messages are longer than they are charged."""
    if plan.wire == "nominal_f32" and plan.dtype != "float32" and job.rank == job.attempt == 0:
        say(
            f"wire nominal_f32: values cross in the type of the states ({plan.dtype}) "
            "and are charged at 32 bits"
        )


def main() -> None:
    """Run the command; a user's mistake is one line that names the rank, and exit code 2."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # end at once, even during a wait: files are always whole
    prefix = f"rank {os.environ['RANK']}: " if "RANK" in os.environ else ""
    try:
        code = app(standalone_mode=False) or 0
    except (ZocosmoError, UserMistake) as error:
        code = refuse(error, prefix)
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # do not wait for threads that hold connections to lost peers
