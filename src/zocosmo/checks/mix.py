"""Pure mixing, η = 0, with the real method over the real channel; sums over a tree on a grid."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import MemoryChannel
from zocosmo.checks.case import Case, not_exact, not_fresh, not_on_matchings, too_large, unknown_law
from zocosmo.checks.check import Check
from zocosmo.checks.measurement import About, Measurement
from zocosmo.core.grid import Grid
from zocosmo.core.noise import Noise
from zocosmo.core.tape import Tape
from zocosmo.methods import TreeMean, TreeSum
from zocosmo.oracle import disagreement
from zocosmo.theory import grid, mixing, ring
from zocosmo.traffic import up_the_tree

SUMMED = 4  # numbers of each node


def energies(case: Case, x: NDArray[Any], rounds: int) -> NDArray[Any]:
    """‖ΠX‖² after `rounds` rounds of pure mixing, along every tape."""
    left = [
        case.n * disagreement(sim.states(), sim.states().mean(axis=-2))
        for _, sim in case.simulated(rounds, x=x, eta=0.0)
    ]
    return np.concatenate(left)


def why_not_mixing(case: Case) -> str:
    kind = case.method.kind
    if kind not in ("edge_local", "cosmo", "dense"):
        return "the paper has no formula for how it mixes"
    if why := too_large(case) or ("" if kind == "dense" else not_fresh(case)):
        return why
    return not_exact(case) or (unknown_law(case) if case.on_matchings else "")


def one_round(case: Case, about: About) -> Iterator[Measurement]:
    Y = case.spread_states()
    if case.on_matchings:
        left = mixing.energy_after(Y, case.cycle.laws[0], q=case.q)
        label = "eq:edge_laplacian_energy"
    else:
        left = mixing.masked_energy(Y.astype(float), case.weights(), q=case.q)
        label = "eq:masked_contraction_witness"
    yield about._replace(label=label).sampled(float(left), energies(case, Y, 1), "‖ΠX‖², η = 0")


def why_not_block(case: Case) -> str:
    if why := not_on_matchings(case):
        return why
    if case.world.schedule_name != "alternating" or case.n < 4:
        return "only for the alternating schedule of an even ring"
    return why_not_mixing(case)


def block(case: Case, about: About) -> Iterator[Measurement]:
    """From the states that a block of two rounds contracts least."""
    sizes: dict[str, Any] = {"d": case.d, "q": case.q, "common": case.common}
    v = ring.block_witness(case.n, **sizes)
    kept = energies(case, np.repeat(v[:, None], case.d, axis=1), 2) / case.d
    paper = 1 - ring.paper_block_gap(case.n, d=case.d, q=case.q)
    note = f"worst states; published bound {paper:.4g}, {ring.looseness(case.n, **sizes):.2f} × looser"
    yield about.sampled(1 - ring.block_gap(case.n, **sizes), kept, note)


def why_not_sum(case: Case) -> str:
    if not isinstance(case.method, TreeMean | TreeSum):
        return "nothing is summed over a tree"
    if not isinstance(case.wire, Grid):
        return "only sums on a grid have errors with a formula"
    return too_large(case)


def sum_over_tree(case: Case, about: About) -> Iterator[Measurement]:
    """Of whole numbers, with the dither of every tape; the prediction knows the steps of all messages."""
    assert isinstance(case.wire, Grid)
    values, tapes = case.spread_states()[:, :SUMMED], Tape.stack(case.seeds())
    made: dict[str, Any] = {"d": case.d, "wire": case.wire.charged.name, "codecs": ["scalars"]}
    channel = MemoryChannel([case.graph] * case.tapes, **made, dtype=np.float64, tape=tapes)
    rows = np.broadcast_to(values.astype(float), (case.tapes, *values.shape))
    errors = channel.sum_values(rows)[:, 0] - values.sum(axis=0)
    parents = up_the_tree(case.graph)
    told, exact = [], [[Fraction(int(v)) for v in row] for row in values]
    for dither in (
        Noise(tapes, case.n).dither(0, np.arange(len(rows) * case.n), values.shape[1]).reshape(rows.shape)
    ):
        r = [[Fraction(float(v)) for v in row] for row in dither]
        told.append(float(grid.error_of_sum(grid.tree_sum(exact, parents, case.wire.bits, r)[1])))
    yield about.sampled(told, (errors**2).mean(axis=-1), f"mean square, {case.tapes} tapes")


def _of_sum(case: Case) -> str:
    return f"{case.wire.charged.name}, d={case.d}, {case.on_graph}"


def _words(case: Case) -> str:
    if not case.on_matchings:
        return f"{case.of_method}, d={case.d}, {case.on_graph}"
    shared = "common support" if case.common else "a support per pair"
    return f"edge_local q={case.q}, d={case.d}, {shared}, {case.on_schedule}"


MIXING = Check("one round of mixing", "eq:edge_laplacian_energy", why_not_mixing, _words, one_round)
BLOCK = Check("two rounds of the ring", "eq:alternating_ring_block_gap", why_not_block, _words, block)
SUM = Check("error of a sum over a tree", "ours", why_not_sum, _of_sum, sum_over_tree)
