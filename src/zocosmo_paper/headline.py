"""The board in one sentence: how much of what the paper prints agrees, by kind.

An ordering agrees if it holds. A figure agrees in order only if it is off and the ordering it supports holds.
"""

from collections.abc import Iterable
from typing import NamedTuple

from zocosmo_paper.claim import CONSTANT, COUNTED, FIGURE, NO, NOT_RUN, ORDERING, RELATION, WITHIN, Claim

NAMES = {
    CONSTANT: "deterministic constants",
    FIGURE: "measured figures",
    RELATION: "orderings and other relations",
}
HEADER = ("kind", "reruns", "agree", "order only", "do not", "need a 7B model", "not run for another reason")


class Judged(NamedTuple):
    """One line of the board, as the headline needs it."""

    kind: str
    verdict: str
    needs: str = ""  # what the user must provide, such as a model
    fitted: str = ""  # settings chosen because printed numbers come out


class Tally(NamedTuple):
    """Counts of one kind, or of all."""

    agree: int = 0
    order_only: int = 0
    no: int = 0
    model: int = 0
    absent: int = 0

    @property
    def total(self) -> int:
        """What can be rerun here."""
        return self.agree + self.order_only + self.no

    def __add__(self, other: "Tally") -> "Tally":  # type: ignore[override]
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))


class Headline(NamedTuple):
    """Counts by kind; `sentence` is what README, docs and page show."""

    kinds: dict[str, Tally]
    fitted: int = 0  # of the figures and orderings that agree, those that rest on fitted settings

    @property
    def all(self) -> Tally:
        return sum(self.kinds.values(), start=Tally())

    @property
    def sentence(self) -> str:
        """Counts of all kinds.

        >>> headline([Judged("figure", "within"), Judged("figure", "not run", "a model")]).sentence
        'Of 1 figures and orderings that the paper prints and that can be rerun here, 1 agree, \
0 agree in order only, 0 do not; 1 need a 7B model.'
        """
        every = self.all
        return (
            f"Of {every.total} figures and orderings that the paper prints and that can be rerun here, "
            f"{every.agree} agree, {every.order_only} agree in order only, {every.no} do not; "
            f"{every.model} need a 7B model."
        )

    @property
    def details(self) -> str:
        """Counts of each kind."""
        parts = [
            f"{tally.total} {NAMES[kind]} ({tally.agree} agree, {tally.order_only} in order only, "
            f"{tally.no} do not)"
            for kind, tally in self.kinds.items()
        ]
        run = self.kinds[FIGURE] + self.kinds[RELATION]
        return (
            f"They are {', '.join(parts[:-1])} and {parts[-1]}. Constants mostly check the paper's "
            f"arithmetic; of the other {run.total}, {run.agree} agree, {run.order_only} in order only, "
            f"{run.no} do not, and {self.fitted} of those {run.agree} rest on settings that we fitted to "
            "the printed numbers."
        )

    @property
    def rows(self) -> list[list[str]]:
        """headline.csv: a row for each kind, and one for all."""
        tallies = {**self.kinds, "all": self.all}
        return [list(HEADER), *([kind, str(t.total), *map(str, t)] for kind, t in tallies.items())]


def headline(lines: Iterable[Judged]) -> Headline:
    """Count the lines that the paper prints; checks of ours and statements are left out."""
    found, fitted = {kind: Tally() for kind in COUNTED}, 0
    for line in lines:
        if line.kind in found:
            found[line.kind] += _one(line)
            fitted += bool(line.fitted) and line.kind != CONSTANT and _one(line).agree
    return Headline(found, fitted)


def _one(line: Judged) -> Tally:
    if line.verdict == NOT_RUN:
        return Tally(model=1) if line.needs else Tally(absent=1)
    if line.verdict == NO:
        return Tally(no=1)
    agrees = line.verdict == WITHIN or (line.verdict == ORDERING and line.kind == RELATION)
    return Tally(agree=1) if agrees else Tally(order_only=1)


def of_claims(pairs: Iterable[tuple[str, Claim]]) -> Headline:
    """The headline of claims, each with what its item needs."""
    return headline(Judged(claim.kind, claim.verdict, needs, claim.fitted) for needs, claim in pairs)
