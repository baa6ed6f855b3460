"""What a network promises whoever is slow or lost: nobody waits, runs away, or loses what others did."""

import json
import time

import numpy as np
import pytest

from net.crowd import COSMO, EDGE_LOCAL, PROBLEM, Paced, Processes, Threads, replay, write_config
from zocosmo.channel import Channel
from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import read_log
from zocosmo.net.gather import gather
from zocosmo.net.member import Member
from zocosmo.net.store import NodeFolder

LEAD = 15


@pytest.mark.parametrize(
    ("wire", "problem"), [("f64", PROBLEM), ("mod4", {**PROBLEM, "subspace": {"size": 9}})]
)
def test_without_a_loss_log_and_states_are_those_of_the_simulator(tmp_path, monkeypatch, wire, problem):
    monkeypatch.setattr("zocosmo.net.links.SILENT", 60.0)  # however busy this machine is
    config = write_config(tmp_path, wire=wire, problem=problem)
    crowd = Threads(config, tmp_path / "out", soft=60.0)
    for _ in range(4):
        crowd.join(kind=Member)
    crowd.wait()
    plan = load_plan(config)
    simulated = run_plan(plan).rows
    assert gather(plan, crowd.host.roll.record(), crowd.out) == ""
    rows = read_log(crowd.out / "log.parquet").rows
    shared = [name for name in simulated.columns if name in rows.columns]
    assert {"objective", "local", "disagreement", "bits", "queries"} <= set(shared)
    assert rows[shared].equals(simulated[shared])


@pytest.mark.parametrize("wire", ["f32", "mod6", "grid6"])
def test_a_member_whose_values_are_not_finite_spoils_no_other(tmp_path, monkeypatch, wire):
    config = write_config(tmp_path, method=COSMO, wire=wire, rounds=30)
    crowd, mix = Threads(config, tmp_path / "out", soft=5.0), Channel.mix

    def spoilt(channel, y, u=None, **how):
        if channel.t == 15 and channel.nodes.tolist() == [1]:
            y = np.full_like(y, np.inf)
        return mix(channel, y, u, **how)

    monkeypatch.setattr(Channel, "mix", spoilt)
    for _ in range(4):
        crowd.join(kind=Member)
    crowd.wait()
    kept = [NodeFolder(crowd.out, k).load(30) for k in (0, 2, 3)]
    assert all(np.isfinite(each["x"]).all() for each in kept)


class Slow(Paced):
    """A member that is alive and late in every round."""

    def _may_begin(self, t):
        time.sleep(0.04)
        return super()._may_begin(t)


def test_nobody_is_ahead_of_the_slowest_by_more_than_the_lead(tmp_path):
    config = write_config(tmp_path, rounds=120, log_every=20, wire="mod4")
    crowd, ahead = Threads(config, tmp_path / "out", soft=0.01, lead=LEAD), []
    for kind in (Paced, Slow, Paced, Paced):
        crowd.join(kind=kind)
    crowd.wait_for(lambda: all(crowd.round_of(k) > 0 for k in range(4)))
    while not crowd.results:
        fast = max(crowd.round_of(k) for k in (0, 2, 3))
        ahead.append(fast - crowd.round_of(1))  # read last: it only grows
    crowd.wait()
    assert LEAD // 2 < max(ahead) <= LEAD
    assert crowd.host.finished == 4
    assert not crowd.host.roll.events  # late is not lost
    assert replay(config, crowd.out)[1] == []


@pytest.mark.slow
def test_a_member_that_never_returns_is_removed_and_the_others_finish(tmp_path):
    config = write_config(tmp_path, rounds=1200, log_every=50, wire="mod4", method=EDGE_LOCAL)
    with Processes(config, tmp_path / "out", "--dead-after", "5") as crowd:
        for _ in range(4):
            crowd.join()
        crowd.wait_for(lambda: crowd.is_playing(4, 50))
        crowd.joined[1].kill()
        crowd.joined[1].wait()
        assert crowd.host.wait(timeout=300) == 0
        assert [process.wait(timeout=30) for k, process in enumerate(crowd.joined) if k != 1] == [0] * 3
        last = (crowd.out / "host.out").read_text().splitlines()[-1]
    assert last.startswith("3 members came to round 1200")
    kinds = [json.loads(line).get("event") for line in (crowd.out / "events.jsonl").read_text().splitlines()]
    assert kinds.count("dead") == 1
    assert "join" not in kinds
    compared, wrong = replay(config, crowd.out)
    assert (compared > 60, wrong) == (True, [])
    assert sum(NodeFolder(crowd.out, k).load(1200) is not None for k in range(4)) == 3
