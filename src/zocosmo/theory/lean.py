"""The same mixing from fewer matchings with integer weights: laws short enough for a config."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from zocosmo.theory.semidefinite import FINEST, best_mixture, least, polished

Array = NDArray[np.float64]
Column = tuple[int, ...]  # a matching, as indices into the list of edges

TOTAL = 2**40  # denominator of the weights if no small one serves
MOST_SMALL = 720  # denominators below it are tried first


def incidence(columns: Sequence[Column], size: int) -> Array:
    """(edges, matchings) of zeros and ones."""
    B = np.zeros((size, len(columns)))
    for m, column in enumerate(columns):
        B[list(column), m] = 1
    return B


def few(columns: Sequence[Column], pi: Array, size: int) -> tuple[list[Column], Array]:
    """The same marginals from at most one more matching than there are edges (Carathéodory).

    Weights move along directions that keep all marginals until one reaches 0. The direction favours columns
    found first, which are the simplest.
    """
    pi = pi / pi.sum()
    rows = np.vstack([incidence(columns, size), np.ones(len(columns))])
    kept = np.flatnonzero(pi > 1e-14)
    while True:
        _, values, Vt = np.linalg.svd(rows[:, kept])
        null = Vt[int((values > 1e-9 * values[0]).sum()) :]
        if not len(null):
            return [columns[k] for k in kept.tolist()], pi[kept]
        slide = null.T @ (null @ -kept.astype(float))
        if np.abs(slide).max() < 1e-9 * len(columns):
            slide = null[0] if null[0].min() < 0 else -null[0]
        falls = np.flatnonzero(slide < -1e-12 * np.abs(slide).max())
        out = falls[np.argmin(pi[kept][falls] / -slide[falls])]
        pi[kept] = np.maximum(pi[kept] + slide * pi[kept[out]] / -slide[out], 0)
        kept = np.delete(kept, out)
        kept = kept[pi[kept] > 1e-14]


def leaner(a: Array, columns: list[Column], pi: Array, tolerance: float) -> tuple[list[Column], Array]:
    """Drop matchings that the others can replace: each is tried once, smallest weight first."""
    goal = (1 - tolerance) * least(a, incidence(columns, a.shape[1]) @ pi)
    for column in [columns[k] for k in np.argsort(pi, kind="stable").tolist()]:
        fewer = [each for each in columns if each != column]
        if not fewer:
            break
        B = incidence(fewer, a.shape[1])
        found = best_mixture(a, B, FINEST)
        for weights in (found.pi, polished(a, B, found)[0]):
            if least(a, B @ weights) >= goal:
                columns, pi = fewer, weights
    kept = np.flatnonzero(pi)
    return [columns[k] for k in kept.tolist()], pi[kept]


def widened(
    edges: Sequence[tuple[int, int]], columns: Sequence[Column], pi: Array
) -> tuple[list[Column], Array]:
    """Add every edge whose ends are free: L̄ only grows, so λ₂ never falls."""
    law: dict[Column, float] = {}
    for column, weight in zip(columns, pi.tolist(), strict=True):
        taken, busy = list(column), {node for k in column for node in edges[k]}
        for k, pair in enumerate(edges):
            if not busy & set(pair):
                taken.append(k)
                busy |= set(pair)
        full = tuple(sorted(taken))
        law[full] = law.get(full, 0.0) + weight
    return list(law), np.array(list(law.values()))


def rounded(a: Array, columns: Sequence[Column], pi: Array, total: int, per: str) -> dict[Column, Fraction]:
    """Weights over the smallest denominator that loses less than 1e-11 of the value, else over `total`."""

    def worth(parts: NDArray[np.int64]) -> float:
        c = incidence(columns, a.shape[1]) @ (parts / parts.sum())
        return least(a, c) / (1.0 if per == "round" else float(c.sum()))

    goal = worth(_parts(pi, TOTAL)) * (1 - 1e-11)
    for whole in [*range(1, min(MOST_SMALL, total)), total]:
        parts = _parts(pi, whole)
        if whole == total or (np.abs(parts - pi * whole).max() < 1e-4 and worth(parts) >= goal):
            break
    return {
        column: Fraction(int(part), whole)
        for column, part in zip(columns, parts.tolist(), strict=True)
        if part
    }


def _parts(pi: Array, whole: int) -> NDArray[np.int64]:
    """Integers of sum `whole`, each within 1 of its share: the largest remainders are rounded up."""
    exact = pi / pi.sum() * whole
    parts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    parts[np.argsort(parts - exact, kind="stable")[: whole - int(parts.sum())]] += 1
    return parts
