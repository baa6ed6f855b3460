"""Couplings: what the pairs of one matching share   [eq:corr_operators, PROTOCOL.md]

A coupling is two flags. G and S draw the same supports; S and I draw the same signs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.signs import Signs, draw_sign_vectors, first_and_more, most_directions
from zocosmo.core.support import Direction, SupportRule, draw_signs, draw_support
from zocosmo.core.tape import Ids, Tape


@dataclass(frozen=True)
class Coupling:
    """Whether each pair draws its own support, and its own signs."""

    name: str
    own_support: bool
    own_signs: bool

    def directions(
        self, tape: Tape, t: Ids, i: Ids, j: Ids, *, d: int, q: int, rule: SupportRule = draw_support
    ) -> Direction:
        """u_e for each pair e = {i, j} of round t; the order of i and j does not matter.

        Arrays of i and j give one direction per pair. What the pairs share is drawn once and broadcast.
        `rule` draws the supports: `draw_support` or `balanced_support`.

        >>> u = COUPLINGS["S"].directions(Tape(0), 3, np.array([0, 2]), np.array([1, 3]), d=32, q=4)
        >>> u.index.shape, u.signs.shape
        ((4,), (2, 4))
        """
        pair = np.minimum(i, j), np.maximum(i, j)
        support = rule(tape, t, *(pair if self.own_support else ()), d=d, q=q)
        signs = draw_signs(tape, t, *(pair if self.own_signs else ()), q=support.q)
        return Direction(support.index, d, signs)

    def by_node(
        self,
        tape: Tape,
        t: Ids,
        partners: NDArray[np.int64],
        *,
        d: int,
        q: int,
        rule: SupportRule = draw_support,
        nodes: NDArray[np.int64] | None = None,
    ) -> Direction:
        """`directions` at every node of matchings, partners of shape (…, n), drawn once per pair.

        Both ends get their pair's direction; what all pairs share has one row for all nodes. Idle nodes make
        no queries and get the first coordinates. `nodes` lists the nodes if `partners` covers only some.
        """
        return self.several_by_node(tape, t, partners, d=d, q=q, rule=rule, nodes=nodes)[0]

    def several_by_node(
        self,
        tape: Tape,
        t: Ids,
        partners: NDArray[np.int64],
        *,
        d: int,
        q: int,
        rule: SupportRule = draw_support,
        nodes: NDArray[np.int64] | None = None,
        directions: int = 1,
        signs: Signs = "independent",
        meeting: Ids | None = None,
    ) -> tuple[Direction, NDArray[np.int8] | None]:
        """`by_node`, and K − 1 further sign vectors on its supports: (…, K − 1, 1 or n, q), None if K = 1.

        Supports are those of round `meeting`, which is t by default; signs are always those of t.
        """
        lead, meeting = partners.shape[:-1], t if meeting is None else meeting
        here = np.arange(partners.shape[-1]) if nodes is None else nodes
        drawn = partners > here  # the lower end of each pair, or its only end in `nodes`
        if nodes is not None:
            drawn |= (partners < here) & ~np.isin(partners, nodes)
        at = np.nonzero(drawn)
        tapes = Tape.of_keys(np.broadcast_to(tape.keys, (*lead, tape.keys.shape[-1]))[at[:-1]])
        own, other = here[at[-1]], partners[at]
        rounds, meetings = (np.broadcast_to(each, lead)[at[:-1]] for each in (t, meeting))
        ids = np.minimum(own, other), np.maximum(own, other)
        there = np.minimum(np.searchsorted(here, other), here.size - 1)  # the partner's row, or our own
        there = np.where(here[there] == other, there, at[-1])
        whole = tape[..., None], np.asarray(t)[..., None]
        if self.own_support:
            support = rule(tapes, meetings, *ids, d=d, q=q)
        else:
            support = rule(tape[..., None], np.asarray(meeting)[..., None], d=d, q=q)
        size = support.q

        def spread(rows: NDArray[Any], idle: NDArray[Any]) -> NDArray[Any]:
            out = np.empty((*partners.shape, *rows.shape[1:]), rows.dtype)
            out[...] = idle
            out[at] = out[(*at[:-1], there)] = rows
            return out

        index = spread(support.index, np.arange(size)) if self.own_support else support.index
        own_ids = (tapes, rounds, *ids) if self.own_signs else whole
        count, plus = most_directions(signs, directions, size), np.ones((), np.int8)
        vectors = draw_sign_vectors(*own_ids, q=size, directions=count, signs=signs)
        if self.own_signs:
            vectors = spread(vectors, plus)
        first, more = first_and_more(vectors)
        return Direction.unchecked(index, d, first), more  # the rule has checked its support


G = Coupling("G", own_support=False, own_signs=False)
S = Coupling("S", own_support=False, own_signs=True)
I = Coupling("I", own_support=True, own_signs=True)  # noqa: E741 — the paper's name

COUPLINGS = {coupling.name: coupling for coupling in (G, S, I)}
