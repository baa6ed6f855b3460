"""Pure mixing, η = 0, by the real method over the real channel."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.check import Check
from zocosmo.checks.row import About, Row
from zocosmo.checks.setting import Setting, is_uniform, on_matchings
from zocosmo.oracle import disagreement
from zocosmo.theory import mixing, ring


def energies(setting: Setting, x: NDArray[Any], rounds: int) -> NDArray[Any]:
    """‖ΠX‖² after so many rounds of pure mixing, along every tape."""
    left = [
        setting.n * disagreement(sim.states(), sim.states().mean(axis=-2))
        for _, sim in setting.simulated(rounds, x=x, eta=0.0)
    ]
    return np.concatenate(left)


def why_not_mixing(setting: Setting) -> str:
    kind = setting.method.kind
    if kind not in ("edge_local", "cosmo", "dense"):
        return "the paper has no formula for how it mixes"
    if setting.is_large:
        return f"states of {setting.n * setting.d:,} numbers"
    if kind != "dense" and not is_uniform(setting):
        return "balanced supports are not drawn afresh in every round"
    if kind == "edge_local" and setting.cycle is None:
        return f"the law of {setting.world.schedule_name} matchings of this graph has too many of them"
    return ""


def one_round(setting: Setting, about: About) -> Iterator[Row]:
    Y = setting.spread_states()
    if on_matchings(setting):
        assert setting.cycle is not None
        left = setting.cycle.first(Y.tolist(), setting.q)
        label = "eq:edge_laplacian_energy"
    else:
        W = mixing.metropolis_weights(setting.n, setting.graph.edges).astype(float)
        W = np.linalg.matrix_power(W, getattr(setting.method, "passes", 1))
        left = mixing.masked_energy(Y.astype(float), W, q=setting.q)
        label = "eq:masked_contraction_witness"
    yield about._replace(label=label).sampled(float(left), energies(setting, Y, 1), "‖ΠX‖², η = 0")


def why_not_block(setting: Setting) -> str:
    if not on_matchings(setting):
        return "mixes with all neighbours, not on matchings"
    if setting.world.schedule_name != "alternating" or setting.n < 4:
        return "about the alternating schedule of an even ring"
    return why_not_mixing(setting)


def block(setting: Setting, about: About) -> Iterator[Row]:
    """From the states that a block of two rounds contracts least."""
    sizes: dict[str, Any] = {"q": setting.q, "d": setting.d, "common": setting.common}
    v = ring.block_witness(setting.n, **sizes)
    kept = energies(setting, np.repeat(v[:, None], setting.d, axis=1), 2) / setting.d
    paper = 1 - ring.paper_block_gap(setting.n, q=setting.q, d=setting.d)
    note = f"worst states; published bound {paper:.4g}, {ring.looseness(setting.n, **sizes):.2f} × looser"
    yield about.sampled(1 - ring.block_gap(setting.n, **sizes), kept, note)


def _words(setting: Setting) -> str:
    if not on_matchings(setting):
        return f"{setting.of_method}, d={setting.d}, {setting.on_graph}"
    shared = "common support" if setting.common else "a support per pair"
    return f"edge_local q={setting.q}, d={setting.d}, {shared}, {setting.on_schedule}"


MIXING = Check("one round of mixing", "eq:edge_laplacian_energy", why_not_mixing, _words, one_round)
BLOCK = Check("two rounds of the ring", "eq:alternating_ring_block_gap", why_not_block, _words, block)
