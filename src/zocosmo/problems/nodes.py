"""Selecting nodes of a problem: a process evaluates only the losses of its own nodes."""

from collections.abc import Sequence
from operator import lt

from zocosmo.errors import InputError, check_whole


def check_nodes(nodes: Sequence[int], n: int) -> list[int]:
    """One or more of the nodes 0…n−1, in ascending order.

    >>> check_nodes((1, 3), 4)
    [1, 3]
    """
    found = [check_whole("a node", node, 0, n - 1) for node in nodes]
    if not found or not all(map(lt, found, found[1:])):
        raise InputError(f"nodes must be one or more, in ascending order, each once; got {found}")
    return found
