"""The door of a network: who reports, as a member or to become one, and who is refused and why."""

import time
from collections.abc import Callable
from typing import Any

from zocosmo.core.manifest import Manifest
from zocosmo.errors import ZocosmoError
from zocosmo.net.invitation import differences
from zocosmo.net.roll import Entry, Roll

SILENT = 3.0  # seconds without a report after which a member holds nobody up
KINDS: dict[str, tuple[type, ...]] = {  # of what a report says
    "salt": (str,),
    "term": (int,),
    "round": (int,),
    "misses": (list,),
    "limit": (int, type(None)),
    "attempt": (int,),
    "closed": (dict, type(None)),
    "id": (int, type(None)),
}

Allowed = Callable[[bytes], str | None]  # the name of a key, None if it may not join


def check_report(said: Any) -> dict[str, Any]:
    """A report whose fields have the right kinds; a ValueError if it is none."""
    if not isinstance(said, dict):
        raise ValueError("a report is a mapping")
    for name, kinds in KINDS.items():
        if name not in said or not isinstance(said[name], kinds) or isinstance(said[name], bool):
            raise ValueError(f"a report has {name}, got {said.get(name)!r}")
    closed = said["closed"]
    if closed is not None:
        heard = closed["heard"]
        if not isinstance(closed["term"], int) or not isinstance(closed["hash"], str):
            raise ValueError("a closed term has a number and a hash")
        if not all(each.isdecimal() and isinstance(t, int) for each, t in heard.items()):
            raise ValueError("a closed term says whom it heard, and when")
    return said


class Door:
    """Knows processes by their keys, and by the salt that each makes when it starts."""

    def __init__(self, roll: Roll, manifest: Manifest, allowed: Allowed, say: Callable[[str], None]) -> None:
        self.roll, self.manifest, self.allowed, self._say = roll, manifest, allowed, say
        self.applicants: dict[bytes, Entry] = {}
        self.dead = roll.dead
        self.closed = ""  # why nobody can join any more
        self._refused: dict[tuple[bytes, bytes], str] = {}

    def find(self, key: bytes, said: dict[str, Any]) -> tuple[int | None, Entry | None]:
        """The member or applicant that reports; None if it is refused."""
        salt, now = bytes.fromhex(said["salt"]), time.monotonic()
        if (key, salt) in self._refused:
            return None, None
        for number, entry in self.roll.members.items():
            if entry.key != key:
                continue
            if entry.salt == salt:
                return number, entry
            if now - entry.heard < SILENT and number not in self.dead:
                self.refuse(key, salt, f"its key is in use by member {number}, who is alive")
                return None, None
            self.dead.setdefault(number, "another process has its key now")
        return None, self._applicant(key, salt, said, now)

    def _applicant(self, key: bytes, salt: bytes, said: dict[str, Any], now: float) -> Entry | None:
        found = self.applicants.get(key)
        if found is not None and found.salt == salt:
            return found
        if found is not None and now - found.heard < SILENT:
            self.refuse(key, salt, "its key is in use by another process that joins")
        elif said["id"] is not None:
            if said["id"] not in self.roll.gone:
                self.refuse(key, salt, f"member {said['id']} is not of this job; join again")
        elif self.closed:
            self.refuse(key, salt, self.closed)
        else:
            name = self.allowed(key) or str(said.get("name", ""))[:40]
            self.applicants[key] = Entry(key, name, salt)
            return self.applicants[key]
        return None

    def no(self, key: bytes, said: dict[str, Any]) -> dict[str, str]:
        """What one is told who is not a member, or is no more."""
        if said["id"] in self.roll.gone:
            t, how = self.roll.gone[said["id"]]
            return {"ended": f"{how} in round {t}"}
        return {"refused": self._refused[key, bytes.fromhex(said["salt"])]}

    def refuse(self, key: bytes, salt: bytes, why: str) -> None:
        self._refused[key, salt] = why
        if key in self.applicants and self.applicants[key].salt == salt:
            del self.applicants[key]
        self._say(f"refused key {key.hex()[:16]} ({self.allowed(key)}): {why}")

    def examine(self, entry: Entry, said: dict[str, Any]) -> bool:
        """Whether an applicant is set up for this job; it is refused if not."""
        try:
            theirs = Manifest.from_bytes(str(said["manifest"]).encode())
            found = differences(self.manifest, theirs, [str(each) for each in said["own"]])
        except ZocosmoError as error:
            found = str(error)
        if found:
            self.refuse(entry.key, entry.salt, f"it is set up for another job: {found}")
        entry.is_accepted = not found
        return entry.is_accepted

    def joining(self) -> list[Entry]:
        """Applicants that are ready, and alive."""
        now = time.monotonic()
        return [each for each in self.applicants.values() if each.is_accepted and now - each.heard < SILENT]
