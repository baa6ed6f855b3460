"""From which round on members that died were silent, as those who live can tell."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from zocosmo.core.tape import Tape
from zocosmo.methods import Method
from zocosmo.methods.cosmo import Cosmo
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.net.desk import Miss
from zocosmo.terms.members import Term


class Exchanging:
    """Who exchanges messages with whom in the rounds of a term, and how often."""

    def __init__(self, method: Method, tape: Tape) -> None:
        self._tape, self._in_pairs = tape, isinstance(method, EdgeLocal)
        normalised = isinstance(method, Cosmo | EdgeLocal) and method.step_rule == "normalised"
        self.stages = ("values", "level") if normalised else ("values",)

    def rounds(self, term: Term, one: int, other: int, first: int, last: int) -> list[int]:
        """The rounds, from `first` up to and without `last`, in which two members meet."""
        if first >= last or other not in term.peers(one):
            return []
        rounds = np.arange(first, last)
        if not self._in_pairs:
            return rounds.tolist()
        i, j = term.position(one), term.position(other)
        partners = term.world(1).schedule.partners(self._tape, rounds)
        found: list[int] = rounds[partners[:, i] == j].tolist()
        return found


def silent_since(
    term: Term,
    dead: Collection[int],
    heard: Iterable[Mapping[str, int]],
    misses: Collection[Miss],
    exchanging: Exchanging,
) -> dict[int, int]:
    """The first round that each of the dead did not play.

    `heard` has, from each who lives, the last round in which it heard every other. But one who died may have
    heard another who died, and its next message told of that: if this was heard, so was the other. What one
    missed travels with its messages, so all that is not known as missed was heard.
    """
    since = dict.fromkeys(dead, term.start)
    for one in heard:
        for each, t in one.items():
            if int(each) in since:
                since[int(each)] = max(since[int(each)], t + 1)
    known, waiting = set(misses), set(since)
    while waiting:
        listener = waiting.pop()
        for sender in since:
            for stage in exchanging.stages:
                # a message of round t tells of values before t, and of the level of t
                until = since[listener] - (stage == "values")
                rounds = exchanging.rounds(term, listener, sender, since[sender], until)
                came = [t for t in rounds if (t, sender, listener, stage) not in known]
                if came:
                    since[sender] = came[-1] + 1
                    waiting.add(sender)
    return since
