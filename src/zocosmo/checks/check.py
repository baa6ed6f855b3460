"""What a check is: a formula, where it applies, and the rows it gives."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from zocosmo.checks.case import Case
from zocosmo.checks.measurement import About, Measurement


class Check(NamedTuple):
    """A formula of the theory, compared with what our code does."""

    formula: str
    label: str
    why_not: Callable[[Case], str]  # empty if the formula applies
    about: Callable[[Case], str]  # what it depends on; cases with the same words are checked once
    rows: Callable[[Case, About], Iterable[Measurement]]
