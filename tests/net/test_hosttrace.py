"""A living network is watched through the trace of its host."""

import json

import pytest

from net.crowd import EDGE_LOCAL, Threads, write_config
from zocosmo.net.hosttrace import traced_host
from zocosmo.watch.study import Study


@pytest.mark.slow
def test_a_network_whose_members_come_and_go_can_be_watched(tmp_path):
    config = write_config(tmp_path, rounds=400, log_every=10, wire="mod4", method=EDGE_LOCAL)
    crowd = Threads(config, tmp_path / "out")
    seen = Study(tmp_path / "out")
    with traced_host(crowd.host, crowd.out, is_secret=False):
        for _ in range(4):
            crowd.join()
        crowd.wait_for(lambda: crowd.round_of(0) > 10)
        late = crowd.join()
        crowd.wait_for(lambda: crowd.members[late].desk.is_playing)
        gone = crowd.members[1].desk.id
        crowd.members[1].leave()
        crowd.wait_for(lambda: 1 in crowd.results)
        seen.refresh()
        assert (seen.job, seen.status["state"]) == ("host", "running")
        assert "a host sees no values" in seen.status["note"]
        crowd.wait()
    seen.refresh()
    assert seen.status["state"] == "finished"
    graph, left = seen.graph, {0, 1, 2, 3, 4} - {gone}
    assert graph["members"] == sorted(left)
    assert {end for edge in graph["edges"] for end in edge} == left
    happened = {(each["what"], each["text"].partition(",")[0]) for each in seen.events}
    assert {("joined", "member 4 joined"), ("left", f"member {gone} left")} <= happened
    states = {each["rank"]: each["state"] for each in seen.nodes}
    assert states[gone] == "left"


@pytest.mark.parametrize("is_secret", [False, True])
def test_a_secret_seed_is_not_in_the_trace(tmp_path, is_secret):
    config = write_config(tmp_path, rounds=40, wire="f32", method=EDGE_LOCAL)
    crowd = Threads(config, tmp_path / "out")
    with traced_host(crowd.host, crowd.out, is_secret=is_secret):
        for _ in range(4):
            crowd.join()
        crowd.wait()
    lines = [json.loads(line) for line in (crowd.out / ".trace/study.jsonl").read_text().splitlines()]
    seed = lines[0]["trials"][0][3]
    assert (seed == "secret") is is_secret
    assert any("pairs" in line for line in lines) is not is_secret
