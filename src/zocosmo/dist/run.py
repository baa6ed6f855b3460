"""Run a plan across processes: each calls `run_ranks` with its own Job."""

from contextlib import nullcontext
from pathlib import Path

from zocosmo.dist.rendezvous import Job
from zocosmo.dist.study import Options as Options
from zocosmo.dist.study import Study
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import Tick
from zocosmo.files import private_files
from zocosmo.log import Log


def run_ranks(plan: Plan, job: Job, out: Path, options: Options, tick: Tick | None = None) -> Log | None:
    """Run this process's part of a plan; returns the log at rank 0, None elsewhere."""
    try:
        with private_files() if options.key is not None else nullcontext():  # they name the seeds
            return Study(plan, job, out, options, tick or (lambda progress: None)).run()
    except Exception as error:
        job.fail(error)
        raise
