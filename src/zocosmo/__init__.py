"""ZO-COSMO: decentralised zeroth-order optimisation over public sparse supports.

>>> tape = Tape("our seed")
>>> draw_direction(tape, 0, d=1_000_000, q=4)
Direction(d=1000000, q=4, index=[132365, 268355, 451137, 481347])
"""

import importlib as _importlib
import typing as _typing

from zocosmo._version import __version__
from zocosmo.core import (
    CODECS,
    COUPLINGS,
    VALUE_TYPES,
    Bits,
    Direction,
    Header,
    Ledger,
    Manifest,
    Message,
    Support,
    Tape,
    balanced_support,
    check_cover,
    draw_direction,
    draw_support,
    frame,
    unframe,
)
from zocosmo.errors import ZocosmoError
from zocosmo.graphs import GRAPHS, SCHEDULES, Graph, matching, metropolis
from zocosmo.methods import METHODS
from zocosmo.problems import PROBLEMS

if _typing.TYPE_CHECKING:
    from zocosmo.blackbox.minimize import minimize
    from zocosmo.blackbox.optimizer import Optimizer
    from zocosmo.blackbox.suggest import suggest

__all__ = [
    "CODECS",
    "COUPLINGS",
    "GRAPHS",
    "METHODS",
    "PROBLEMS",
    "SCHEDULES",
    "VALUE_TYPES",
    "Bits",
    "Direction",
    "Graph",
    "Header",
    "Ledger",
    "Manifest",
    "Message",
    "Optimizer",
    "Support",
    "Tape",
    "ZocosmoError",
    "__version__",
    "balanced_support",
    "check_cover",
    "draw_direction",
    "draw_support",
    "frame",
    "matching",
    "metropolis",
    "minimize",
    "suggest",
    "unframe",
]


_LATER = {"minimize": "minimize", "Optimizer": "optimizer", "suggest": "suggest"}  # files of blackbox


def __getattr__(name: str) -> _typing.Any:
    """What most commands do without is imported when first asked for: black boxes, and what brings torch."""
    if name in _LATER:
        return getattr(_importlib.import_module(f"zocosmo.blackbox.{_LATER[name]}"), name)
    if name in ("dist", "torch", "llm"):
        return _importlib.import_module(f"zocosmo.{name}")
    raise AttributeError(f"module 'zocosmo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
