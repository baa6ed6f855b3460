"""Networks over ZeroMQ, their members in threads: equal to the simulator bit for bit, whatever happens."""

import time

import numpy as np
import pytest

from net.crowd import COSMO, EDGE_LOCAL, Paced, Threads, replay, write_config
from zocosmo.experiments.plan import load_plan
from zocosmo.net.member import Member
from zocosmo.net.store import NodeFolder
from zocosmo.sim.engine import Simulation


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
def test_fixed_members_equal_the_simulator(tmp_path, monkeypatch, method, wire, dtype):
    monkeypatch.setattr("zocosmo.net.links.SILENT", 60.0)  # however busy this machine is
    config = write_config(tmp_path, method=method, wire=wire, dtype=dtype)
    crowd = Threads(config, tmp_path / "out", soft=60.0)
    for _ in range(4):
        crowd.join(kind=Member)
    finish(crowd, config, compared=28)
    assert crowd.host.finished == 4
    assert crowd.host.roll.record().events == ()
    plain, kept = states_of(config), [NodeFolder(crowd.out, k).load(60)["x"] for k in range(4)]
    assert np.array_equal(plain, kept)


def states_of(config):
    """The last states of a run in the simulator that knows of no events."""
    plan = load_plan(config)
    sim = Simulation([plan.trials[0].run()], wire=plan.wire, dtype=plan.dtype)
    for _ in range(plan.last):
        sim.round()
    return sim.states()[0]


OF_EACH = {
    "rand_k": {"q": 6},
    "tree_gather": {"q": 6, "directions": 3},
    "tree_mean": {"q": 6, "directions": 3, "hold": 4, "wire": "grid3"},
}


@pytest.mark.parametrize("kind", ["rand_k", "flood", "tree_sum", "tree_mean", "tree_gather"])
def test_methods_that_cannot_skip_wait(tmp_path, kind):
    method = {"kind": kind, "eta": 0.01, "mu": 0.001, **OF_EACH.get(kind, {})}
    config = write_config(tmp_path, method=method, wire="f64", rounds=20)
    crowd = Threads(config, tmp_path / "out")
    for _ in range(4):
        crowd.join(kind=Member)
    crowd.wait()
    kept = [NodeFolder(crowd.out, k).load(20)["x"] for k in range(4)]
    assert np.array_equal(states_of(config), kept)


def test_members_join_and_leave_in_terms(tmp_path):
    config = write_config(tmp_path, rounds=600, log_every=10, wire="mod4")
    crowd = Threads(config, tmp_path / "out")
    for _ in range(4):
        crowd.join()
    crowd.wait_for(lambda: crowd.round_of(0) > 10)
    late = crowd.join()
    crowd.wait_for(lambda: crowd.members[late].desk.is_playing)
    crowd.members[1].leave()
    crowd.wait_for(lambda: 1 in crowd.results)
    assert crowd.results[1].startswith("left in round")
    assert crowd.members[1].is_fine
    finish(crowd, config, compared=60)
    assert crowd.host.finished == 4
    assert [event.event for event in crowd.host.roll.events] == ["join", "leave"]


def test_the_host_can_be_stopped_and_started_again(tmp_path):
    config = write_config(tmp_path, rounds=1000, log_every=10, method=COSMO, wire="f32", dtype="float32")
    crowd = Threads(config, tmp_path / "out")
    for _ in range(3):
        crowd.join()
    crowd.join(listen=None)  # relayed wherever nobody else can be reached
    crowd.wait_for(lambda: crowd.round_of(0) > 10)
    crowd.stop_host()
    at = crowd.round_of(0)
    crowd.wait_for(lambda: crowd.round_of(0) > at + 10)  # nobody needs it in a round
    crowd.start_host()
    late = crowd.join()
    crowd.wait_for(lambda: crowd.members[late].desk.is_playing)
    finish(crowd, config, compared=80)
    assert crowd.host.finished == 5


def test_a_host_that_starts_again_catches_up_with_the_attempts_that_members_know(tmp_path):
    """It began a change before anybody had reported, so its number is one that members have left behind."""
    config = write_config(tmp_path, rounds=500, log_every=10)
    crowd = Threads(config, tmp_path / "out")
    for _ in range(4):
        crowd.join()
    crowd.wait_for(lambda: crowd.round_of(0) > 10)
    for member in crowd.members:
        with member.post.lock:
            member.desk.attempt = 7
    crowd.host._attempt, crowd.host.roll.phase = 1, "preparing"
    late = crowd.join()
    crowd.wait_for(lambda: crowd.members[late].desk.is_playing)
    assert crowd.host._attempt > 7
    finish(crowd, config, compared=80)


class Frozen(Paced):
    """A member that freezes once, heartbeats included."""

    def _may_begin(self, t):
        if t == 15:
            with self.post.lock:
                time.sleep(1.5)
        return super()._may_begin(t)


def test_a_frozen_member_holds_nobody_up_and_comes_back(tmp_path):
    config = write_config(tmp_path, graph={"kind": "ring", "n": 5}, rounds=150, log_every=10, wire="mod4")
    crowd = Threads(config, tmp_path / "out", soft=0.3, lead=1000)
    for kind in (Paced, Paced, Frozen, Paced, Paced):
        crowd.join(kind=kind)
    finish(crowd, config, compared=80)
    assert crowd.host.finished == 5
    assert {"half", "skip"} & {event.event for event in crowd.host.roll.record().events}
    assert not crowd.host.roll.events
