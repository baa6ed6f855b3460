"""What the tape draws: frequencies of supports and matchings."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.case import Case, not_on_matchings, unknown_law
from zocosmo.checks.check import Check
from zocosmo.checks.measurement import About, Measurement, share_errors
from zocosmo.core.balanced import balanced_support
from zocosmo.core.tape import Tape
from zocosmo.methods import TreeMean
from zocosmo.methods.base import Sparse
from zocosmo.methods.edge_local import EdgeLocalDraw
from zocosmo.theory import coverage

PER_TAPE = 16  # draws per tape, if draws of one tape replace many tapes
MOST_COUNTED = 2**14  # coordinates that are counted one by one

Index = NDArray[np.int64]


def supports(case: Case, tape: Tape, t: Any) -> Index:
    """One support for each tape and round, (…, q): that of node 0, or of the first active node."""
    draw = case.method.draw(case.world, tape, np.asarray(t))
    index = draw.u.index
    if index.shape[-2] == 1:
        return index[..., 0, :]
    node = np.zeros(index.shape[:-2], np.int64)
    if isinstance(draw, EdgeLocalDraw):
        node = (draw.partners != np.arange(case.n)).argmax(axis=-1)
    return np.take_along_axis(index, node[..., None, None], axis=-2)[..., 0, :]


def block(case: Case, tape: Tape, k: int) -> Index:
    """The k-th support that a node meets, (…, q).

    Balanced supports of pairs of their own are drawn directly: a pair may not be active in every round.
    """
    if case.rule == "uniform" or case.common or not case.on_matchings:
        return supports(case, tape, k * case.hold)
    return balanced_support(tape, k, 0, 1, d=case.d, q=case.q).index


def why_not_supports(case: Case) -> str:
    if not isinstance(case.method, Sparse | TreeMean) or case.method.kind == "marina_type":
        return "there is no support of q coordinates in every round"
    if case.d > MOST_COUNTED:
        return f"d = {case.d:,} is too many coordinates to count one by one"
    return ""


def marginals(case: Case, about: About) -> Iterator[Measurement]:
    """Each coordinate is in a share q/d of supports, or in one of an epoch if they are balanced."""
    d, q, tape = case.d, case.q, case.tape()
    if case.rule == "uniform":
        drawn = PER_TAPE * case.tapes
        counts = np.bincount(supports(case, tape, case.hold * np.arange(drawn)).ravel(), minlength=d)
        p = float(coverage.exposure(d, q, 1))
        note = f"the worst of {d} coordinates over {drawn:,} supports"
        yield about.worst(p, counts / drawn, share_errors(p, drawn), note)
        return
    epoch = coverage.epoch_length(d, q)
    visits = np.concatenate([block(case, tape, k) for k in range(epoch)])
    off = int(np.abs(np.bincount(visits, minlength=d) - 1).max())
    yield about.equal(0, off, f"visits other than one, in an epoch of {epoch} supports")


def covered(case: Case, about: About) -> Iterator[Measurement]:
    """The share of coordinates visited in T rounds, along every tape."""
    d, q = case.d, case.q
    met = min(-(-case.plan.last // case.hold), 1 + int(1.5 * d / q))  # supports
    tapes, visited = Tape.stack(case.seeds()), np.zeros((case.tapes, d), bool)
    for k in range(met):
        np.put_along_axis(visited, block(case, tapes, k), True, axis=-1)
    share = coverage.expected_coverage if case.rule == "uniform" else coverage.balanced_coverage
    note = f"after {met * case.hold} rounds"
    yield about.sampled(float(share(d, q, met)), visited.mean(axis=-1), note)


def why_not_matchings(case: Case) -> str:
    return not_on_matchings(case) or unknown_law(case)


def drawn(case: Case) -> NDArray[Any]:
    """Partners of many rounds along one tape, or of one cycle if the schedule is deterministic."""
    rounds = PER_TAPE * case.tapes if case.cycle.is_iid else len(case.cycle.laws)
    return case.world.schedule.partners(case.tape()[..., None], np.arange(rounds))


def edges(case: Case, about: About) -> Iterator[Measurement]:
    """P(e ∈ M) of every edge."""
    partners, law = drawn(case), case.cycle.mean
    expected = np.array([float(law.edges.get(e, 0)) for e in case.graph.edges])
    shares = np.array([np.mean(partners[:, i] == j) for i, j in case.graph.edges])
    errors = share_errors(expected, len(partners)) if case.cycle.is_iid else 0 * expected
    yield about.worst(expected, shares, errors, f"the worst of {len(shares)} edges, {len(partners):,} rounds")


def gap(case: Case, about: About) -> Iterator[Measurement]:
    """vᵀ L_M v averages to λ₂ for the slowest eigenvector v of L̄: unbiased, unlike λ₂ of a sample mean."""
    law = case.cycle.mean
    v = slowest(law.laplacian.astype(float))
    along = ((v[drawn(case)] - v) ** 2).sum(axis=-1) / 2
    if not case.cycle.is_iid:
        along = np.full(2, along.mean())  # a whole cycle has no variance
    yield about.sampled(float(law.lambda2), along, "along the slowest direction")


def slowest(L: NDArray[Any]) -> NDArray[Any]:
    """A unit eigenvector of λ₂; a generic one if λ₂ is degenerate."""
    values, vectors = np.linalg.eigh(L)
    alike = vectors[:, 1:][:, np.isclose(values[1:], values[1])]
    v: NDArray[Any] = alike @ (alike.T @ np.sqrt(np.arange(2.0, 2.0 + len(L))))
    norm = np.sqrt((v * v).sum())
    return v / norm if norm > 1e-6 else alike[:, 0]


def _support_words(case: Case) -> str:
    owner = {"edge_local": "per pair" if not case.common else "common", "rand_k": "per node"}
    held = f", hold {case.hold}" if case.hold > 1 else ""
    return f"d={case.d} q={case.q}, {case.rule}, {owner.get(case.method.kind, 'common')}{held}"


MARGINALS = Check("support marginal q/d", "eq:uut", why_not_supports, _support_words, marginals)
COVERAGE = Check("coverage", "eq:coordinate_exposure_v24", why_not_supports, _support_words, covered)
EDGES = Check(
    "edge law P(e ∈ M)", "thm:edge_local_contraction", why_not_matchings, attrgetter("on_schedule"), edges
)
GAP = Check("λ₂ of the matchings", "eq:edge_ring_gap", why_not_matchings, attrgetter("on_schedule"), gap)
