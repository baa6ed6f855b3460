"""Networks over ZeroMQ, their members in threads: equal to the simulator bit for bit, whatever happens."""

import time

import pytest

from net.crowd import COSMO, EDGE_LOCAL, Threads, replay, write_config
from zocosmo.net.member import Member


def finish(crowd, config, *, compared):
    """Wait for the end; everything that members kept is what the simulator makes of the record."""
    crowd.wait()
    done, wrong = replay(config, crowd.out)
    assert done >= compared
    assert wrong == []


@pytest.mark.parametrize(
    ("method", "wire", "dtype"),
    [
        (EDGE_LOCAL, "mod4", "float64"),
        (COSMO, "mod3", "float32"),
        (COSMO, "f32", "float32"),
        ({**EDGE_LOCAL, "step": "normalised", "directions": 2}, "f64", "float64"),
    ],
)
def test_fixed_members_equal_the_simulator(tmp_path, method, wire, dtype):
    config = write_config(tmp_path, method=method, wire=wire, dtype=dtype)
    crowd = Threads(config, tmp_path / "out")
    for _ in range(4):
        crowd.join()
    finish(crowd, config, compared=28)
    assert crowd.host.finished == 4


def test_members_join_and_leave_in_terms(tmp_path):
    config = write_config(tmp_path, rounds=600, log_every=20, wire="mod4")
    crowd = Threads(config, tmp_path / "out")
    for _ in range(4):
        crowd.join()
    crowd.wait_for(lambda: crowd.round_of(0) > 20)
    late = crowd.join()
    crowd.wait_for(lambda: crowd.members[late].desk.is_playing)
    crowd.members[1].leave()
    crowd.wait_for(lambda: 1 in crowd.results)
    assert crowd.results[1].startswith("left in round")
    assert crowd.members[1].is_fine
    finish(crowd, config, compared=100)
    assert crowd.host.finished == 4
    assert [event.event for event in crowd.host.roll.events] == ["join", "leave"]


def test_the_host_can_be_stopped_and_started_again(tmp_path):
    config = write_config(tmp_path, rounds=400, log_every=20, method=COSMO, wire="f32", dtype="float32")
    crowd = Threads(config, tmp_path / "out")
    for _ in range(3):
        crowd.join()
    crowd.join(listen=None)  # relayed wherever nobody else can be reached
    crowd.wait_for(lambda: crowd.round_of(0) > 20)
    crowd.stop_host()
    at = crowd.round_of(0)
    crowd.wait_for(lambda: crowd.round_of(0) > at + 20)  # nobody needs it in a round
    crowd.start_host()
    late = crowd.join()
    crowd.wait_for(lambda: crowd.members[late].desk.is_playing)
    finish(crowd, config, compared=80)
    assert crowd.host.finished == 5


class Frozen(Member):
    """A member that freezes once, heartbeats included."""

    def _may_begin(self, t):
        if t == 15:
            with self.post.lock:
                time.sleep(4.0)
        return super()._may_begin(t)


def test_a_frozen_member_holds_nobody_up_and_comes_back(tmp_path):
    config = write_config(tmp_path, graph={"kind": "ring", "n": 5}, rounds=300, log_every=20, wire="mod4")
    crowd = Threads(config, tmp_path / "out", soft=0.5, lead=1000)
    for kind in (Member, Member, Frozen, Member, Member):
        crowd.join(kind=kind)
    finish(crowd, config, compared=80)
    assert crowd.host.finished == 5
    assert {"half", "skip"} & {event.event for event in crowd.host.roll.record().events}
    assert not crowd.host.roll.events
