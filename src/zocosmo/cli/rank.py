"""python -m zocosmo.dist CONFIG: one process of a study, as torchrun and `zocosmo launch` start it."""

import os
import signal
import sys

from zocosmo.cli.common import App, UserMistake, refuse, say
from zocosmo.cli.menu import HELP
from zocosmo.cli.options import ProcessOptions, taking
from zocosmo.cli.study import progress, where
from zocosmo.dist.handshake import hand_out
from zocosmo.dist.lifeline import hold_on
from zocosmo.dist.rendezvous import join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.dist.seal import read_key
from zocosmo.errors import ZocosmoError

app = App(add_completion=False, context_settings=HELP, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@taking(ProcessOptions)
def run(options: ProcessOptions) -> None:
    """Run every trial of a config across processes, and write the log that zocosmo run would write.

    \b
    Example: zocosmo example runtime > r.yaml && torchrun --nproc-per-node 4 -m zocosmo.dist r.yaml
    """
    key = None if options.key_file is None else read_key(options.key_file)
    plan = options.plan()
    job = join(listen=options.listen, within=options.join_within)
    if options.seeds_from_rank_0:
        plan = options.plan(hand_out(job, plan.config["seeds"], key))
    if plan.wire == "nominal_f32" and plan.dtype != "float32" and job.rank == job.attempt == 0:
        wide = f"values cross in the type of the states ({plan.dtype})"
        say(f"wire nominal_f32: {wide} and are charged at 32 bits")
    chosen = Options(
        resume=options.resume,
        replace_old=options.replace,
        states=options.states,
        checkpoint_every=options.checkpoint_every,
        deadline=options.deadline,
        key=key,
        backend=options.backend,
        suffix=options.suffix,
    )
    folder = options.folder(plan)
    if job.rank:
        run_ranks(plan, job, folder, chosen)
        return
    with progress(plan) as tick:
        log = run_ranks(plan, job, folder, chosen, tick)
    if log is not None:
        print(where(folder, log, options.suffix))


def main() -> None:
    """Run the command; a user's mistake is one line that names the rank, and exit code 2."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # end at once, even during a wait: files are always whole
    hold_on()
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
