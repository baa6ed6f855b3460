"""Items of the reproduction: what is run, and how its logs are evaluated."""

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
    text: str  # alternative text: what it shows, with its numbers
    draw: Callable[[Path], None]


class Findings(NamedTuple):
    """What an item shows."""

    claims: Sequence[Claim]
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


class Evidence(NamedTuple):
    """Input of an item: the logs of its configs, and a folder for its own measurements."""

    logs: Mapping[str, Any]  # by config: a pandas frame
    seeds: int | None  # from --seeds; None: the paper's
    folder: Path
    model: str = ""  # from --model, for items that need one
    processes: int = 1  # available


@dataclass(frozen=True)
class Item:
    """One table, figure or set of constants of the paper."""

    name: str
    title: str
    labels: tuple[str, ...]  # of the paper
    claimed: str  # what the paper says, in our words
    find: Callable[[Evidence], Findings]
    configs: tuple[str, ...] = ()  # in zocosmo_paper/configs, without .yaml
    ours: Mapping[str, str] = field(default_factory=dict)  # settings that the paper omits, our choice and why
    fixed: tuple[str, ...] = ()  # configs whose seeds --seeds does not change
    needs: str = ""  # what the user must provide, such as a model; `all` then skips the item
    draws: bool = False  # whether it has pictures, which need matplotlib
