"""Several sign vectors on one support   [PROTOCOL.md, "sign" and "rows"]

Independent vectors are read one after the other from one stream, of which the first is read alone where there
is one direction. Orthogonal ones are the first times rows of a Hadamard matrix.
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


def draw_sign_vectors(
    tape: Tape, t: Ids, *ids: Ids, q: int, directions: int, signs: Signs
) -> NDArray[np.int8]:
    """All K sign vectors of a round, edge or node, (…, K, q); vector 0 is that of `draw_signs`.

    >>> draw_sign_vectors(Tape(0), 3, 1, 2, q=5, directions=2, signs="independent").tolist()
    [[1, -1, -1, 1, 1], [-1, -1, -1, 1, -1]]
    >>> four = draw_sign_vectors(Tape(0), 3, q=4, directions=4, signs="orthogonal")
    >>> (four.astype(int) @ four.T).tolist()
    [[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4]]
    """
    check_known("signs", signs, SIGNS)
    check_whole("directions", directions, 1, order(q) if signs == "orthogonal" else None)
    drawn = draw_signs(tape, t, *ids, q=q * directions if signs == "independent" else q)
    if signs == "independent" or directions == 1:
        return drawn.reshape(*drawn.shape[:-1], directions, q)
    rows = distinct(tape.coins("rows", t, *ids), order(q) - 1, directions - 1)
    vectors = np.empty((*drawn.shape[:-1], directions, q), np.int8)
    vectors[..., 0, :] = drawn
    np.multiply(drawn[..., None, :], hadamard(1 + rows, q), out=vectors[..., 1:, :])
    return vectors


def first_and_more(vectors: NDArray[np.int8]) -> tuple[NDArray[np.int8], NDArray[np.int8] | None]:
    """Sign vectors (…, n, K, q) of every node as (…, n, q) and (…, K − 1, n, q), each in one piece; None for
    K = 1."""
    more = np.ascontiguousarray(vectors[..., 1:, :].swapaxes(-2, -3)) if vectors.shape[-2] > 1 else None
    return vectors[..., 0, :], more
