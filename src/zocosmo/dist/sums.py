"""Sums over the public tree: those of subtrees go up to node 0, and the total comes down."""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from zocosmo.core.wire import Letters
from zocosmo.dist.tree import Tree

Values = NDArray[Any]
Link = tuple[int, int]
Carry = Callable[[list[Link], Mapping[int, Letters]], Mapping[Link, Letters]]
# takes the links of a stage and the letters of their senders here; gives the letters that nodes here hear


def sums_up(
    tree: Tree,
    rows: dict[int, Values],
    carry: Carry,
    *,
    write: Callable[[Values, int], Letters],
    add: Callable[[Values, Letters, int], Values],
) -> dict[int, Values]:
    """The sum of the subtree of each node here, from the row of each.

    `write` makes a letter of a node's sum, and `add` adds the letter of a node to one. A node adds what its
    children send in the reverse order of the search that made the tree, as the simulator does.
    """
    sums, place = dict(rows), {node: k for k, node in enumerate(tree.parent)}
    for stage in tree.stages(True):
        heard = carry(stage, {i: write(sums[i], i) for i, _ in stage if i in sums})
        for i, j in sorted(heard, key=lambda link: -place[link[0]]):
            sums[j] = add(sums[j], heard[i, j], i)
    return sums


def total_down(tree: Tree, root: Letters | None, carry: Carry) -> Letters:
    """The letter of the root, as it comes to the nodes here; `root` is None if node 0 is elsewhere."""
    known = {} if root is None else {0: root}
    for stage in tree.stages(False):
        heard = carry(stage, {i: known[i] for i, _ in stage if i in known})
        known |= {j: letter for (_, j), letter in heard.items()}
    return next(iter(known.values()))
