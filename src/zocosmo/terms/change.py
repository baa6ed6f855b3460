"""What a change of members does to states and links.

- A member that stays keeps all it has.
- A joiner takes the x of its source, with no momentum, no running mean and no corrections.
- A leaver, polite or dead, takes its state along and hands nothing over.
- A link of both terms keeps its memory. A new link has none, and its first messages are wide.
- A half exchange on a link that both ends survive, but the graph drops, waits until they meet again.
- A half exchange with a leaver stands: nobody undoes it.

Let S be the sum of states less all open debts. A change adds x of the source for each joiner, and subtracts x
of each leaver less the debts on its links, whichever end holds them. Nothing else changes S: exactly, where
sums are exact.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.exchanges import Debt, Exchanges
from zocosmo.meetings import Meetings
from zocosmo.terms.events import Change, Join
from zocosmo.terms.members import Term

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Link = tuple[int, int]


class Rows(NamedTuple):
    """Where the rows of a new term come from."""

    source: Index  # position in the old term: a member's own, or that of the source of its state
    fresh: Mask  # which are joiners


def rows_of(old: Term, new: Term, changes: Sequence[Change]) -> Rows:
    """Of all members of the new term, by position."""
    sources = {change.node: change.source for change in changes if isinstance(change, Join)}
    fresh = np.isin(new.ids, np.fromiter(sources, np.int64, len(sources)))
    whose = new.ids.copy()
    whose[fresh] = [sources[node] for node in new.ids[fresh].tolist()]
    return Rows(np.searchsorted(old.ids, whose), fresh)


def carry_state(state: Any, rows: Rows) -> Any:
    """A method's state (…, n, d) after a change: x by source, all else 0 for joiners."""
    kept = {}
    for name, part in state._asdict().items():
        if part is not None:
            kept[name] = part = part.take(rows.source, axis=-2)
            if name != "x":
                part[..., rows.fresh, :] = 0
    return state._replace(**kept)


class Waiting(NamedTuple):
    """What a node keeps of a link that its term does not have."""

    applied: int  # exchanges, mod 4
    places: Index | None  # of the last one, if it is not confirmed
    delta: Values | None


class Here(NamedTuple):
    """The members of a term that are in one process, and all of them; ids ascending."""

    ids: Index
    here: Index
    sees_all: bool  # both ends of every link are here, so only real debts are kept


class Carried(NamedTuple):
    """What is left over when links are carried from term to term."""

    waiting: dict[Link, Waiting]  # by ids of a member here and its peer
    dropped: list[Debt]  # with a leaver at one end; rows are of the old term


def carry_links(
    old: Exchanges, new: Exchanges, before: Here, after: Here, waiting: dict[Link, Waiting]
) -> Carried:
    """Fill the memory of a new term from that of the old, and from what waits for a link to come back."""
    keys, coming = _keys(old, before), _keys(new, after)
    place = np.minimum(np.searchsorted(coming, keys), max(len(coming) - 1, 0))
    stays = coming[place] == keys if len(coming) else np.zeros(len(keys), bool)
    fresh_links(new)
    for name in old.by_link:
        vars(new)[name][place[stays]] = vars(old)[name][stays]
    _carry_nodes(old, new, before.here, after.here)
    left, dropped = _park(old, before, after, stays, place, new)
    known, back = set(after.ids.tolist()), dict[Link, Waiting]()
    for link, kept in {**waiting, **left}.items():
        if link[0] in known and link[1] in known:
            back[link] = kept
        elif kept.places is not None and kept.delta is not None:
            dropped.append(Debt(-1, kept.places, kept.delta))
    return Carried(_return(new, after, back, coming), dropped)


def fresh_links(memory: Exchanges) -> None:
    """Links of a term after the first: ends may be far apart, so the first messages are wide."""
    if isinstance(memory, Meetings):
        memory.wide[...] = True


def _keys(memory: Exchanges, at: Here) -> Index:
    """One word for each link, by ids: ascending, as links are."""
    ends = at.ids[memory.ends]
    return ends[:, 0] << 32 | ends[:, 1]


def _carry_nodes(old: Exchanges, new: Exchanges, before: Index, after: Index) -> None:
    """Counts and scales of the nodes that are here in both terms."""
    _, mine, theirs = np.intersect1d(before, after, assume_unique=True, return_indices=True)
    for name in old.by_node:
        vars(new)[name][theirs] = vars(old)[name][mine]


def _park(
    old: Exchanges, before: Here, after: Here, stays: Mask, place: Index, new: Exchanges
) -> tuple[dict[Link, Waiting], list[Debt]]:
    """Move open debts to the new term; those of links that it lacks, with the counts of both ends, aside."""
    left, dropped, row = (
        dict[Link, Waiting](),
        list[Debt](),
        {i: k for k, i in enumerate(after.here.tolist())},
    )
    ends, held = before.ids[old.ends], set(after.ids.tolist())
    own = [] if before.sees_all else np.flatnonzero(np.isin(ends[:, 0], before.here) & ~stays).tolist()
    both = old.reverse(np.array([*old.open], np.int64)).tolist() if before.sees_all else []
    for link in dict.fromkeys([*old.open, *both, *own]):
        debt, (i, j) = old.open.get(link), ends[link].tolist()
        if debt is not None and not (i in held and j in held):
            dropped.append(debt)
        elif stays[link]:
            if debt is not None:
                new.open[int(place[link])] = debt._replace(row=row[i])
        elif i in held and j in held:
            places, delta = (None, None) if debt is None else (debt.places, debt.delta)
            left[i, j] = Waiting(int(old.count[link]), places, delta)
    return left, dropped


def _return(new: Exchanges, after: Here, waiting: dict[Link, Waiting], coming: Index) -> dict[Link, Waiting]:
    """Give links that came back what waited for them; the rest goes on waiting."""
    rest, row = dict[Link, Waiting](), {i: k for k, i in enumerate(after.here.tolist())}
    for (i, j), kept in waiting.items():
        at = int(np.searchsorted(coming, i << 32 | j))
        if at == len(coming) or coming[at] != i << 32 | j:
            rest[i, j] = kept
            continue
        new.count[at] = kept.applied
        if kept.places is not None and kept.delta is not None:
            new.open[at] = Debt(row[i], kept.places, kept.delta)
    return rest
