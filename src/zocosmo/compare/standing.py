"""How one method stands at one limit."""

from typing import NamedTuple

from zocosmo.compare.contest import Limit
from zocosmo.report.stats import Interval


class Standing(NamedTuple):
    """A method with the setting that was chosen for a limit, as the study's seeds have it there."""

    problem: str
    metric: str
    limit: Limit
    method: str
    family: str
    ours: bool
    server: bool
    setting: str
    pilot: float  # mean over the pilot's seeds, by which settings and members of a family are chosen
    mean: float
    std: float
    diverged: int  # runs left out of the mean
    ended: bool  # a run ended before the limit
    rank: int | None  # None: sends nothing, or lost a run
    against: Interval | None  # its metric minus the best one's; None for the best
    rounds: tuple[int, int]
    bits: float  # per node, as are the next two
    queries: float
    examples: float | None  # None where a query is no mean over rows

    @property
    def word(self) -> str:
        """best, within (the interval holds 0) or behind; empty without a rank or an interval."""
        if self.rank == 1:
            return "best"
        if self.rank is None or self.against is None or self.against.low != self.against.low:
            return ""
        return "within" if self.against.low <= 0 <= self.against.high else "behind"

    @property
    def at_start(self) -> bool:
        """Whether not one round fits into the limit."""
        return self.rounds[1] == 0
