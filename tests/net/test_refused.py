"""What a network refuses: each with one line that names whom and why, and the job goes on."""

import os
import socket
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from net.crowd import EDGE_LOCAL, Paced, Threads, replay, write_config
from zocosmo.dist.seal import make_key, read_key
from zocosmo.errors import CorruptMessage, InputError, SealBroken
from zocosmo.net.door import check_report
from zocosmo.net.envelope import BEAT, DATA, HEAD_BYTES, Envelope, Relayed, Where
from zocosmo.net.host import Host
from zocosmo.net.invitation import Invitation, manifest_for
from zocosmo.net.post import Post
from zocosmo.net.sockets import public_of

WORST = {**EDGE_LOCAL, "beta": 0.0}


def started(tmp_path, *, members=3, wire="f32", rounds=150, kinds=(), **how):
    """A ring in which rounds are being played."""
    ring = {"kind": "ring", "n": members}
    config = write_config(tmp_path, graph=ring, wire=wire, dtype="float32", rounds=rounds, method=WORST)
    crowd = Threads(config, tmp_path / "out", **how)
    for k in range(members):
        crowd.join(kind=kinds[k] if kinds else Paced)
    crowd.wait_for(lambda: all(crowd.round_of(k) > 2 for k in range(members)))
    return config, crowd


def said(crowd, *words):
    """A line that has all these words."""
    return any(all(word in line for word in words) for line in crowd.said)


def test_strangers_twins_and_members_of_other_jobs(tmp_path):
    known = set()
    config, crowd = started(
        tmp_path, rounds=200, allowed=lambda key: "friend" if key in known or len(known) < 3 else None
    )
    known.update(member.post.key for member in crowd.members)
    stranger = crowd.join()
    twin = crowd.join(key=crowd.out / "0.key")
    known.add(public_of(read_key(_key(crowd, "large"))))
    large = crowd.join(key=crowd.out / "large.key", own=["problem.d=48"])
    crowd.wait_for(lambda: all(name in crowd.results for name in (stranger, twin, large)))
    for name, words in (
        (stranger, "does not know this key"),
        (twin, "in use by member"),
        (large, "d: the job has 24"),
    ):
        assert isinstance(crowd.results[name], InputError)
        assert words in str(crowd.results[name])
    assert said(crowd, "refused 127.0.0.1", crowd.members[stranger].post.key.hex(), "not on the list")
    assert said(crowd, "refused key", crowd.members[twin].post.key.hex()[:16], "in use by member")
    assert said(crowd, "refused key", crowd.members[large].post.key.hex()[:16], "it has 48")
    crowd.wait()
    assert replay(config, crowd.out)[1] == []
    assert crowd.host.finished == 3


def _key(crowd, name):
    make_key(crowd.out / f"{name}.key")
    return crowd.out / f"{name}.key"


class Meddler(Host):
    """A host that alters one relayed message and repeats another."""

    def _forward(self, sender, to, sealed):
        self.relayed = [*self.__dict__.get("relayed", []), sealed]
        if len(self.relayed) == 20:
            sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
        super()._forward(sender, to, sealed)
        if len(self.relayed) == 40:
            super()._forward(sender, to, sealed)


def test_a_host_that_alters_and_repeats_what_it_relays(tmp_path, monkeypatch):
    monkeypatch.setattr("net.crowd.Host", Meddler)
    config = write_config(tmp_path, graph={"kind": "ring", "n": 3}, wire="mod4", rounds=60)
    crowd = Threads(config, tmp_path / "out", soft=1.0)
    for _ in range(3):
        crowd.join(listen=None)
    crowd.wait()
    assert len(crowd.host.relayed) > 100
    assert said(crowd, "refused a relayed message of member", "does not open")
    assert said(crowd, "refused a relayed message of member", "replay")
    assert replay(config, crowd.out)[1] == []
    assert crowd.host.finished == 3


class Forwarding(Host):
    """A host that keeps what it forwards."""

    forwarded: ClassVar[list[bytes]] = []

    def _forward(self, sender, to, sealed):
        self.forwarded.append(sealed)
        super()._forward(sender, to, sealed)


def test_what_the_host_forwards_has_no_frame_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr("net.crowd.Host", Forwarding)
    sent, send = [], Post.send_now
    monkeypatch.setattr(Post, "send_now", lambda self, peer, env: (sent.append(env), send(self, peer, env)))
    config = write_config(tmp_path, graph={"kind": "ring", "n": 3}, wire="f64", rounds=20)
    crowd = Threads(config, tmp_path / "out")
    for _ in range(3):
        crowd.join(listen=None)
    crowd.wait()
    seen, frames = b"".join(Forwarding.forwarded), [env for env in sent if len(env) > HEAD_BYTES + 40]
    assert min(len(frames), len(Forwarding.forwarded)) > 30
    values = [body[k : k + 8] for body in frames for k in range(len(body) - 48, len(body) - 7, 8)]
    assert not [value for value in values if value in seen]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"code": "0.0.1 0123456789abcdef"}, "parameters.code: the job has"), ({"rounds": 70}, "it has 70")],
)
def test_a_joiner_with_another_version_or_another_config(tmp_path, monkeypatch, change, words):
    config, crowd = started(tmp_path, rounds=120)

    def other(plan):
        ours = manifest_for(plan)
        return replace(ours, parameters={**ours.parameters, **change})

    monkeypatch.setattr("zocosmo.net.member.manifest_for", other)
    late = crowd.join()
    crowd.wait_for(lambda: late in crowd.results)
    assert isinstance(crowd.results[late], InputError)
    assert words in str(crowd.results[late])
    assert said(crowd, "refused key", crowd.members[late].post.key.hex()[:16], words)
    crowd.wait()
    assert replay(config, crowd.out)[1] == []
    assert crowd.host.finished == 3


class Poisoned(Paced):
    """A member whose state is wrong in one round."""

    bad = 3e38

    def _may_begin(self, t):
        if t == 40 and self.__dict__.setdefault("_engine_now", None) is not None:
            self._engine_now.state.x[...] = self.bad
        return super()._may_begin(t)

    def _engine(self, *given):
        self._engine_now = super()._engine(*given)
        return self._engine_now


class NotANumber(Poisoned):
    bad = np.nan


@pytest.mark.parametrize(("kind", "why"), [(Poisoned, "more than 5"), (NotANumber, "not finite")])
def test_values_that_would_spread(tmp_path, kind, why):
    _, crowd = started(tmp_path, kinds=(Paced, kind, Paced), rounds=70, clip=5.0)
    crowd.wait()
    assert said(crowd, "refused a message of member", why)
    others = [np.asarray(crowd.members[k].engine.state.x) for k in (0, 2)]
    assert np.isfinite(others).all()
    assert np.abs(others).max() < 100
    assert crowd.host.finished == 3


def test_connections_that_are_garbage(tmp_path):
    config, crowd = started(tmp_path, rounds=120)
    for k in range(200):
        with socket.create_connection(("127.0.0.1", crowd.port), timeout=5) as end:
            end.sendall(os.urandom(200) if k % 2 else b"\xff\0\0\0\0\0\0\0\1\x7f" + bytes(60))
    crowd.wait()
    assert said(crowd, "connections that did not prove a key")
    assert replay(config, crowd.out)[1] == []
    assert crowd.host.finished == 3


def test_reports_that_are_malformed():
    good = {"salt": "00", "term": 0, "round": 1, "misses": [], "limit": None, "closed": None, "id": None}
    good["attempt"] = 0
    assert check_report(good) == good
    for name, bad in (
        ("term", "0"),
        ("round", None),
        ("misses", {}),
        ("limit", 1.5),
        ("salt", 3),
        ("id", True),
    ):
        with pytest.raises(ValueError, match=name):
            check_report({**good, name: bad})
    with pytest.raises((ValueError, KeyError)):
        check_report({**good, "closed": {"term": 0, "hash": "x", "heard": {"a": 1}}})


def test_a_relayed_envelope_opens_once_for_its_receiver_only():
    secrets = [bytes([k]) * 32 for k in (1, 2, 3)]
    keys, salts = [public_of(each) for each in secrets], [bytes([k]) * 32 for k in (7, 8, 9)]

    def link(mine, theirs):
        return Relayed(secrets[mine], keys[mine], keys[theirs], salts[mine], salts[theirs])

    out, back, other = link(0, 1), link(1, 0), link(2, 0)
    envelope = Envelope(DATA, Where(3, 14, 1), b"[]", b"frame")
    sealed = out.close(envelope)
    assert envelope.body not in sealed
    assert back.open(sealed) == envelope
    with pytest.raises(SealBroken, match="a replay"):
        back.open(sealed)
    with pytest.raises(SealBroken, match="does not open"):
        other.open(out.close(envelope))
    with pytest.raises(CorruptMessage):
        back.open(b"short")
    assert back.open(out.close(envelope._replace(kind=BEAT))).kind == BEAT


@pytest.mark.parametrize("cut", range(23))
def test_a_cut_envelope_is_refused_until_its_notes_are_whole(cut):
    data = Envelope(DATA, Where(3, 14, 1), b"[]", b"frame").to_bytes()
    with pytest.raises(CorruptMessage, match="envelope"):
        Envelope.from_bytes(data[:cut])
    assert Envelope.from_bytes(memoryview(data)) == (DATA, (3, 14, 1), b"[]", b"frame")
    with pytest.raises(CorruptMessage, match="kind b'X'"):
        Envelope.from_bytes(b"X" + data[1:])


@pytest.mark.parametrize(
    ("problem", "is_refused"),
    [
        ({"kind": "python", "entry": "m:f"}, True),
        ({"kind": "command", "command": "true"}, True),
        (None, False),
    ],
)
def test_a_config_runs_no_code_that_its_joiner_did_not_agree_to(tmp_path, problem, is_refused):
    config = write_config(tmp_path, **({} if problem is None else {"problem": problem}))
    invitation = Invitation("job", config.read_text(encoding="utf-8"))
    if is_refused:
        with pytest.raises(InputError, match="runs code on your machine"):
            invitation.plan(run_code=False)
    else:
        assert invitation.plan(run_code=False).trials
