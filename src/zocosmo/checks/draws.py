"""What the tape draws: supports and matchings, counted."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.check import Check
from zocosmo.checks.row import About, Row, share_errors
from zocosmo.checks.setting import Setting, is_uniform, on_matchings
from zocosmo.core.balanced import balanced_support
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Sparse
from zocosmo.theory import coverage, mixing

PER_TAPE = 16  # draws of one tape, for as many as there are tapes elsewhere
MOST_COUNTED = 2**14  # coordinates that are counted one by one

Index = NDArray[np.int64]


def supports(setting: Setting, tape: Tape, t: Any) -> Index:
    """One support for each tape and round, (…, q): of node 0, or of the first node that does not idle."""
    draw = setting.method.draw(setting.world, tape, np.asarray(t))
    index = draw.u.index
    if index.shape[-2] == 1:
        return index[..., 0, :]
    node = np.zeros(index.shape[:-2], np.int64)
    if draw.partners is not None:
        node = (draw.partners != np.arange(setting.n)).argmax(axis=-1)
    return np.take_along_axis(index, node[..., None, None], axis=-2)[..., 0, :]


def balanced(setting: Setting, tape: Tape, t: int) -> Index:
    """The support of one pair, (…, q): its epochs are its own, and it may not be active in every round."""
    return balanced_support(tape, t, *(() if setting.common else (0, 1)), d=setting.d, q=setting.q).index


def why_not_supports(setting: Setting) -> str:
    if not isinstance(setting.method, Sparse) or setting.method.kind == "marina_type":
        return "there is no support of q coordinates in every round"
    if setting.d > MOST_COUNTED:
        return f"d = {setting.d:,} coordinates are too many to count one by one"
    return ""


def marginals(setting: Setting, about: About) -> Iterator[Row]:
    """Each coordinate in a share q/d of rounds; of balanced supports, once in every epoch."""
    d, q, tape = setting.d, setting.q, setting.tape()
    if is_uniform(setting):
        rounds = PER_TAPE * setting.tapes
        counts = np.bincount(supports(setting, tape, np.arange(rounds)).ravel(), minlength=d)
        p = float(coverage.exposure(d, q, 1))
        note = f"the worst of {d} coordinates over {rounds:,} rounds"
        yield about.worst(p, counts / rounds, share_errors(p, rounds), note)
        return
    epoch = coverage.epoch_length(d, q)
    visits = np.concatenate([balanced(setting, tape, t) for t in range(epoch)])
    off = int(np.abs(np.bincount(visits, minlength=d) - 1).max())
    yield about.equal(0, off, f"visits but one, in an epoch of {epoch} rounds")


def covered(setting: Setting, about: About) -> Iterator[Row]:
    """The share of coordinates visited in T rounds, along every tape."""
    d, q = setting.d, setting.q
    rounds = min(setting.plan.last, 1 + int(1.5 * d / q))
    tapes, visited = Tape.stack(setting.seeds()), np.zeros((setting.tapes, d), bool)
    draw = supports if is_uniform(setting) else balanced
    for t in range(rounds):
        np.put_along_axis(visited, draw(setting, tapes, t), True, axis=-1)
    law = coverage.expected_coverage if is_uniform(setting) else coverage.balanced_coverage
    yield about.sampled(float(law(d, q, rounds)), visited.mean(axis=-1), f"after {rounds} rounds")


def why_not_matchings(setting: Setting) -> str:
    if not on_matchings(setting):
        return "mixes with all neighbours, not on matchings"
    if setting.cycle is None:
        return f"the law of {setting.world.schedule_name} matchings of this graph has too many of them"
    return ""


def drawn(setting: Setting) -> NDArray[Any]:
    """Partners of many rounds along one tape; whole cycles of a schedule that needs no coins."""
    cycle = setting.cycle
    assert cycle is not None
    rounds = PER_TAPE * setting.tapes
    if not cycle.is_iid:
        rounds = len(cycle.laws)  # type: ignore[union-attr]
    return setting.world.schedule.partners(setting.tape()[..., None], np.arange(rounds))


def edges(setting: Setting, about: About) -> Iterator[Row]:
    """P(e ∈ M) of every edge."""
    assert setting.cycle is not None
    partners, law = drawn(setting), setting.cycle.edge_law()
    expected = np.array([float(law.get(e, 0)) for e in setting.graph.edges])
    shares = np.array([np.mean(partners[:, i] == j) for i, j in setting.graph.edges])
    errors = share_errors(expected, len(partners)) if setting.cycle.is_iid else 0 * expected
    yield about.worst(expected, shares, errors, f"the worst of {len(shares)} edges, {len(partners):,} rounds")


def gap(setting: Setting, about: About) -> Iterator[Row]:
    """vᵀ L_M v averages to λ₂ where v is the slowest eigenvector of L̄: unbiased, unlike the λ₂ of a mean."""
    assert setting.cycle is not None
    L = mixing.laplacian(setting.n, setting.cycle.edge_law())
    v = slowest(L.astype(float))
    along = ((v[drawn(setting)] - v) ** 2).sum(axis=-1) / 2
    if not setting.cycle.is_iid:
        along = np.full(2, along.mean())  # a whole cycle, the same every time
    yield about.sampled(float(mixing.lambda2(L)), along, "along the slowest direction")


def slowest(L: NDArray[Any]) -> NDArray[Any]:
    """A unit vector of eigenvalue λ₂; of several, none that a symmetry of the graph singles out."""
    values, vectors = np.linalg.eigh(L)
    alike = vectors[:, 1:][:, np.isclose(values[1:], values[1])]
    v: NDArray[Any] = alike @ (alike.T @ np.sqrt(np.arange(2.0, 2.0 + len(L))))
    norm = np.sqrt((v * v).sum())
    return v / norm if norm > 1e-6 else alike[:, 0]


def _support_words(setting: Setting) -> str:
    rule = getattr(setting.method, "rule", "uniform")
    owner = {"edge_local": "per pair" if not setting.common else "common", "rand_k": "per node"}
    return f"d={setting.d} q={setting.q}, {rule}, {owner.get(setting.method.kind, 'common')}"


def _matching_words(setting: Setting) -> str:
    return setting.on_schedule


MARGINALS = Check("support marginal q/d", "eq:uut", why_not_supports, _support_words, marginals)
COVERAGE = Check("coverage", "eq:coordinate_exposure_v24", why_not_supports, _support_words, covered)
EDGES = Check("edge law P(e ∈ M)", "thm:edge_local_contraction", why_not_matchings, _matching_words, edges)
GAP = Check("λ₂ of the matchings", "eq:edge_ring_gap", why_not_matchings, _matching_words, gap)
