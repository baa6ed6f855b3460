"""The roll of a network: who is there, who wants to join, and what is recorded. Pure data, kept in a file."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zocosmo.errors import InputError
from zocosmo.files import write_text
from zocosmo.net.desk import Miss
from zocosmo.terms.events import Event, Half, Header, Record, Skip, read_event
from zocosmo.terms.members import Member, Term, Topology

ROLL, MISSES, EVENTS = "host.json", "misses.jsonl", "events.jsonl"


@dataclass
class Entry:
    """A process that has shown a key, as a member or on its way to become one."""

    key: bytes
    name: str
    salt: bytes
    address: str = ""
    route: bytes = b""  # to its connection
    heard: float = 0.0  # when it last reported
    said: dict[str, Any] = field(default_factory=dict)  # its last report
    is_accepted: bool = False  # its manifest fits

    def plain(self) -> dict[str, Any]:
        return {"key": self.key.hex(), "name": self.name, "salt": self.salt.hex(), "address": self.address}

    @classmethod
    def of(cls, given: dict[str, Any], heard: float) -> "Entry":
        key, salt = bytes.fromhex(given["key"]), bytes.fromhex(given["salt"])
        return cls(key, given["name"], salt, given["address"], heard=heard, is_accepted=True)


class Roll:
    """What a host must not forget, in a folder: it can be started again from there."""

    def __init__(self, folder: Path, header: Header, topology: Topology) -> None:
        self.folder, self.header, self.topology = folder, header, topology
        self.term: Term | None = None
        self.members: dict[int, Entry] = {}
        self.gone: dict[int, tuple[int, str]] = {}  # round and how, of members that are no more
        self.dead: dict[int, str] = {}  # members to be removed, and why
        self.events: list[Event] = []
        self.misses: set[Miss] = set()
        self.hashes: dict[int, str] = {}  # of states at the start of the term, by member
        self.phase, self.stop = "gathering", 0
        self._linked: tuple[Term | None, set[tuple[int, int]]] = None, set()

    # On disk

    def save(self) -> None:
        term = self.term
        kept: dict[str, Any] = {"header": self.header.plain(), "phase": self.phase, "stop": self.stop}
        kept["hashes"] = self.hashes
        kept["events"] = [event.plain() for event in self.events]
        kept["dead"] = {str(each): why for each, why in self.dead.items()}
        kept["gone"] = {str(each): list(how) for each, how in self.gone.items()}
        if term is not None:
            kept["term"] = [term.number, term.start, term.next_id]
            shares = dict(zip(term.ids.tolist(), term.shares.tolist(), strict=True))
            kept["members"] = [
                {"id": each, "share": shares[each], **self.members[each].plain()} for each in sorted(shares)
            ]
        write_text(self.folder / ROLL, json.dumps(kept, indent=1) + "\n")

    def load(self, now: float) -> bool:
        """Continue from the folder; False if there is nothing."""
        try:
            kept = json.loads((self.folder / ROLL).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.folder / ROLL} cannot be read: {error}; start anew with --replace"
            ) from None
        if kept["header"] != self.header.plain():
            raise InputError(
                f"{self.folder} is of another job; choose another --out, or start anew with --replace"
            )
        self.phase, self.stop = kept["phase"], kept["stop"]
        self.hashes = {int(each): text for each, text in kept["hashes"].items()}
        self.events = [read_event(json.dumps(each)) for each in kept["events"]]
        self.dead |= {int(each): why for each, why in kept["dead"].items()}
        self.gone = {int(each): (how[0], how[1]) for each, how in kept["gone"].items()}
        if "term" in kept:
            listed = tuple(Member(each["id"], each["share"], each["name"]) for each in kept["members"])
            number, start, next_id = kept["term"]
            self.term = Term(number, start, listed, self.topology, next_id)
            self.members = {each["id"]: Entry.of(each, now) for each in kept["members"]}
        if (self.folder / MISSES).exists():
            self._load_misses(self.folder / MISSES)
        return True

    def _load_misses(self, path: Path) -> None:
        """Up to a line that was not completed: nobody was told that it was noted, so it comes again."""
        text = path.read_text(encoding="utf-8")
        whole, _, torn = text.rpartition("\n")
        self.misses = set(map(_as_miss, map(json.loads, whole.splitlines())))
        if torn:
            write_text(path, whole + "\n" if whole else "")

    def note(self, misses: Iterable[Any]) -> list[str]:
        """Record missed messages of this term at once; says which cannot be.

        All of an earlier term were told when it ended: what comes later is of one who died, and nobody heard
        more of it.
        """
        assert self.term is not None
        told = [miss for miss in dict.fromkeys(map(_as_miss, misses)) if miss not in self.misses]
        now = [miss for miss in told if miss[0] >= self.term.start]
        new = [miss for miss in now if miss[1:3] in self._links]
        if new:
            with (self.folder / MISSES).open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(miss) + "\n" for miss in new))
            self.misses.update(new)
        strange = [miss for miss in now if miss[1:3] not in self._links]
        return [f"{i} and {j} are not linked in round {t}" for t, i, j, _ in strange]

    @property
    def _links(self) -> set[tuple[int, int]]:
        """The links of this term, by ids."""
        term = self.term
        assert term is not None
        if self._linked[0] is not term:
            ends = term.ids[term.graph.link_ends].tolist()
            self._linked = term, {(i, j) for i, j in ends}
        return self._linked[1]

    # What members say

    def living(self) -> dict[int, Entry]:
        """Members that are not to be removed as dead."""
        return {number: entry for number, entry in self.members.items() if number not in self.dead}

    def leaving(self) -> list[int]:
        return [number for number, entry in self.living().items() if entry.said.get("leaving")]

    def is_silent(self, now: float, after: float) -> bool:
        """Whether one who lives has not reported for some seconds."""
        return any(now - entry.heard > after for entry in self.living().values())

    def promises(self, attempt: int) -> dict[int, int]:
        """The first round that members do not begin before they are told where this term ends."""
        assert self.term is not None
        said = {number: entry.said for number, entry in self.living().items() if entry.said}
        made = {number: each for number, each in said.items() if each["attempt"] == attempt}
        return {
            number: each["limit"]
            for number, each in made.items()
            if each["term"] == self.term.number and each["limit"] is not None
        }

    # As others see it

    def table(self) -> list[list[Any]]:
        """The members of this term, for each other."""
        assert self.term is not None
        return [
            [each.id, each.share, each.name, entry.key.hex(), entry.address, entry.salt.hex()]
            for each in self.term.members
            for entry in [self.members[each.id]]
        ]

    def listing(self, now: float) -> list[dict[str, Any]]:
        """The members, for people."""
        return [
            {
                "id": number,
                "name": entry.name,
                "key": entry.key.hex()[:16],
                "round": entry.said.get("round", 0),
                "silent": round(now - entry.heard, 1),
                "address": entry.address or "relayed",
            }
            for number, entry in sorted(self.members.items())
        ]

    def record(self) -> Record:
        return Record(self.header, (*self.events, *failures(self.misses)))


def failures(misses: Iterable[Miss]) -> Iterator[Event]:
    """Skips and halves, from what each end did not hear."""
    known = set(misses)
    for t, sender, receiver, stage in sorted(known):
        about: dict[str, Any] = {"round": t, "pair": (sender, receiver), "stage": stage}
        if (t, receiver, sender, stage) in known:
            yield Skip(**about)
        else:
            yield Half(**about, by=sender)


def clear(folder: Path) -> None:
    """Forget an earlier job in this folder."""
    for name in (ROLL, MISSES, EVENTS):
        (folder / name).unlink(missing_ok=True)


def _as_miss(given: Any) -> Miss:
    t, sender, receiver, stage = given
    if stage not in ("values", "level") or min(t, sender, receiver) < 0:
        raise ValueError(f"{given} is no missed message")
    return int(t), int(sender), int(receiver), str(stage)
