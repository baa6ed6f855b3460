"""Which nodes of a problem: a process that hosts a few of them asks only their losses."""

from collections.abc import Sequence
from operator import lt

from zocosmo.errors import InputError, check_whole


def check_nodes(nodes: Sequence[int], n: int) -> list[int]:
    """Nodes out of 0…n−1, one or more, ascending: a problem keeps its order, whoever asks for a part of it.

    >>> check_nodes((1, 3), 4)
    [1, 3]
    """
    found = [check_whole("a node", node, 0, n - 1) for node in nodes]
    if not found or not all(map(lt, found, found[1:])):
        raise InputError(f"nodes must be one or more, in ascending order, each once; got {found}")
    return found
