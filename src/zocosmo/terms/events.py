"""The record of a network that lives: who joined, left and died, and which exchanges failed.

A record is a file of JSON lines: a header, then one event a line, in any order. Everything else that happened
follows from the plan and the public tape, so a record and a plan give the run back to the bit.

    {"format": "zocosmo events", "version": 1, "plan": "…", "seed": 7, "n": 4}
    {"event": "join", "round": 40, "node": 4, "name": "ada", "share": 2, "source": 1}
    {"event": "leave", "round": 40, "node": 2}
    {"event": "dead", "round": 60, "node": 0, "since": 47}
    {"event": "skip", "round": 12, "pair": [0, 3]}
    {"event": "half", "round": 13, "pair": [0, 3], "by": 3}
    {"event": "repaired", "round": 15, "pair": [0, 3], "by": 3}

`round` of a join, leave or dead is the first round of a term: it has that many rounds behind it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_whole
from zocosmo.files import write_text

FORMAT, VERSION = "zocosmo events", 1
MOST_ID = 2**31 - 1  # of a member: pairs of ids fit one word
STAGES = ("values", "level")

Pair = tuple[int, int]
Stage = Literal["values", "level"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a round."""

    event: ClassVar[str]
    round: int

    def __post_init__(self) -> None:
        check_whole("round", self.round)

    def plain(self) -> dict[str, Any]:
        """The event as a line has it; a field that has its default is left out."""
        defaults = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        told = {name: value for name, value in vars(self).items() if defaults.get(name, MISSING) != value}
        return {"event": self.event, **told}


@dataclass(frozen=True, kw_only=True)
class Change(Event):
    """A change of members: a term begins with this round."""

    node: int  # the member's id, never used twice

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("node", self.node, 0, MOST_ID)


@dataclass(frozen=True, kw_only=True)
class Join(Change):
    """A member takes part from this round on, with the state of another."""

    event: ClassVar[str] = "join"
    source: int  # the member whose state it takes, as it is when the round begins
    share: int  # which of the problem's losses it has
    name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("source", self.source, 0, MOST_ID)
        check_whole("share", self.share)
        if not isinstance(self.name, str):
            raise InputError(f"name must be text, got {self.name!r}")


@dataclass(frozen=True, kw_only=True)
class Leave(Change):
    """A member takes part in all earlier rounds, and in none from this one on."""

    event: ClassVar[str] = "leave"


@dataclass(frozen=True, kw_only=True)
class Dead(Change):
    """A member that was silent from round `since` on is removed with this round."""

    event: ClassVar[str] = "dead"
    since: int  # the first round that it did not play: no query, no message, no change of its state

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("since", self.since, 0, self.round)


@dataclass(frozen=True, kw_only=True)
class Failure(Event):
    """An exchange in which not both ends heard the other.

    Stage `values` is the exchange itself; `level` is that of running means before it, where steps are
    normalised. Both ends send, and are charged, whoever hears them.
    """

    pair: Pair
    stage: Stage = "values"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pair", _pair(self.pair))
        if self.stage not in STAGES:
            raise InputError(f"stage must be values or level, got {self.stage!r}")


@dataclass(frozen=True, kw_only=True)
class Skip(Failure):
    """Neither end heard the other in time: the exchange did not take place."""

    event: ClassVar[str] = "skip"


@dataclass(frozen=True, kw_only=True)
class Half(Failure):
    """Only one end, `by`, heard the other; what it applied it undoes at their next meeting."""

    event: ClassVar[str] = "half"
    by: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_end(self.by, self.pair)


@dataclass(frozen=True, kw_only=True)
class Repaired(Event):
    """One end, `by`, undid a half exchange. It follows from other events: a replay checks it."""

    event: ClassVar[str] = "repaired"
    pair: Pair
    by: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pair", _pair(self.pair))
        _check_end(self.by, self.pair)


EVENTS: dict[str, type[Event]] = {kind.event: kind for kind in (Join, Leave, Dead, Skip, Half, Repaired)}


@dataclass(frozen=True, kw_only=True)
class Header:
    """Which run the events belong to."""

    plan: str  # fingerprint of the plan
    n: int  # founding members: ids 0 … n−1
    seed: Seed | None = None  # of the trial; None where it is secret

    def __post_init__(self) -> None:
        if not isinstance(self.plan, str) or not isinstance(self.seed, int | str | None):
            raise InputError("plan must be text, and seed text, a whole number or null")
        check_whole("n", self.n, 1, MOST_ID)

    def plain(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **vars(self)}


@dataclass(frozen=True)
class Record:
    """A header and its events, in the order of rounds; equal if their files tell the same."""

    header: Header
    events: tuple[Event, ...] = field(default=())

    def __post_init__(self) -> None:
        lines = {json.dumps(event.plain()): event for event in self.events}
        known = list(EVENTS)

        def order(item: tuple[str, Event]) -> tuple[int, int, str]:
            return item[1].round, known.index(item[1].event), item[0]

        object.__setattr__(self, "events", tuple(event for _, event in sorted(lines.items(), key=order)))

    @property
    def digest(self) -> str:
        """A name of what the record tells."""
        return hashlib.blake2b("".join(self.lines()).encode(), digest_size=16).hexdigest()

    def lines(self) -> Iterator[str]:
        """The lines of the file, in order."""
        yield json.dumps(self.header.plain()) + "\n"
        for event in self.events:
            yield json.dumps(event.plain()) + "\n"


def write_events(to: Path, record: Record) -> None:
    """Write a record; the file appears whole or not at all."""
    write_text(to, "".join(record.lines()))


def append_events(to: Path, events: Iterable[Event]) -> None:
    """Add lines to the record of a network that runs; its first line must be there."""
    with to.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(event.plain()) + "\n" for event in events)


def read_events(path: Path) -> Record:
    """Read a record, or raise an InputError that names the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise InputError(f"{path} is empty; its first line says which plan the events belong to")
    header = _at(path, numbered[0], read_header)
    return Record(header, tuple(_at(path, each, read_event) for each in numbered[1:]))


def read_header(line: str) -> Header:
    """The first line of a record."""
    given = _mapping(line)
    if given.pop("format", None) != FORMAT or given.pop("version", None) != VERSION:
        raise InputError(f"the first line must have format {FORMAT!r} and version {VERSION}")
    return Header(**_known(given, Header))


def read_event(line: str) -> Event:
    """Any other line of a record."""
    given = _mapping(line)
    name = given.pop("event", None)
    kind = EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InputError(f"event must be one of {', '.join(EVENTS)}, got {name!r}")
    return kind(**_known(given, kind))


def _at(path: Path, line: tuple[int, str], read: Any) -> Any:
    number, text = line
    try:
        return read(text)
    except InputError as error:
        raise InputError(f"{path}:{number}: {error}") from None


def _mapping(line: str) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"this line is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InputError(f"a line is a mapping, got {line.strip()[:40]}")
    return given


def _known(given: dict[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a line, all of them known and none missing."""
    names = {each.name: each.default is MISSING for each in fields(kind)}
    for name in given:
        if name not in names:
            raise InputError(f"unknown field {name!r}; {kind.__name__.lower()} has {', '.join(names)}")
    for name, needed in names.items():
        if needed and name not in given:
            raise InputError(f"{kind.__name__.lower()} lacks {name!r}")
    return given


def _pair(given: Any) -> Pair:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InputError(f"pair must be two members, got {given!r}")
    i, j = (check_whole("a member", each, 0, MOST_ID) for each in given)
    if i == j:
        raise InputError(f"pair must be two members, got {list(given)}")
    return min(i, j), max(i, j)


def _check_end(by: int, pair: Pair) -> None:
    if check_whole("by", by, 0, MOST_ID) not in pair:
        raise InputError(f"by must be one of the pair {list(pair)}, got {by}")
