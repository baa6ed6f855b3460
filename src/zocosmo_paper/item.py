"""Items of the reproduction: what is run, and what is made of the logs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from zocosmo_paper.claim import Claim


class Table(NamedTuple):
    """A table in the paper's layout; cells are text, ready to print."""

    name: str  # of its files
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: str = ""


class Picture(NamedTuple):
    """A figure in the paper's layout; `draw` writes it as .png, .svg or .pdf."""

    name: str
    title: str
    text: str  # for who cannot see it: what it shows, with its numbers
    draw: Callable[[Path], None]


class Findings(NamedTuple):
    """What an item shows."""

    claims: Sequence[Claim]
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


class Evidence(NamedTuple):
    """What an item has to go by: rows of its configs' logs, and a folder for what it measures itself."""

    logs: Mapping[str, Any]  # by config: a pandas frame
    seeds: int | None  # asked for with --seeds; None: the paper's
    folder: Path
    model: str = ""  # given with --model, for items that need one
    processes: int = 1  # that may be used


@dataclass(frozen=True)
class Item:
    """One table, figure or set of constants of the paper."""

    name: str
    title: str
    labels: tuple[str, ...]  # of the paper
    claimed: str  # what the paper says, in our words
    find: Callable[[Evidence], Findings]
    configs: tuple[str, ...] = ()  # in zocosmo_paper/configs, without .yaml
    ours: Mapping[str, str] = field(
        default_factory=dict
    )  # settings that the paper leaves out, and why we chose so
    needs: str = ""  # what must be given for it, such as a model; then `all` leaves it out
