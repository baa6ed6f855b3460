"""What a record says of members that died, and of messages that were missed, whoever lived to tell it."""

import json
import threading
import time
from collections import defaultdict
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from net.crowd import EDGE_LOCAL, Paced, Threads, replay, write_config
from terms.networks import SEED, living, method, topology
from zocosmo.core.tape import Tape
from zocosmo.dist.seal import fresh_salt
from zocosmo.errors import InputError
from zocosmo.net.deaths import Exchanging, silent_since
from zocosmo.net.desk import NOTES, Desk
from zocosmo.net.envelope import DATA, Envelope, Relayed, Where
from zocosmo.net.links import GRACE, ZmqLinks
from zocosmo.net.post import Peer, Post
from zocosmo.net.roll import MISSES, Entry, Roll
from zocosmo.net.sockets import public_of
from zocosmo.net.soft import SoftDeadline
from zocosmo.net.trail import Trail
from zocosmo.terms import Dead, Half, Header, Record, Skip, first_term


class Dying(Paced):
    """A member that is gone with a round, and says nothing more."""

    dies_at = 40

    def _may_begin(self, t):
        if t == self.dies_at:
            self.desk.report = lambda: {}  # refused by the host
            raise ConnectionAbortedError("killed")
        return super()._may_begin(t)


class DyingLater(Dying):
    dies_at = 46


@pytest.mark.slow
def test_one_who_died_was_heard_by_another_who_died(tmp_path):
    """On a path 0 – 1 – 2 – 3 only member 1 hears 0; both die, and 2 has heard what 1 made of it."""
    config = write_config(tmp_path, graph={"kind": "path", "n": 4}, rounds=160, wire="mod4")
    crowd = Threads(config, tmp_path / "out", dead_after=4.0, soft=0.3)
    for kind in (Dying, DyingLater, Paced, Paced):
        crowd.join(kind=kind)
        crowd.wait_for(lambda: len(crowd.host.door.applicants) == len(crowd.members) or crowd.host.roll.term)
    crowd.wait()
    assert crowd.host.finished == 2
    dead = {event.node: event.since for event in crowd.host.roll.record().events if isinstance(event, Dead)}
    assert 30 < dead[0] <= 40 < dead[1] <= 46
    compared, wrong = replay(config, crowd.out)
    assert compared > 30
    assert wrong == []


def heard_by(sim, record, ids, since):
    """What the living report: the last round in which each heard the dead, in a run of one term."""
    lost = {(event.round, *pair) for event in record.events for pair in missed(event)}
    term, tape, found = sim.term, Tape(SEED), {each: {} for each in ids}
    for t in range(sim.t):
        for i, j in enumerate(term.world(1).schedule.partners(tape, t).tolist()):
            if i != j and j in since and t < since[j] and (t, j, i) not in lost and i in found:
                found[i][str(j)] = t
    return list(found.values())


def missed(event):
    if isinstance(event, Skip):
        return event.pair, event.pair[::-1]
    return [(event.by, sum(event.pair) - event.by)] if isinstance(event, Half) else []


def test_rounds_of_the_dead_follow_from_what_was_heard_and_missed():
    """States of survivors are those of a run in which the dead were silent exactly since they died."""
    rules, since = topology("ring", 6), {1: 31, 2: 33, 3: 30}
    how, term, rng = method("edge_local"), first_term(rules), np.random.default_rng(5)
    links = term.ids[term.graph.ends].tolist()
    failures = [
        Skip(round=t, pair=pair) if k % 2 else Half(round=t, pair=pair, by=pair[0])
        for t in range(60)
        for k, pair in enumerate(links[i] for i in rng.permutation(6)[:2])
    ]
    header = Header(plan="p", n=6, seed=SEED)

    def states_of(dead):
        died = [Dead(round=60, node=node, since=t) for node, t in dead.items()]
        record = Record(header, (*failures, *died))
        sim = living(rules, record, how)
        for _ in range(60):
            sim.round()
        return sim, record

    truth, record = states_of(since)
    heard = heard_by(truth, record, [0, 4, 5], since)
    tape, misses = Tape(SEED), set()
    for t in range(60):  # as members note them: all who play and do not hear their partner
        for i, j in enumerate(term.world(1).schedule.partners(tape, t).tolist()):
            lost = any((j, i) in missed(event) for event in failures if event.round == t)
            if i != j and t < since.get(i, 60) and (lost or t >= since.get(j, 60)):
                misses.add((t, j, i, "values"))
    found = silent_since(term, list(since), heard, misses, Exchanging(how, tape))
    naive = {each: 1 + max(one.get(str(each), -1) for one in heard) for each in since}
    assert all(naive[each] <= found[each] <= since[each] for each in since)
    living_rows = [0, 4, 5]

    def last(dead):
        return states_of(dead)[0].state.x[0, living_rows]

    assert np.array_equal(last(found), last(since))
    assert not np.array_equal(last({**since, 2: 3}), last(since))


@pytest.mark.slow
def test_a_member_that_dies_before_the_last_round_is_in_the_record(tmp_path):
    config = write_config(tmp_path, graph={"kind": "ring", "n": 3}, rounds=60, method=EDGE_LOCAL)
    crowd = Threads(config, tmp_path / "out", dead_after=4.0, soft=0.3, lead=1000)
    for kind in (Paced, DyingLater, Paced):
        crowd.join(kind=kind)
    crowd.wait()
    (dead,) = [event for event in crowd.host.roll.record().events if isinstance(event, Dead)]
    assert (dead.round, 30 < dead.since <= 46) == (60, True)
    assert crowd.host.finished == 2
    assert replay(config, crowd.out)[1] == []


def desk_with(count):
    desk = Desk(SimpleNamespace(position=Where(0, 0)), {})
    desk.is_playing = desk.is_done = True
    desk.closed = {"term": 0, "hash": "", "heard": {}}
    for t in range(count):
        desk.add_miss((t, 0, 1, "values"))
    return desk


def test_a_term_is_closed_only_with_all_that_was_missed():
    desk = desk_with(NOTES + 1)
    first = desk.report()
    assert (first["closed"], first["done"], len(first["misses"])) == (None, False, NOTES)
    assert desk.is_full  # no round begins
    desk.take_word({"noted": first["misses"]})
    second = desk.report()
    assert (second["closed"], second["done"]) == (desk.closed, True)
    assert second["misses"] == [(NOTES, 0, 1, "values")]
    assert not desk.is_full


def test_a_message_takes_along_all_that_the_host_has_not_noted():
    one, other = desk_with(NOTES), desk_with(0)
    other.take_notes(1, one.notes())
    assert len(json.loads(other.notes())) == NOTES
    one.take_word({"noted": [[0, 0, 1, "values"]]})
    assert len(json.loads(one.notes())) == NOTES - 1


def roll_in(folder):
    rules = topology("ring", 4)
    roll = Roll(folder, Header(plan="p", n=4, seed=SEED), rules)
    roll.term = first_term(rules)
    roll.members = {each: Entry(bytes([each]) * 32, "", b"") for each in range(4)}
    return roll


def test_a_line_that_a_killed_host_did_not_complete_is_dropped(tmp_path):
    roll = roll_in(tmp_path)
    roll.save()
    roll.note([[3, 0, 1, "values"], [4, 1, 0, "values"]])
    with (tmp_path / MISSES).open("a") as file:
        file.write('[5, 0, 1, "va')
    again = roll_in(tmp_path)
    assert again.load(0.0)
    assert again.misses == roll.misses
    again.note([[5, 0, 1, "values"]])
    third = roll_in(tmp_path)
    assert third.load(0.0)
    assert third.misses == again.misses == {*roll.misses, (5, 0, 1, "values")}


def test_misses_between_members_that_are_not_linked_are_refused(tmp_path):
    roll = roll_in(tmp_path)
    assert roll.note([[3, 0, 2, "values"], [3, 0, 1, "values"]]) == ["0 and 2 are not linked in round 3"]
    assert roll.misses == {(3, 0, 1, "values")}


class Told:
    """A desk that has nothing to say."""

    def report(self):
        return {}

    def take_word(self, word):
        pass

    def take_notes(self, peer, notes):
        pass


@pytest.mark.parametrize("is_member", [True, False])
def test_a_relayed_message_may_come_before_the_host_tells_of_its_sender(is_member):
    secrets, salt = [bytes([1]) * 32, bytes([2]) * 32], fresh_salt()
    keys = [public_of(each) for each in secrets]
    post = Post(secrets[0], ("tcp://127.0.0.1:1", keys[1]), None, print)
    post._desk = Told()
    link = Relayed(secrets[1], keys[1], keys[0], salt, post.salt)
    where = Where(1, 20)
    post._from_host([b"relay", keys[1], link.close(Envelope(DATA, where, b"", b"frame"))])
    assert post.inbox == {}
    if is_member:
        post.meet({5: Peer(5, keys[1], "", salt)}, [5])
    post._connect()
    post.start(post._desk)
    post.close()
    assert post.inbox == ({(5, where): b"frame"} if is_member else {})


def test_an_attempt_to_change_members_is_cancelled_by_its_number():
    """Words may come late: those of earlier attempts change nothing."""
    desk = Desk(SimpleNamespace(position=Where(0, 7), report_soon=lambda: None), {})
    desk.is_playing = True

    def hear(**word):
        desk.take_word({"term": 0, **word})
        return desk.limit is not None, desk.report()["attempt"]

    assert hear(prepare=1) == (True, 1)
    assert hear(cancel=0) == (True, 1)
    assert hear(cancel=1) == (False, 1)
    assert hear(prepare=1) == (False, 1)
    assert hear(prepare=3) == (True, 3)
    assert hear(cancel=2) == (True, 3)


class FrozenLong(Paced):
    """A member that freezes for 7 s, heartbeats included."""

    def _may_begin(self, t):
        if t == 30:
            with self.post.lock:
                time.sleep(7.0)
        return super()._may_begin(t)


@pytest.mark.slow
def test_rounds_go_on_while_a_change_waits_for_a_frozen_member(tmp_path):
    config = write_config(tmp_path, graph={"kind": "ring", "n": 4}, rounds=1500, log_every=100, wire="mod4")
    crowd = Threads(config, tmp_path / "out", soft=0.3, lead=1000)
    for kind in (Paced, FrozenLong, Paced, Paced):
        crowd.join(kind=kind)
    crowd.wait_for(lambda: crowd.round_of(0) > 30)
    time.sleep(4.0)  # it is silent
    late, at = crowd.join(), crowd.round_of(0)
    crowd.wait_for(lambda: crowd.round_of(0) > at + 40, within=2.5)
    assert not crowd.members[late].desk.is_playing
    crowd.wait()
    assert crowd.members[late].desk.is_playing
    assert crowd.host.finished == 5
    assert replay(config, crowd.out)[1] == []


def test_the_dead_are_dead_for_a_host_that_starts_again(tmp_path):
    roll = roll_in(tmp_path)
    roll.dead[2] = "removed after 20 s without a heartbeat; join again"
    roll.save()
    again = roll_in(tmp_path)
    assert again.load(0.0)
    assert (again.dead, sorted(again.living())) == (roll.dead, [0, 1, 3])


def test_one_who_comes_back_does_not_wait_for_messages_that_are_lost():
    """The peer is far ahead, and nothing that it sent meanwhile has come: one short wait, not one a round."""
    lock, trail, now = threading.Condition(), defaultdict(Trail), time.monotonic()
    trail[7].add(now - GRACE, Where(0, 500))
    heard = {7: (now, Where(0, 501))}
    carrying = {"turns": nullcontext(), "catch_up": lambda: None, "look": time.sleep}
    post = SimpleNamespace(lock=lock, inbox={}, heard=heard, trail=trail, salt=b"", **carrying)
    peers = {1: Peer(7, b"", "", b"")}
    links = ZmqLinks(post, 0, 0, peers, SoftDeadline(20.0), skips=True)
    for t in range(300):
        assert links.exchange(dict, {1: 8}, t) == {}
    assert time.monotonic() - now < GRACE
    post.inbox[7, Where(0, 300)] = memoryview(bytes(9))
    assert list(links.exchange(dict, {1: 8}, 300)) == [1]


def test_a_trail_tells_where_a_peer_was():
    trail = Trail()
    assert trail.before(10.0) == Where(0, 0)
    for now, t in ((10.0, 3), (11.0, 8), (11.5, 8), (12.0, 9)):
        trail.add(now, Where(0, t))
    assert [trail.before(then).round for then in (9.0, 10.0, 11.9, 12.0)] == [0, 3, 8, 9]


class FrozenAtTheEnd(Paced):
    """A member that freezes for 6 s when all its rounds are done, and has said so."""

    def _finish(self, engine):
        with self.post.lock:
            self.desk.is_done = True
            self._say_closed(engine)
        self.post.report_now()
        time.sleep(0.2)
        with self.post.lock:
            time.sleep(6.0)
        return super()._finish(engine)


@pytest.mark.slow
def test_the_last_word_reaches_one_who_is_frozen_and_one_who_waits_to_join(tmp_path):
    config = write_config(tmp_path, graph={"kind": "ring", "n": 3}, rounds=100, log_every=50)
    crowd = Threads(config, tmp_path / "out", soft=0.3, lead=1000)
    for kind in (Paced, FrozenAtTheEnd, Paced):
        crowd.join(kind=kind)
    crowd.wait_for(lambda: crowd.round_of(0) > 70)
    late = crowd.join()
    crowd.wait()
    assert crowd.host.finished == 3
    assert [crowd.results[k] for k in range(3)] == ["finished; 100 rounds done"] * 3
    assert isinstance(crowd.results[late], InputError)
    assert "finished" in str(crowd.results[late])
