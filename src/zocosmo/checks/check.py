"""What a check is: a formula, where it applies, and the rows it gives."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from zocosmo.checks.row import About, Row
from zocosmo.checks.setting import Setting


class Check(NamedTuple):
    """A formula of the theory held against what our code does."""

    formula: str
    label: str
    why_not: Callable[[Setting], str]  # empty where the formula applies
    about: Callable[[Setting], str]  # what it depends on; settings with the same words are checked once
    rows: Callable[[Setting, About], Iterable[Row]]
