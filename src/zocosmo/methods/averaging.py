"""Updates that all nodes apply alike: no state is mixed, and nodes that start equal stay bit-identical."""

from typing import Any

import numpy as np

from zocosmo.core.support import Direction
from zocosmo.errors import GraphError
from zocosmo.methods.base import Values, World


def check_complete(kind: str, world: World) -> None:
    """Raise GraphError unless every node has a link to every other."""
    n = world.graph.n
    if len(world.graph.edges) != n * (n - 1) // 2:
        raise GraphError(f"{kind} needs a complete graph, got {world.graph!r}")


def move_by_mean(x: Values, h: Values, everyone: Direction, eta: Any) -> None:
    """x ← x − (η/N) Σ_j h_j in place, with h_j on the support of node j; all nodes add in the same order."""
    index, total = np.broadcast_to(everyone.index, h.shape), np.zeros_like(x[..., 0, :])
    for j in range(h.shape[-2]):
        at = index[..., j, :]
        np.put_along_axis(total, at, np.take_along_axis(total, at, -1) + h[..., j, :], axis=-1)
    x -= (eta / h.shape[-2]) * total[..., None, :]
