"""zocosmo example: configs to start from."""

from typing import Annotated

import typer

from zocosmo.cli.common import app
from zocosmo.cli.options import option
from zocosmo.cli.parts import show
from zocosmo.errors import check_known


@app.command()
def example(
    name: Annotated[str, typer.Argument(help="Which one; --list lists them.")] = "",
    list_: Annotated[bool, option("List the names, or those of a folder, and stop.", "--list")] = False,
) -> None:
    """Print a config to start from; without a name, a small one.

    \b
    Example: zocosmo example > first.yaml
    All of them: zocosmo example --list
    """
    from zocosmo.experiments.starters import FIRST, starter

    if list_:
        _list(name)
    else:
        print(starter(name or FIRST).text, end="")


def _list(folder: str) -> None:
    from zocosmo.experiments.starters import folders, in_folder

    if folder:
        check_known("folder", folder, folders())
    rows = [(each.name, f"zocosmo {each.verb}", each.title) for each in in_folder(folder)]
    show(["example", "for", "what it is"], rows)
    for name, count in {} if folder else folders().items():
        print(f"{name}/: {count} more, for language models; zocosmo example {name} --list")
