"""One-hop compatibility: do the messages suffice to mix exactly?   [thm:one_hop_compatibility]"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.support import Support
from zocosmo.errors import InputError, SupportMismatch, check_whole

Targets = Mapping[int, Support]  # receiver → K, the support it mixes on
SentSupports = Mapping[tuple[int, int], Support]  # (sender, receiver) → S, the support of that message


class Gap(NamedTuple):
    """Coordinates that a receiver mixes on and a sender's message lacks.

    `error` is the theorem's minimax error on each of them, |w_ij| · R, when |x_j| ≤ R = `radius`.
    """

    receiver: int
    sender: int
    missing: NDArray[np.int64]
    error: float


def find_gaps(
    targets: Targets, sent: SentSupports, weights: NDArray[Any], *, radius: float = 1.0
) -> list[Gap]:
    """Every link whose message lacks coordinates; an empty list means that mixing is exact.

    Only peers j ≠ i with w_ij ≠ 0 are required. A message that is not sent covers nothing.

    >>> K, S = Support(np.array([1, 2]), d=4), Support(np.array([2, 3]), d=4)
    >>> find_gaps({0: K}, {(1, 0): S}, np.full((2, 2), 0.5), radius=3.0)
    [Gap(receiver=0, sender=1, missing=array([1]), error=1.5)]
    """
    W = np.asarray(weights)
    if W.ndim != 2 or W.shape[0] != W.shape[1] or W.dtype.kind not in "iuf" or not np.isfinite(W).all():
        raise InputError(
            f"weights must be a square matrix of finite numbers, got {W.dtype} of shape {W.shape}"
        )
    if not radius >= 0:
        raise InputError(f"radius must be 0 or more, got {radius}")
    gaps = []
    for receiver, target in sorted(targets.items()):
        check_whole("a receiver", receiver, 0, len(W) - 1)
        for sender in np.flatnonzero(W[receiver]).tolist():
            if sender == receiver:
                continue
            missing = _missing(target, sent.get((sender, receiver)))
            if missing.size:
                gaps.append(Gap(receiver, sender, missing, abs(float(W[receiver, sender])) * radius))
    return gaps


def check_cover(targets: Targets, sent: SentSupports, weights: NDArray[Any], *, radius: float = 1.0) -> None:
    """Raise SupportMismatch, naming the first gap and their number, unless mixing is exact."""
    gaps = find_gaps(targets, sent, weights, radius=radius)
    if gaps:
        first, more = gaps[0], f" ({len(gaps) - 1} more links have gaps)" if len(gaps) > 1 else ""
        raise SupportMismatch(
            f"node {first.receiver} mixes on {targets[first.receiver].q} coordinates, but the message from "
            f"node {first.sender} lacks {first.missing.size} of them (first: {first.missing[0]}), an error "
            f"of up to {first.error:g}; draw both supports with the same seed, round and edge{more}"
        )


def _missing(target: Support, sent: Support | None) -> NDArray[np.int64]:
    for support in (target, sent):
        if support is not None and (support.index.ndim != 1 or support.d != target.d):
            raise InputError(f"compare single supports of the same d, got {target!r} and {sent!r}")
    if sent is None:
        return target.index
    return np.setdiff1d(target.index, sent.index, assume_unique=True)
