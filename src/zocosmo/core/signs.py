"""Several sign vectors on one support: those after the first   [PROTOCOL.md, "signs" and "rows"]

Independent vectors have their own coins. Orthogonal ones are the first times rows of a Hadamard matrix.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.support import distinct, draw_signs
from zocosmo.core.tape import Ids, Tape
from zocosmo.errors import check_known, check_whole

Signs = Literal["independent", "orthogonal"]
SIGNS: tuple[Signs, ...] = get_args(Signs)


def order(q: int) -> int:
    """Q, the least power of two that is at least q: the order of the Hadamard matrix for q coordinates.

    >>> [order(q) for q in (1, 2, 3, 8, 9)]
    [1, 2, 4, 8, 16]
    """
    return 1 << (check_whole("q", q, 1) - 1).bit_length()


def most_directions(signs: Signs, directions: int, q: int) -> int:
    """How many of `directions` vectors there are on q coordinates: at most Q if they are orthogonal."""
    return min(directions, order(q)) if signs == "orthogonal" else directions


def hadamard(rows: NDArray[Any], q: int) -> NDArray[np.int8]:
    """Rows of the Sylvester matrix cut to q columns, (…, q): H[r, j] = (−1)^popcount(r & j)

    >>> hadamard(np.arange(4), 3).tolist()
    [[1, 1, 1], [1, -1, 1], [1, 1, -1], [1, -1, -1]]
    """
    kind = np.min_scalar_type(max(1, order(q) - 1))
    both = rows.astype(kind)[..., None] & np.arange(q, dtype=kind)
    return np.int8(1) - np.int8(2) * (np.bitwise_count(both) & np.uint8(1)).astype(np.int8)


def further_signs(
    tape: Tape, t: Ids, *ids: Ids, first: NDArray[np.int8], directions: int, signs: Signs
) -> NDArray[np.int8]:
    """Sign vectors 1 … K − 1 of the round, edge or node that `first`, vector 0, was drawn for: (…, K − 1, q).

    >>> eps = draw_signs(Tape(0), 3, q=4)
    >>> more = further_signs(Tape(0), 3, first=eps, directions=4, signs="orthogonal")
    >>> (more.astype(int) @ more.T).tolist()
    [[4, 0, 0], [0, 4, 0], [0, 0, 4]]
    """
    check_known("signs", signs, SIGNS)
    q = int(first.shape[-1])
    check_whole("directions", directions, 1, order(q) if signs == "orthogonal" else None)
    if directions == 1:
        return np.empty((*first.shape[:-1], 0, q), np.int8)
    if signs == "independent":
        each = (np.asarray(value)[..., None] for value in (t, *ids))
        return tape[..., None].coins("signs", np.arange(1, directions), *each).signs(q)
    rows = 1 + distinct(tape.coins("rows", t, *ids), order(q) - 1, directions - 1)
    return first[..., None, :] * hadamard(rows, q)


def before_nodes(more: NDArray[np.int8]) -> NDArray[np.int8]:
    """Sign vectors (…, n, K, q) of every node as (…, K, n, q), each vector in one piece."""
    return np.ascontiguousarray(more.swapaxes(-2, -3))


def draw_sign_vectors(
    tape: Tape, t: Ids, *ids: Ids, q: int, directions: int, signs: Signs
) -> NDArray[np.int8]:
    """All K sign vectors of a round, edge or node, (…, K, q).

    >>> draw_sign_vectors(Tape(0), 3, 1, 2, q=5, directions=2, signs="independent").tolist()
    [[1, -1, -1, 1, 1], [-1, 1, 1, -1, 1]]
    """
    first = draw_signs(tape, t, *ids, q=q)
    more = further_signs(tape, t, *ids, first=first, directions=directions, signs=signs)
    return np.concatenate([first[..., None, :], more], axis=-2)
