"""The host of a network: it keeps the plan and the roll, forwards sealed frames, and never sees a value.

It does nothing in a round. Members report by heartbeats, and a change of members goes through the steps that
`net.desk` describes. All that it must not forget is on disk before it says so.
"""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.experiments.events import header_of, topology_of
from zocosmo.net.deaths import Exchanging, silent_since
from zocosmo.net.door import SILENT, Allowed, Door, check_report
from zocosmo.net.invitation import Invitation, can_skip, manifest_for, only_trial
from zocosmo.net.roll import EVENTS, Entry, Roll
from zocosmo.net.sockets import AGAIN, Gate, Strangers, key_of, make_socket, public_of, zmq
from zocosmo.terms.events import Dead, Join, write_events
from zocosmo.terms.members import change_members, first_term

TICK = 0.1  # seconds between looks at what is due
GATHER = 0.3  # seconds in which changes are taken together


class Host:
    """One job and its members."""

    def __init__(
        self,
        invitation: Invitation,
        secret: bytes,
        listen: str,
        folder: Path,
        allowed: Allowed,
        say: Callable[[str], None],
    ) -> None:
        self.invitation, self.folder, self._say = invitation, folder, say
        self.plan = invitation.plan()
        trial = only_trial(self.plan)
        self.manifest = manifest_for(self.plan)
        header = header_of(self.plan)
        if invitation.seeds is not None:
            header = replace(header, seed=None)  # it is secret
        self.roll = Roll(folder, header, topology_of(trial))
        self.door = Door(self.roll, self.manifest, allowed, say)
        self.dead, self._attempt = self.door.dead, 0
        self._is_fixed = not can_skip(trial.method)  # nobody can come or go
        self._exchanging = Exchanging(trial.method, Tape(trial.seed))
        self.ended = ""
        self._since = 0.0  # when the first pending change was seen
        self._context: zmq.Context[Any] = zmq.Context()
        self._gate = Gate(self._context)
        self._router = make_socket(self._context, zmq.ROUTER, secret, None)
        self._strangers, self._told = Strangers(self._router, say), set[str]()
        self.is_stopped = False  # set from outside: end at once; started again, the job goes on
        self.finished = 0  # members that came to the last round
        try:
            self._router.bind(f"tcp://{listen}")
        except zmq.ZMQError as error:
            raise InputError(
                f"cannot listen on {listen}: {error}; choose another --listen ADDR:PORT"
            ) from None
        where = self._router.last_endpoint.decode().removeprefix("tcp://")
        self.address = f"{where}/{public_of(secret).hex()}"

    @property
    def seats(self) -> int:
        """Founding members: the nodes of the plan's graph."""
        return self.roll.header.n

    def run(self) -> int:
        """Serve until the job has ended; gives the number of members that finished."""
        if self.roll.load(time.monotonic()):
            if self.roll.phase == "ended":
                raise InputError(f"the job in {self.folder} has ended; start another with --replace")
            self._say(f"continues with {len(self.roll.members)} members in term {self._term_number}")
            if self.roll.phase == "preparing":
                self.roll.phase = "running"
        poller = zmq.Poller()
        for socket in (self._gate.socket, self._router, self._strangers.socket):
            poller.register(socket, zmq.POLLIN)
        due, until = 0.0, None
        try:
            while not self.is_stopped and (
                until is None or (time.monotonic() < until and self.roll.living())
            ):
                ready = dict(poller.poll(int(1000 * TICK)))
                if self._gate.socket in ready:
                    self._gate.serve(self._admit)
                if self._router in ready:
                    self._receive()
                if self._strangers.socket in ready:
                    self._strangers.count()
                if time.monotonic() >= due:
                    due = time.monotonic() + TICK
                    self._advance()
                if self.ended and until is None:
                    until = time.monotonic() + self.invitation.dead_after  # for those who have not said bye
        finally:
            self._close()
        return self.finished

    def _close(self) -> None:
        self._strangers.count(at_end=True)
        self._router.disable_monitor()
        for socket in (self._router, self._strangers.socket, self._gate.socket):
            socket.close(linger=500)
        self._context.term()

    @property
    def _term_number(self) -> int:
        return -1 if self.roll.term is None else self.roll.term.number

    # Who may speak

    def _admit(self, key: bytes, address: str) -> int:
        if self.door.allowed(key) is not None:
            return 200
        self._say_once(f"refused {address}: key {key.hex()} is not on the list of those who may join")
        return 400

    def _say_once(self, text: str) -> None:
        if text not in self._told and len(self._told) < 1000:
            self._told.add(text)
            self._say(text)

    # Messages

    def _receive(self) -> None:
        for _ in range(1000):
            try:
                route, *parts = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except AGAIN:
                return
            if parts:
                self._take(bytes(route), key_of(parts[0]), parts)

    def _take(self, route: bytes, key: bytes, parts: list[Any]) -> None:
        what, *rest = (bytes(part) for part in parts)
        try:
            if what == b"relay" and len(rest) == 2:
                self._forward(key, *rest)
            elif what == b"report" and len(rest) == 1:
                seen = str(parts[0].get("Peer-Address"))
                self._hear(route, key, check_report(json.loads(rest[0])), seen)
            elif what == b"who":
                self._send(
                    route, b"word", json.dumps({"members": self.roll.listing(time.monotonic())}).encode()
                )
            else:
                raise ValueError(f"an unknown kind of message, {what[:20]!r}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._say_once(f"refused a message of {self._named(key)}: {type(error).__name__}: {error}")

    def _named(self, key: bytes) -> str:
        for number, entry in self.roll.members.items():
            if entry.key == key:
                return f"member {number}"
        return f"key {key.hex()[:16]}"

    def _forward(self, sender: bytes, to: bytes, sealed: bytes) -> None:
        """Pass on what only its receiver can open."""
        known = {entry.key: entry for entry in self.roll.members.values()}
        if sender in known and to in known and known[to].route:
            self._send(known[to].route, b"relay", sender, sealed)

    def _send(self, route: bytes, *parts: bytes) -> None:
        with contextlib.suppress(AGAIN, zmq.ZMQError):  # it will report again
            self._router.send_multipart([route, *parts], zmq.NOBLOCK)

    def _hear(self, route: bytes, key: bytes, said: dict[str, Any], seen: str) -> None:
        """A report: file it, and answer."""
        number, entry = self.door.find(key, said)
        if entry is None:
            self._send(route, b"word", json.dumps(self.door.no(key, said)).encode())
            return
        entry.route, entry.heard, entry.said = route, time.monotonic(), said
        if said.get("port"):
            where = str(said.get("address") or seen)
            entry.address = f"tcp://{where}" if ":" in where else f"tcp://{where}:{int(said['port'])}"
        if number is not None:
            for strange in self.roll.note(said["misses"]):
                self._say_once(f"refused a miss that member {number} told: {strange}")
            if said.get("bye") and self.ended:
                self.roll.gone[number] = self.plan.last, self.ended
                del self.roll.members[number]
                return
        elif not entry.is_accepted and said.get("manifest") and not self.door.examine(entry, said):
            self._send(route, b"word", json.dumps(self.door.no(key, said)).encode())
            return
        self._answer(number, entry)

    def _answer(self, number: int | None, entry: Entry) -> None:
        """All that a member or applicant has to know now."""
        if self.ended and number is None:
            word: dict[str, Any] = {"ended": self.ended}
        elif number is None:
            word = {} if entry.said.get("manifest") else {"invitation": self.invitation.plain()}
        else:
            word = self._word(number, entry)
        self._send(entry.route, b"word", json.dumps(word).encode())

    def _word(self, number: int, entry: Entry) -> dict[str, Any]:
        roll, term = self.roll, self.roll.term
        assert term is not None
        word: dict[str, Any] = {"id": number, "term": term.number, "pace": self._pace()}
        word["noted"] = entry.said["misses"]
        if entry.said["term"] < term.number:
            word["start"] = {
                "job": self.manifest.fingerprint().hex(),
                "term": term.number,
                "round": term.start,
                "next_id": term.next_id,
                "members": roll.table(),
                "changes": [each.plain() for each in roll.events if each.round == term.start and term.number],
                "hashes": roll.hashes,
            }
        if roll.phase == "preparing":
            word["prepare"] = self._attempt
        elif roll.phase == "stopping":
            word["stop"] = roll.stop
        else:
            word["cancel"] = entry.said["attempt"]
        if self.ended:
            word["ended"] = self.ended
        if number in roll.gone or number in self.dead:
            word["ended"] = self.dead.get(number) or f"{roll.gone[number][1]} in round {roll.gone[number][0]}"
        return word

    def _pace(self) -> int:
        """The round of the slowest member that is alive."""
        now = time.monotonic()
        at = [
            entry.said.get("round", 0)
            for number, entry in self.roll.members.items()
            if now - entry.heard < SILENT and number not in self.dead
        ]
        return min(at, default=0)

    # Changes of members

    def _advance(self) -> None:
        if self.ended:
            return
        phase = self.roll.phase
        if phase == "gathering":
            self._found()
            return
        self._bury()
        living = self.roll.living()
        if self._is_fixed and (missing := [*self.dead, *self.roll.leaving()]):
            self._end(f"member {missing[0]} is gone, and this method cannot go on without it")
        elif not living:
            self._end("no member is left")
        elif all(entry.said.get("done") for entry in living.values()):
            self._end("finished")
        elif phase == "running" and self._is_changing():
            attempts = (entry.said.get("attempt", 0) for entry in living.values())
            self._attempt = 1 + max(self._attempt, *attempts)
            self.roll.phase = "preparing"
            self._tell_all()
        elif phase == "preparing":
            self._prepare(living)
        elif phase == "stopping":
            self._stop(living)

    def _found(self) -> None:
        """The first term, once all seats are taken."""
        ready = [entry for entry in self.door.applicants.values() if entry.is_accepted]
        if len(ready) < self.seats:
            return
        founders = ready[: self.seats]
        self.roll.term = first_term(self.roll.topology, [entry.name for entry in founders])
        self.roll.members = dict(enumerate(founders))
        for entry in founders:
            del self.door.applicants[entry.key]
        self.roll.phase = "running"
        if self._is_fixed:
            self.door.closed = "the members of this method are fixed; it has begun"
        self.roll.save()
        self._say(f"{self.seats} members: round 0 begins")
        self._tell_all()

    def _bury(self) -> None:
        """Members that have been silent for too long are dead."""
        now, limit, known = time.monotonic(), self.invitation.dead_after, len(self.dead)
        for number, entry in self.roll.members.items():
            if number not in self.dead and now - entry.heard > limit:
                self.dead[number] = f"removed after {limit:g} s without a heartbeat; join again"
                self._say(f"member {number} ({entry.name}) is dead: no heartbeat for {limit:g} s")
        if len(self.dead) > known:
            self.roll.save()

    def _is_changing(self) -> bool:
        """Whether members come or go; changes that come close together are one.

        None begins while a member is silent, for some time: all would wait until it is back, or dead.
        """
        if not [*self.dead, *self.roll.leaving(), *self.door.joining()]:
            self._since = 0.0
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= GATHER and not self._waits()

    def _waits(self) -> bool:
        """Whether a change waits for one who is silent; not for ever, as somebody may always be."""
        now = time.monotonic()
        return self.roll.is_silent(now, SILENT) and now - self._since < self.invitation.dead_after

    def _prepare(self, living: dict[int, Entry]) -> None:
        promised = self.roll.promises(self._attempt)
        if all(number in promised for number in living):
            self.roll.stop = min(max(promised.values()), self.plan.last)
            self.roll.phase = "stopping"
            self.roll.save()
            self._tell_all()
        elif self._waits() or any(each.said.get("attempt", 0) > self._attempt for each in living.values()):
            self.roll.phase = "running"  # numbers of a host that was started again may be too low
            self._tell_all()

    def _stop(self, living: dict[int, Entry]) -> None:
        roll = self.roll
        assert roll.term is not None
        if roll.stop >= self.plan.last:
            return  # the last round comes first
        closed = {number: entry.said.get("closed") for number, entry in living.items()}
        if any(each is None or each["term"] != roll.term.number for each in closed.values()):
            return
        self._change(living, {number: each for number, each in closed.items() if each is not None})

    def _change(self, living: dict[int, Entry], closed: dict[int, dict[str, Any]]) -> None:
        """Begin the next term: everyone who lives has played all rounds before it."""
        roll, leaving = self.roll, self.roll.leaving()
        assert roll.term is not None
        dead = self._dead_since(closed)
        joining = self.door.joining()
        if len(leaving) + len(dead) == len(roll.members):
            self._end("all members have left")
            return
        changes, coming = change_members(
            roll.term, roll.stop, joining=[entry.name for entry in joining], leaving=leaving, dead=dead
        )
        roll.hashes = {number: each["hash"] for number, each in closed.items()}
        for number in (*leaving, *dead):
            roll.gone[number] = roll.stop, "died" if number in dead else "left"
        gone = [roll.members[number] for number in leaving]
        joined = [change.node for change in changes if isinstance(change, Join)]
        for number, entry in zip(joined, joining, strict=True):
            roll.members[number] = entry
            del self.door.applicants[entry.key]
        roll.members = {each.id: roll.members[each.id] for each in coming.members}
        roll.events += changes
        roll.term, roll.phase = coming, "running"
        self._since = 0.0
        self.dead.clear()
        roll.save()
        write_events(self.folder / EVENTS, roll.record())
        told = [
            f"{len(each)} {how}"
            for each, how in ((joined, "joined"), (leaving, "left"), (dead, "died"))
            if each
        ]
        self._say(
            f"term {coming.number} begins with round {coming.start}: {', '.join(told)}; "
            f"{len(roll.members)} members"
        )
        for entry in gone:
            self._send(entry.route, b"word", json.dumps({"ended": f"left in round {coming.start}"}).encode())
        self._tell_all()

    def _dead_since(self, closed: dict[int, dict[str, Any]]) -> dict[int, int]:
        """The first round that each of the dead did not play, from what the others heard in this term."""
        roll, heard = self.roll, [each["heard"] for each in closed.values()]
        assert roll.term is not None
        dead = [number for number in roll.members if number in self.dead]
        return silent_since(roll.term, dead, heard, roll.misses, self._exchanging)

    def _tell_all(self) -> None:
        for number, entry in self.roll.members.items():
            if entry.said:
                self._answer(number, entry)
        for entry in self.door.applicants.values() if self.ended else ():
            self._answer(None, entry)

    def _end(self, how: str) -> None:
        living = self.roll.living()
        self.finished = sum(bool(entry.said.get("done")) for entry in living.values())
        closed = {number: said for number, entry in living.items() if (said := entry.said.get("closed"))}
        if self.finished and self.dead and not self._is_fixed:
            since = self._dead_since(closed).items()
            self.roll.events += [Dead(round=self.plan.last, node=node, since=t) for node, t in since]
        self.ended, self.roll.phase = how, "ended"
        self.roll.save()
        write_events(self.folder / EVENTS, self.roll.record())
        self._tell_all()
