"""The second generation for a language model: subspace, q, K, wire, coupling, shift and step, with reasons.

What the rules rest on was measured on SmolLM2 and SST-2 (results/second-smollm2).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from zocosmo.core.signs import order
from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen
from zocosmo.llm.pilot import Pilot
from zocosmo.llm.survey import AGREE, ENOUGH, Level
from zocosmo.planner.network import pairing
from zocosmo.planner.propose import wire_bits
from zocosmo.planner.tree import wire_for
from zocosmo.theory.touches import touches_needed

RECIPES: dict[str, dict[str, Any]] = {  # entries of a method, whatever the run
    "edge_local": {"coupling": "G", "signs": "orthogonal", "step": "normalised", "rule": "balanced"},
    "tree_mean": {"signs": "orthogonal", "step": "normalised"},
}
USUAL = "tree_mean"  # where nobody names a method: 77 % on SST-2 in 400 rounds, where pairs have 74 %
SUPPORT = 224  # values of a message: 896 bits of 4 each, and its head
PER_ROUND = 8 / 3  # dimensions for each round: 1,024 for 400 were best, and 4,096 for 1,540
FEWEST, MOST = 512, 8192  # dimensions
TOUCHES = 25.0  # of each dimension in a run, or more: measured runs had 25 to 84
SPACE = 4096  # dimensions of a mean over a tree
ADDED = 0.05  # to the variance of a sum by its wire, whose bits are few anyway
LEFT = 0.1  # of a disagreement, which touches alone would leave
LENGTH, AT, BASE = 4.25, 400, 4  # the best step of pairs in 400 rounds of four nodes
MEAN_LENGTH = 2.83  # of a mean over a tree, whose average moves as far, however many nodes there are
SHRINKS = 0.3  # the best step falls as T^−0.3: 2.83 in 1,540 rounds
FARTHEST = math.sqrt(2)  # of steps of more nodes: of 16 nodes 4 was better than 8


class Shape(NamedTuple):
    """What is settled before anything is measured."""

    subspace: int | None
    q: int
    directions: int
    wire: str
    why: tuple[str, ...]
    kind: str = "edge_local"

    @property
    def method(self) -> dict[str, Any]:
        """Entries of the method in a config."""
        return {**RECIPES[self.kind], "q": self.q, "directions": self.directions, "wire": self.wire}

    @property
    def problem(self) -> dict[str, Any]:
        """Entries of the problem in a config."""
        return {"rows": "split", **({"subspace": {"size": self.subspace}} if self.subspace else {})}


def shape_for(
    d: int,
    rounds: int,
    batch: int,
    graph: Graph,
    schedule: Chosen = "auto",
    *,
    kind: str = "edge_local",
) -> Shape:
    """Subspace, q, K and wire of a run of some rounds with adapters of d numbers."""
    if kind == "tree_mean":
        return _shape_of_tree(d, batch, graph)
    need = _touches(graph, schedule)
    wanted = _power(max(FEWEST, min(MOST, PER_ROUND * rounds, max(FEWEST, SUPPORT * rounds / need))))
    m = wanted if 2 * wanted <= d else None
    q = min(SUPPORT, max(1, (m or d) // 2))
    K, b = min(batch, order(q)), wire_bits(q)
    touched = rounds * q / (m or d)
    space = (
        f"subspace of {m}: about {PER_ROUND:.3g} dimensions a round, {FEWEST} at least; with {q} values a "
        f"round each is touched {touched:.0f} times, and {need:.0f} are enough to agree"
        if m
        else f"no subspace: d = {d} is small, and touched {touched:.1f} times"
    )
    return Shape(
        m,
        q,
        K,
        f"mod{b}",
        (
            space,
            f"K = {K}: directions share out the {batch} rows of a batch, so more of them cost nothing",
            f"wire mod{b}: {q * b} bits of values a round, and hardly a message that cannot be read",
            "coupling G: common directions let differences of nodes cancel; 3 points ahead of I on SST-2",
        ),
    )


def _shape_of_tree(d: int, batch: int, graph: Graph) -> Shape:
    """Of a mean over a tree, whose nodes agree in every round and send K numbers whatever m is."""
    m = SPACE if d >= 2 * SPACE else None
    q = m or d
    K = min(batch, order(q))
    b, added = wire_for(graph, K, ADDED)
    space = f"subspace of {m}, all of it in every round" if m else f"no subspace: d = {d} is small"
    return Shape(
        m,
        q,
        K,
        f"grid{b}",
        (
            f"{space}: nodes agree whatever its size is, and a message has one number for each direction",
            f"K = {K}: directions share out the {batch} rows of a batch, so more of them cost nothing",
            f"wire grid{b}: it adds at most {added:.0%} to the variance of a sum where nodes differ by noise",
        ),
        "tree_mean",
    )


def _touches(graph: Graph, schedule: Chosen) -> float:
    """How often a dimension should come up: more on graphs that mix slowly."""
    if graph.n < 2:
        return TOUCHES
    name = schedule if isinstance(schedule, str) else "auto"
    return max(TOUCHES, touches_needed(pairing(graph, name, Tape(0)).gap / 2, LEFT))


def _power(size: float) -> int:
    """The power of two nearest in ratio."""
    return int(2 ** round(math.log2(size)))


def pick_shift(levels: Sequence[Level]) -> Level | None:
    """The largest μ that clears rounding and whose slopes agree with the next, or None."""
    fine = [level for level in levels[:-1] if level.snr >= ENOUGH and level.apart <= AGREE]
    return fine[-1] if fine else None


def length_for(rounds: int, nodes: int, share: float, kind: str = "edge_local") -> tuple[float, str]:
    """η of normalised steps, the length of a step, and why.

    Over a tree it is that of the average, and does not depend on how many nodes there are.

    In pairs `share` is ρ, what of the mean square of one slope all nodes have in common. Along a common
    direction the average of n such steps is √(ρ + (1 − ρ)/n) long: more nodes average more noise away, so
    each may go farther, until x̄ moves as far as that of four.
    """
    if kind == "tree_mean":
        eta = float(f"{MEAN_LENGTH * (AT / rounds) ** SHRINKS:.3g}")
        return eta, f"steps of length {eta:.3g}: {MEAN_LENGTH:g} in {AT} rounds, as T^-{SHRINKS:g}"
    moved = [math.sqrt(share + (1 - share) / n) for n in (BASE, nodes)]
    factor = min(max(moved[0] / moved[1], 1 / FARTHEST), FARTHEST)
    eta = float(f"{LENGTH * (AT / rounds) ** SHRINKS * factor:.3g}")
    why = f"steps of length {eta:.3g}: {LENGTH:g} in {AT} rounds of {BASE} nodes, as T^-{SHRINKS:g}"
    return eta, why + (f", × {factor:.3g} for {nodes} nodes" if nodes != BASE else "")


def rescaled(pilots: Sequence[Pilot], rounds: int, planned: int) -> tuple[float, tuple[str, ...]]:
    """The length that did best in pilots of some rounds, for a run of the planned ones."""
    fine = [pilot for pilot in pilots if not pilot.diverged]
    if not fine:
        low = pilots[0].eta * (rounds / planned) ** SHRINKS
        return low, (f"eta = {low:.3g}: all pilots diverged; the smallest tried, for {planned} rounds",)
    best = min(fine, key=lambda pilot: pilot.after)
    eta = float(f"{best.eta * (rounds / planned) ** SHRINKS:.3g}")
    return eta, (
        f"pilots: steps of length {best.eta:.3g} lower the loss most, {best.before:.4f} → {best.after:.4f}",
        f"steps of length {eta:.3g}: that, times ({rounds}/{planned})^{SHRINKS:g} for a longer run",
    )
