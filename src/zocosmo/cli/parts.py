"""zocosmo methods, problems, graphs: what a config can name, parts of installed packages included."""

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from zocosmo.cli.common import app, output
from zocosmo.entries import Table as Parts
from zocosmo.errors import InputError

if TYPE_CHECKING:
    from zocosmo.core.wire import Wire


@app.command()
def methods() -> None:
    """List methods, wires and graphs with their parameters; parts of installed packages are included.

    Your own module:name can stand for any of them (kind: python in a config, or the name on a command line).

    Example: zocosmo methods
    """
    from zocosmo.core.wires import WIRES
    from zocosmo.graphs import GRAPHS
    from zocosmo.methods import METHODS

    def method(kind: Any) -> tuple[str, ...]:
        return summary(kind), signature(kind, "codec", "decay"), ", ".join(kind.codecs)

    show(["method", "what it is", "parameters", "codecs"], listed(METHODS, method))
    names = ["wire", "what it is", "crosses as", "bits charged a value", "and a message"]
    show([f"\n{name}" for name in names], listed(WIRES, _wire))
    show(["\ngraph", "\nwhat it is", "\nparameters"], listed(GRAPHS, _graph))


@app.command()
def problems() -> None:
    """List the problems and their parameters.

    Example: zocosmo problems
    """
    from zocosmo.problems import PROBLEMS

    rows = [(name, summary(build), signature(build, "n", "seed")) for name, build in PROBLEMS.items()]
    show(["problem", "what it is", "parameters"], rows)


@app.command()
def graphs() -> None:
    """List the graphs and their parameters, the schedules of matchings, and the decays of the step size.

    Example: zocosmo graphs
    """
    from zocosmo.graphs import GRAPHS, SCHEDULES
    from zocosmo.methods import DECAYS

    show(["graph", "what it is", "parameters"], listed(GRAPHS, _graph))
    schedules = [(name, summary(kind)) for name, kind in SCHEDULES.items()]
    show(["\nschedule", "\nwhat it is"], schedules)
    decays = [(name, summary(kind), signature(kind)) for name, kind in DECAYS.items()]
    show(["\ndecay", "\nwhat it is", "\nparameters"], decays)


def _wire(wire: "Wire") -> tuple[str, ...]:
    crosses, charged = wire.crosses_as("float64").name, wire.charged
    return summary(type(wire)).split(";")[0], crosses, str(charged.bits), str(charged.scale_bits or "")


def _graph(build: Callable[..., object]) -> tuple[str, ...]:
    return summary(build), signature(build, "seed")


def listed(parts: Parts[Any], about: Callable[[Any], tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A row for each built-in part, then for each of an installed package, or why it cannot be loaded."""
    rows = [(name, *about(part)) for name, part in parts.items()]
    for name, package in parts.installed().items():
        try:
            what, *rest = about(parts[name])
        except InputError as error:
            what, rest = str(error), []
        else:
            what = f"{what} (of {package})"
        rows.append((name, what, *rest))
    return rows


def signature(build: Callable[..., object], *hidden: str) -> str:
    """Parameters with their defaults, as a config spells them."""
    from zocosmo.methods.base import SPELT

    given = [p for p in inspect.signature(build).parameters.values() if p.name not in hidden]
    names = [SPELT.get(p.name, p.name) for p in given]
    defaults = ["" if p.default is p.empty else f"={p.default}" for p in given]
    return ", ".join(f"{name}{default}" for name, default in zip(names, defaults, strict=True))


def summary(thing: object) -> str:
    """First line of a docstring, without labels of the paper."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].split("   [")[0].rstrip(" .:")


def show(header: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    listing = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        listing.add_column(name, no_wrap=name == header[0])
    for row in rows:
        listing.add_row(*row)
    output().print(listing)
