"""A member of a network: it joins, plays rounds term by term, and leaves."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from zocosmo._version import __version__
from zocosmo.core.tape import Tape
from zocosmo.dist.engine import Host as Engine
from zocosmo.dist.framed import ABSENT
from zocosmo.dist.place import Place
from zocosmo.errors import InputError, ZocosmoError
from zocosmo.experiments.events import topology_of
from zocosmo.net.channel import NetChannel
from zocosmo.net.desk import Desk
from zocosmo.net.envelope import ASK, Envelope, Where
from zocosmo.net.invitation import Invitation, can_skip, manifest_for, only_trial
from zocosmo.net.links import SILENT, ZmqLinks
from zocosmo.net.post import PIECE, PIECES, Peer, Post
from zocosmo.net.soft import SoftDeadline
from zocosmo.net.store import Account, NodeFolder, state_bytes
from zocosmo.net.ways import PULSE
from zocosmo.terms.change import Here, Waiting, carry_links, fresh_links
from zocosmo.terms.members import Member as Listed
from zocosmo.terms.members import Term

ANSWER = 10.0  # seconds in which the host must answer the first time
MEET = 5.0  # seconds in which peers may be heard before the first round of a term

Say = Callable[[str], None]


class Member:
    """This process as one node of a job that a host keeps."""

    def __init__(
        self,
        host: tuple[str, bytes],
        secret: bytes,
        *,
        listen: str | None,
        out: Path | None,
        own: list[str],
        say: Say,
        name: str = "",
        address: str = "",
        run_code: bool = False,
    ) -> None:
        self._say, self._own, self._run_code, self._out = say, own, run_code, out
        self.post = Post(secret, host, listen, say)
        about: dict[str, Any] = {"salt": self.post.salt.hex(), "name": name, "version": __version__}
        if listen is not None:
            about |= {"port": self.post.port, "address": address}
        self.desk = Desk(self.post, about)
        self.engine: Engine | None = None  # of this term
        self.is_fine = False  # whether the job, or a polite leave, came to its end
        self.account, self._waiting, self._is_new = Account(), dict[tuple[int, int], Waiting](), True
        self.where = host[0].removeprefix("tcp://")

    def run(self) -> str:
        """Take part until the job or the membership ends; says how it ended."""
        self.post.start(self.desk)
        try:
            self._join()
            return self._live()
        finally:
            self.post.close()

    def leave(self) -> None:
        """Ask to go at the next change of terms."""
        self.desk.is_leaving = True  # a signal calls this, when the lock may be held

    # Joining

    def _join(self) -> None:
        self._until(lambda: self.desk.invitation is not None, ANSWER)
        assert self.desk.invitation is not None
        self.invitation = Invitation(**self.desk.invitation)
        self.plan = self.invitation.plan(self._own, run_code=self._run_code)
        self.trial = only_trial(self.plan)
        self.manifest, self.problem = manifest_for(self.plan), self.trial.run().problem
        self.topology = topology_of(self.trial)
        with self.post.lock:
            self.desk.manifest, self.desk.own = self.manifest.to_bytes().decode(), self._own
        self.post.report_now()
        self._say(f"waits for {self.where} to begin")
        self._until(lambda: self.desk.start is not None, None)
        self.soft = SoftDeadline(self.invitation.soft)

    def _until(self, ready: Callable[[], bool], within: float | None) -> None:
        """Wait for the host; an InputError if it refuses us."""
        since = time.monotonic()
        with self.post.lock:
            while not ready():
                if why := self.desk.refused or self.desk.ended or self.post.refused:
                    raise InputError(f"{self.where} refused to let us join: {why}")
                if self.desk.is_leaving:
                    raise KeyboardInterrupt
                if within is not None and time.monotonic() - since > within:
                    raise InputError(f"no answer from {self.where} within {within:g} s; is the host running?")
                self.post.lock.wait(0.1)

    # Terms

    def _live(self) -> str:
        while True:
            assert self.desk.start is not None
            engine = self.engine = self._enter(self.desk.start, self.engine)
            if not self._rounds(engine):
                return self._finish(engine)
            if how := self._close_term(engine):
                return how

    def _enter(self, start: dict[str, Any], before: Engine | None) -> Engine:
        """Set up for a term."""
        me, listed = self.desk.id, start["members"]
        assert me is not None
        members = tuple(Listed(each[0], each[1], each[2]) for each in listed)
        peers = {e[0]: Peer(e[0], bytes.fromhex(e[3]), e[4], bytes.fromhex(e[5])) for e in listed}
        term = Term(start["term"], start["round"], members, self.topology, start["next_id"])
        at = {term.position(each): peer for each, peer in peers.items()}
        links = ZmqLinks(self.post, term.number, term.position(me), at, self.soft, skips=self.skips)
        links.say, links.notes, links.is_over = self._say, self._notes, self._over
        self.post.meet(peers, term.peers(me))
        engine = self._engine(term, links, self._session(start, peers))
        if before is not None:
            self._carry(engine, term, before)
        elif term.number:
            self._receive(engine, peers, start)
        with self.post.lock:
            self.post.offered = {term.number: state_bytes(engine)}
            self.desk.enter(term.number, term.start)
        self._meet(links)
        self.term, self.links, self.soft.is_first = term, links, True
        return engine

    def _session(self, start: dict[str, Any], peers: dict[int, Peer]) -> bytes:
        """What frames of this term are bound to: the job, the term and its members."""
        parts = [bytes.fromhex(start["job"]), start["term"].to_bytes(8, "little")]
        parts += [peers[each].key for each in sorted(peers)]
        return hashlib.blake2b(b"".join(parts), digest_size=32).digest()

    def _carry(self, engine: Engine, term: Term, before: Engine) -> None:
        """Bring everything from the last term."""
        old, new = before.channel.repairs, engine.channel.repairs
        assert old is not None
        assert new is not None
        me = np.array([self.desk.id], np.int64)
        ends = Here(self.term.ids, me, False), Here(term.ids, me, False)
        self._waiting = carry_links(old.memory, new.memory, *ends, self._waiting).waiting
        self.account.close_term(before, self.term)
        engine.state, engine.t, engine.asked = before.state, before.t, before.asked
        engine.problem = before.problem

    def _receive(self, engine: Engine, peers: dict[int, Peer], start: dict[str, Any]) -> None:
        """Take the state of the member that the record names."""
        (source,) = [each["source"] for each in start["changes"] if each.get("node") == self.desk.id]
        x = engine.state.x
        data = self._pieces(peers[source], start, x.nbytes)
        if hashlib.blake2b(data, digest_size=16).hexdigest() != start["hashes"][str(source)]:
            raise ZocosmoError(f"the state of member {source} is not the one it reported; join again")
        found = np.frombuffer(data, x.dtype).reshape(x.shape).copy()
        engine.state, engine.t = engine.method.init(found), start["round"]
        assert engine.channel.repairs is not None
        fresh_links(engine.channel.repairs.memory)

    def _pieces(self, source: Peer, start: dict[str, Any], size: int) -> bytes:
        """Ask for what is missing of a state until it is complete."""
        count, where = -(-size // PIECE), Where(start["term"], 0)
        until, asked = time.monotonic() + max(10.0, self.invitation.dead_after), 0.0
        with self.post.lock:
            while True:
                found = self.post.pieces.setdefault((source.id, start["term"]), {})
                missing = [number for number in range(count) if number not in found]
                if not missing:
                    return b"".join(found[number] for number in range(count))
                now = time.monotonic()
                if now > until or self.desk.start is not start or self.desk.ended:
                    raise ZocosmoError(f"member {source.id} did not send its state; join again")
                if now - asked > PULSE:
                    asked = now
                    self.post.send(source, Envelope(ASK, where, b"", json.dumps(missing[:PIECES]).encode()))
                self.post.lock.wait(0.1)

    @property
    def skips(self) -> bool:
        """Whether this method can repair what was missed."""
        return can_skip(self.trial.method)

    def _notes(self) -> bytes:
        with self.post.lock:
            return self.desk.notes()

    def _over(self) -> str:
        """Why to stop waiting for a peer, with the lock held."""
        return self.desk.ended

    def _engine(self, term: Term, links: ZmqLinks, session: bytes) -> Engine:
        plan, trial, run = self.plan, self.trial, self.trial.run()
        wire = trial.method.wire_for(plan.wire, plan.dtype)
        place = Place(term.graph, len(term.members))
        about: dict[str, Any] = {"d": run.problem.d, "wire": wire, "dtype": plan.dtype}
        about |= {"codec": trial.method.codec, "tape": Tape(trial.seed)}
        channel = NetChannel(place, links, session=session, **about, repair=self.skips, ids=term.ids)
        channel.skips, channel.clip = self.skips, self.invitation.clip
        channel.listen_for(lambda *missed: self._missed(term, *missed))
        me = int(term.ids[links.rank])
        world, share = term.world(run.problem.d, [me]), int(term.shares[links.rank])
        return Engine(run, channel, bound=plan.diverged_above, world=world, shares=[share])

    def _missed(self, term: Term, t: int, link: tuple[int, int], stage: str, why: str) -> None:
        sender, receiver = (int(term.ids[each]) for each in link)
        if why != ABSENT:
            self._say(f"refused a message of member {sender} in round {t}: {why}")
        with self.post.lock:
            self.desk.add_miss((t, sender, receiver, stage))

    def _meet(self, links: ZmqLinks) -> None:
        """Give the peers of a new term a moment to be heard."""
        until, ids = time.monotonic() + MEET, [links.id_of(peer) for peer in links.peers()]
        with self.post.lock:
            term = self.post.position.term
            while time.monotonic() < until and any(self.post.heard[i][1].term < term for i in ids):
                self.post.lock.wait(0.05)

    def _close_term(self, engine: Engine) -> str:
        """Report that all rounds of this term are done, and wait for the next; how it ended, if it did."""
        with self.post.lock:
            now = self.post.position.term
            self._say_closed(engine)
        self.post.report_now()
        with self.post.lock:
            while not self.desk.ended and (self.desk.start or {})["term"] == now:
                self.post.lock.wait(PULSE)
            if not self.desk.ended:
                return ""
        self.is_fine = self.desk.is_leaving
        self._folder().end(self.desk.ended, engine, self.account, self.term)
        return f"{self.desk.ended}; {engine.t} rounds done"

    def _say_closed(self, engine: Engine) -> None:
        """Report our state after the rounds of this term, and whom we heard in them; the lock is held."""
        heard = {str(self.links.id_of(peer)): t for peer, t in self.links.last_heard.items()}
        digest = hashlib.blake2b(state_bytes(engine), digest_size=16).hexdigest()
        self.post.position = self.post.position._replace(round=engine.t)
        self.desk.closed = {"term": self.post.position.term, "hash": digest, "heard": heard}

    # Rounds

    def _rounds(self, engine: Engine) -> bool:
        """Play until the term is to end, True, or the last round is done, False."""
        folder = self._folder()
        if self._is_new:
            folder.begin(self.post.key)
            self._is_new = False
        if engine.t == 0:
            folder.save(engine, self.account)
        while self._may_begin(engine.t):
            waited, began = self.links.waited, time.monotonic()
            engine.round()
            self.soft.observe(time.monotonic() - began - (self.links.waited - waited))
            if self.plan.is_due(engine.t):
                folder.save(engine, self.account)
        return engine.t < self.plan.last

    def _may_begin(self, t: int) -> bool:
        """Wait until round t may begin; False if this term ends before it."""
        desk = self.desk
        if t >= self.plan.last:
            return False
        with self.post.lock:
            while True:
                if desk.ended:
                    return False
                if desk.stop is not None and t >= desk.stop:
                    return False
                held = desk.stop is None and desk.limit is not None and t >= desk.limit
                held |= desk.is_full
                if not held and t <= self._pace() + self.invitation.lead:
                    desk.begin(t)
                    self.post.forget(self.post.position)
                    return True
                self.post.lock.wait(PULSE)

    def _pace(self) -> int:
        """The round of the slowest member that is alive; while the host is away, of the slowest peer."""
        now = time.monotonic()
        if now - self.desk.last_word < SILENT:
            return self.desk.pace
        seen = [self.post.heard[self.links.id_of(peer)] for peer in self.links.peers()]
        alive = [where.round for at, where in seen if now - at < SILENT]
        return min(alive, default=self.post.position.round)

    def _folder(self) -> NodeFolder:
        assert self.desk.id is not None
        out = Path("runs") / self.invitation.name if self._out is None else self._out
        return NodeFolder(out, self.desk.id)

    def _finish(self, engine: Engine) -> str:
        """All rounds are done: wait until everyone is."""
        with self.post.lock:
            self._say_closed(engine)
            self.desk.is_done = not self.desk.ended
        self.post.report_now()
        with self.post.lock:
            alone = max(60.0, 3 * self.invitation.dead_after)
            while not self.desk.ended:
                self.post.lock.wait(PULSE)
                if time.monotonic() - self.desk.last_word > alone:
                    self.desk.ended = "the host is gone"
        self.is_fine = True
        self._folder().end(self.desk.ended, engine, self.account, self.term)
        with self.post.lock:
            self.desk.about["bye"] = True  # the host may read our folder now
        self.post.report_now()
        return f"{self.desk.ended}; {engine.t} rounds done"
