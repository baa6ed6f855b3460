"""Settings for a budget in bits and queries: q, K, sides, wire, coupling and subspace, with reasons.

A round of edge_local costs a node q b + 27 bits with a wire of b bits, and K + 1 queries on one side. With K
orthogonal directions E‖ĝ‖² = φ ‖g‖², φ = d/K where q is a power of two (`theory.directions`). Stable
steps are as long as 1/φ, and the noise that T steps leave falls as φ/T, so T/φ says how far a budget goes:

    queries alone      T/φ = queries · K/((K + 1) d)      a few directions get nearly all there is
    bits alone         T/φ = bits · K/((q b + 27) d)      as many directions as coordinates

Settings that get at least `SHARE` of the best T/φ count as equal. Of those, the one that touches coordinates
most often is proposed, T q/d, since nodes agree by touches (`theory.touches`). Settings with fewer than
`LEAST_ROUNDS` rounds come last: a step must follow the loss that often at least.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from zocosmo.core.modulo import MODULO
from zocosmo.errors import InputError, check_whole
from zocosmo.planner.units import show_bits
from zocosmo.theory.directions import Directions, norm_factor
from zocosmo.theory.dither import failure, largest_c, wire_table
from zocosmo.theory.touches import largest_subspace, share_left, touches_needed

HEAD_BITS = MODULO["mod4"].charged.scale_bits  # of a message over any wire of a few bits
LEAST_ROUNDS = 100
SHARE = 0.88
LEFT = 0.01  # of a disagreement, when nodes count as agreed
FAILING = 0.01  # of messages, right after differences have doubled
LEAST_DIMENSIONS = 1024  # of a subspace: smaller ones lose accuracy on a language model
LARGEST = 2**14  # coordinates of a support, and directions


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What a node may spend, and what it meets: budgets per node; None is no limit."""

    d: int
    lambda2: float  # of the expected Laplacian of the schedule
    pairs: int  # of a matching
    matched: Fraction = Fraction(1)  # share of rounds in which a node has a partner
    bits: int | None = None
    queries: int | None = None
    batch: int = 1  # examples that a query is a mean over; directions share them out if there are several
    spread: float | None = None  # H²/‖ā‖² of the pairs' gradients, if known

    def __post_init__(self) -> None:
        for name in ("d", "pairs", "batch"):
            check_whole(name, vars(self)[name], 1)
        if self.bits is None and self.queries is None:
            raise InputError("give bits, queries or both; nothing limits this run")
        for name in ("bits", "queries"):
            if vars(self)[name] is not None:
                check_whole(name, vars(self)[name], 1)
        if not 0 < self.lambda2 <= 2:
            raise InputError(f"λ₂ must be above 0 and at most 2, got {self.lambda2:g}; connect the graph")

    @property
    def by_rows(self) -> bool:
        """Whether each direction gets examples of its own: K directions for the price of one."""
        return self.batch > 1

    @property
    def gap(self) -> float:
        """γ: the share of a disagreement that a touch removes."""
        return self.lambda2 / 2


PROPOSED = ("coupling", "q", "directions", "signs", "sides", "wire", "rule", "pairs", "correction")
WHY_CORRECTED = (
    "Balanced supports, so that no coordinate waits long, and partners for an epoch of them, so that each "
    "coordinate meets one matching after the other. Corrected steps, γ = ⅛: nodes whose losses differ "
    "agree at a constant step. That sends nothing, and keeps a second vector in each node."
)


@dataclass(frozen=True)
class Proposal:
    """Settings of edge_local, what they cost a node, and what they get."""

    q: int
    directions: int
    signs: str
    sides: int
    wire: str
    coupling: str
    subspace: int | None  # dimensions; None: all coordinates
    rounds: int
    message_bits: int
    queries: int  # in a round
    factor: Fraction  # φ
    touches: Fraction  # T q/m
    why: tuple[str, ...]
    rule: str = "balanced"
    pairs: str = "epoch"
    correction: float = 0.125

    @property
    def gain(self) -> Fraction:
        """T/φ"""
        return self.rounds / self.factor

    @property
    def lines(self) -> tuple[str, ...]:
        """The settings as a line of a config, then the reasons."""
        words = [f"{name}: {vars(self)[name]}" for name in PROPOSED]
        space = "" if self.subspace is None else f", with subspace: {{size: {self.subspace}}}"
        return f"Proposed: {{kind: edge_local, {', '.join(words)}}}{space}", *self.why

    def as_report(self) -> dict[str, Any]:
        """As data for JSON."""
        return {**asdict(self), "factor": float(self.factor), "touches": float(self.touches)}


@dataclass(frozen=True)
class Setting:
    """One choice of q and K, and the rounds that it gets."""

    q: int
    how: Directions
    evaluations: int
    bits: int
    rounds: int
    factor: Fraction

    @property
    def gain(self) -> Fraction:
        return self.rounds / self.factor


def propose(spending: Spending) -> Proposal:
    """The settings that get most from a budget; see above."""
    every = list(settings(spending))
    enough = [each for each in every if each.rounds >= LEAST_ROUNDS]
    if not enough:
        enough = [max(every, key=lambda each: (each.rounds, each.gain))]
    best = max(each.gain for each in enough)
    good = [each for each in enough if each.gain >= SHARE * best]
    chosen = max(good, key=lambda each: (each.rounds * each.q, each.gain, -each.how.K))
    if chosen.rounds < 1:
        raise InputError(
            f"the budget pays for no round, which takes {chosen.bits} bits and {chosen.evaluations} queries"
        )
    m, b = subspace(spending, chosen), wire_bits(chosen.q)
    touches = Fraction(chosen.rounds * chosen.q, m or spending.d)
    reasons = (
        _why_size(spending, chosen, best),
        _why_sides(spending, chosen),
        _why_wire(chosen.q, b),
        _why_coupling(spending),
        _why_subspace(spending, chosen, m),
        WHY_CORRECTED,
    )
    return Proposal(
        q=chosen.q,
        directions=chosen.how.K,
        signs=chosen.how.signs,
        sides=chosen.how.sides,
        wire=f"mod{b}",
        coupling=coupling(spending),
        subspace=m,
        rounds=chosen.rounds,
        message_bits=chosen.bits,
        queries=chosen.evaluations,
        factor=chosen.factor,
        touches=touches,
        why=reasons,
    )


def settings(spending: Spending) -> Iterator[Setting]:
    """Powers of two for q and K; all of d too, if it is small."""
    d, most = spending.d, min(spending.d, LARGEST)
    for q in sorted({2**e for e in range(most.bit_length()) if 2**e <= most} | {most}):
        counts = [2**e for e in range((q - 1).bit_length() + 1)]
        if spending.by_rows:
            counts = [max(K for K in counts if spending.batch >= K)]
        for K in counts:
            how = Directions(K=K, signs="orthogonal", sides=2 if spending.by_rows else 1)
            evaluations = 2 if spending.by_rows else how.evaluations
            bits = q * wire_bits(q) + HEAD_BITS
            rounds = paid(spending, bits, evaluations)
            yield Setting(q, how, evaluations, bits, rounds, norm_factor(d, q, how))


def paid(spending: Spending, bits: int, evaluations: int) -> int:
    """Rounds that both budgets pay for."""
    limits = [(spending.bits, bits), (spending.queries, evaluations)]
    return min(int(budget / (spending.matched * cost)) for budget, cost in limits if budget is not None)


def wire_bits(q: int) -> int:
    """The fewest bits with which messages hardly fail after differences have doubled."""
    return next(row.b for row in wire_table(q, sure=True) if row.jump <= FAILING)


def coupling(spending: Spending) -> str:
    """G above the crossover H² = (pairs − 1) ‖ā‖², I below; G if nothing is known of the nodes' gradients."""
    return "G" if spending.spread is None or spending.spread > spending.pairs - 1 else "I"


def subspace(spending: Spending, chosen: Setting) -> int | None:
    """The largest power of two that is touched often enough; None if all coordinates are, or are few."""
    largest = largest_subspace(chosen.q, chosen.rounds, spending.gap, LEFT)
    m = max(LEAST_DIMENSIONS, chosen.q, 2 ** (largest.bit_length() - 1))
    return None if largest >= spending.d or 2 * m > spending.d else m


def _why_size(spending: Spending, chosen: Setting, best: Fraction) -> str:
    given = [show_bits(spending.bits)] if spending.bits is not None else []
    given += [f"{spending.queries:,} queries"] if spending.queries is not None else []
    short = f", fewer than the {LEAST_ROUNDS} that steps should have" if chosen.rounds < LEAST_ROUNDS else ""
    K, one = chosen.how.K, float(norm_factor(spending.d, chosen.q))
    return (
        f"q = {chosen.q:,}, {K} orthogonal direction{'s' * (K > 1)}: {' and '.join(given)} per node pay for "
        f"{chosen.rounds:,} rounds{short}. E‖ĝ‖² is {float(chosen.factor):,.3g} ‖g‖², against {one:,.3g} "
        f"‖g‖² with one direction, and T/φ {float(chosen.gain / best):.0%} of the best there is; of settings "
        "that get as much, this touches coordinates most often."
    )


def _why_sides(spending: Spending, chosen: Setting) -> str:
    if spending.by_rows:
        return (
            f"Two sides: each direction has rows of its own among {spending.batch} examples, so both sides "
            "of all directions cost two queries."
        )
    K = chosen.how.K
    return (
        f"One side: {K + 1} queries a round in place of {2 * K}, with the same mean. Take two sides where "
        "single evaluations are noisy: one side has four times the variance of theirs."
    )


def _why_wire(q: int, b: int) -> str:
    c = largest_c(b, sure=True)
    jump, fewer = (failure(largest_c(k, sure=True) / 2, q, k, sure=True) for k in (b, b - 1))
    return (
        f"Wire mod{b}: scales shrink by themselves up to c = {c:.3g}, and a message then fails with "
        f"probability {jump:.1g} even right after differences have doubled; with {b - 1} bits it would be "
        f"{fewer:.2g}. A message has {q * b + HEAD_BITS:,} bits with its head."
    )


def _why_coupling(spending: Spending) -> str:
    edge = spending.pairs - 1
    if spending.spread is None:
        return (
            "Coupling G: differences of nodes cancel under a common direction. Where they are alike, H² "
            f"below {edge} ‖ā‖², I averages better: try both."
        )
    side = "above" if spending.spread > edge else "not above"
    found = f"H² = {spending.spread:.3g} ‖ā‖² is {side} the crossover at {edge} ‖ā‖²"
    return f"Coupling {coupling(spending)}: {found}."


def _why_subspace(spending: Spending, chosen: Setting, m: int | None) -> str:
    T, needed = chosen.rounds, touches_needed(spending.gap, LEFT)
    touched = T * chosen.q / spending.d
    if m is None and touched >= needed:
        return f"No subspace: coordinates are touched {touched:,.3g} times, {needed:.3g} are enough to agree."
    if m is None:
        few = f"No subspace, as fewer than {LEAST_DIMENSIONS:,} dimensions can learn less"
        return (
            f"{few}: coordinates are touched {touched:,.3g} times of the {needed:.3g} that agreement needs."
        )
    left = math.exp(-spending.gap * touched), float(share_left(m, chosen.q, T, spending.gap))
    return (
        f"Subspace of {m:,}: of {spending.d:,} coordinates each would be touched {touched:,.3g} times, which "
        f"leaves {left[0]:.0%} of a disagreement; of {m:,} each is touched {T * chosen.q / m:,.3g} times, "
        f"which leaves {left[1]:.1%}."
    )
