"""The option --on: whose processes run the batches of a study."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Annotated

import typer

from zocosmo.cli.common import say
from zocosmo.cli.options import option
from zocosmo.errors import InputError

OnOption = Annotated[
    str | None,
    option("Run the batches on other machines: dask://HOST:PORT, or mpi under mpiexec.", metavar="PLACE"),
]


def on_machines(context: typer.Context, on: str | None, work: Callable[[Executor | None], None]) -> None:
    """Do the work with the executor of --on, or with None; an MPI rank that only served batches does not."""
    if on is None:
        work(None)
        return
    source = context.get_parameter_source("processes")
    if source is not None and source.name == "COMMANDLINE":
        raise InputError("--processes are processes of this machine; leave it out with --on")
    from zocosmo.experiments.cluster import executor_on

    with executor_on(on, say) as executor:
        if executor is not None:
            work(executor)
