"""Pure mixing, η = 0, with the real method over the real channel."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.case import Case, not_exact, not_fresh, not_on_matchings, too_large, unknown_law
from zocosmo.checks.check import Check
from zocosmo.checks.measurement import About, Measurement
from zocosmo.oracle import disagreement
from zocosmo.theory import mixing, ring


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


def _words(case: Case) -> str:
    if not case.on_matchings:
        return f"{case.of_method}, d={case.d}, {case.on_graph}"
    shared = "common support" if case.common else "a support per pair"
    return f"edge_local q={case.q}, d={case.d}, {shared}, {case.on_schedule}"


MIXING = Check("one round of mixing", "eq:edge_laplacian_energy", why_not_mixing, _words, one_round)
BLOCK = Check("two rounds of the ring", "eq:alternating_ring_block_gap", why_not_block, _words, block)
