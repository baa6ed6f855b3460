"""How examples are split over nodes: evenly at random, or with skewed labels."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.problems.draws import Array, uniforms

Index = NDArray[np.int64]

SPLITS = ("iid", "dirichlet")
MAX_REDRAWS = 1000


def split(
    labels: NDArray[Any],
    n: int,
    *,
    how: str = "iid",
    alpha: float = 1.0,
    tape: Tape,
    least: int = 1,
    word: str = "alpha",
) -> list[Index]:
    """The examples of each of n nodes: a partition, ascending, with at least `least` examples per node.

    iid shuffles and cuts into sizes that differ by at most one. dirichlet cuts each class by its own shares,
    drawn from Dirichlet(α, …, α) over nodes: the smaller α, the more the labels of nodes differ. `word` is
    the caller's name for α.

    >>> [part.tolist() for part in split(np.array([0, 1, 0, 1, 0]), 2, tape=Tape(0))]
    [[1, 2, 3], [0, 4]]
    """
    check_known("split", how, SPLITS)
    check_positive(word, alpha)
    labels = np.asarray(labels)
    if labels.ndim != 1 or tape.shape != ():
        raise InputError(
            f"a split needs labels on one axis and a tape of one key, got {labels.shape}, {tape.shape}"
        )
    least = check_whole("the least number of examples of a node", least, 1)
    check_whole(f"nodes that share {labels.size} examples, {least} or more each,", n, 1, labels.size // least)
    if how == "iid":
        order = tape.coins("split").permutation(labels.size)
        return [np.sort(part) for part in np.array_split(order, n)]
    for attempt in range(MAX_REDRAWS):
        owner = _dirichlet_owners(labels, n, alpha, tape, attempt)
        if np.bincount(owner, minlength=n).min() >= least:
            return [np.flatnonzero(owner == i) for i in range(n)]
    raise InputError(
        f"{MAX_REDRAWS} Dirichlet splits with {word} = {alpha} all left one of {n} nodes with fewer than "
        f"{least} examples; raise {word}, or use fewer nodes"
    )


def _dirichlet_owners(labels: NDArray[Any], n: int, alpha: float, tape: Tape, attempt: int) -> Index:
    """The node of each example, in one attempt."""
    owner = np.empty(labels.size, np.int64)
    for c, name in enumerate(np.unique(labels)):
        members = np.flatnonzero(labels == name)
        order = members[tape.coins("order", attempt, c).permutation(members.size)]
        ends = np.floor(np.cumsum(dirichlet(tape, attempt, c, n=n, alpha=alpha)) * members.size)
        owner[order] = np.searchsorted(ends[:-1], np.arange(members.size), side="right")
    return owner


def dirichlet(tape: Tape, *ids: int, n: int, alpha: float) -> Array:
    """n shares from Dirichlet(α, …, α): gammas of shape α, divided by their sum.

    Gamma(α) is Gamma(α + 1) · U^(1/α), in logarithms so that it does not underflow for small α.
    """
    from scipy.special import gammaincinv  # here: slow to import

    u = uniforms(tape, "gamma", *ids, size=2 * n)
    logs = np.log(gammaincinv(alpha + 1.0, u[:n])) + np.log(u[n:]) / alpha
    gammas = np.exp(logs - logs.max())
    shares: Array = gammas / gammas.sum()
    return shares


def check_positive(what: str, given: float, *, zero: bool = False) -> float:
    """A finite number above 0, or also 0 if `zero` is set."""
    number = float(given) if isinstance(given, int | float | np.number) else math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InputError(f"{what} must be a number {'≥' if zero else '>'} 0, got {given!r}")
    return number
