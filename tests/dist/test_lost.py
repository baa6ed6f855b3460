"""A lost peer is the end of a job: soon, everywhere, and with a line that says who, when and why."""

import os
import re
import signal
import time

import pytest

from dist.jobs import BOTH, Disturbed, newest, wait_for, write_config
from zocosmo.experiments.plan import load_plan

PATH = {"kind": "path", "n": 3}
LINE = (
    r"zocosmo: rank {}: rank \d (did not answer|closed the connection) in round \d+, after \d+\.\d s \(.*\n"
)
LOSS = """
def loss(x, t, node):
    if node == 2 and t == 7:
        raise ValueError("the rig of node 2 is on fire")
    return float(x @ x)
"""


def run_until_round_20(job, out):
    job.start()
    wait_for(lambda: newest(out, 2) >= (0, 20))


def ended_lines(job, codes):
    """Last words of ranks 0 and 1, who ended by themselves with a line each and no more."""
    assert codes == [2, 2], job.said()
    for rank in (0, 1):
        assert re.fullmatch(LINE.format(rank), job.lines(rank)), job.lines(rank)
    return job.lines(0), job.lines(1)


def test_a_rank_that_stops_answering_is_lost_after_the_deadline(tmp_path):
    """Rank 1 waits 4 s for its peer; rank 0 as long for rank 1, from at most a round later on."""
    config, out = write_config(tmp_path, PATH, rounds=10**6), tmp_path / "out"
    with Disturbed(tmp_path, 3, config, "--out", out, "--deadline", 4) as job:
        run_until_round_20(job, out)
        job.send(2, signal.SIGSTOP)
        since = time.monotonic()
        far, near = ended_lines(job, job.wait(60, [0, 1]))
        assert 3.9 < time.monotonic() - since < 4 + 6
    assert re.search(r"rank 2 did not answer in round \d+, after 4\.\d s \(deadline 4\.0 s\)", near)
    assert "(deadline 4.0 s)" in far


@pytest.mark.slow
def test_a_rank_that_is_killed_is_lost_at_once(tmp_path):
    config, out = write_config(tmp_path, PATH, rounds=10**6), tmp_path / "out"
    with Disturbed(tmp_path, 3, config, "--out", out, "--deadline", 60) as job:
        run_until_round_20(job, out)
        job.send(2)
        since = time.monotonic()
        far, near = ended_lines(job, job.wait(60, [0, 1]))
        assert time.monotonic() - since < 5
    assert "rank 2 closed the connection" in near
    assert "the first to end was rank 1: rank 2 closed the connection" in far


def test_a_query_that_raises_is_what_the_other_ranks_give_as_the_reason(tmp_path):
    (tmp_path / "rig.py").write_text(LOSS, encoding="utf-8")
    problem = {"kind": "python", "entry": "rig:loss", "d": 12}
    config = write_config(tmp_path, PATH, methods=BOTH[:1], problem=problem)
    env = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    with Disturbed(tmp_path, 3, config, "--out", tmp_path / "out", env=env) as job:
        job.start()
        assert job.wait(100) == [2, 2, 2], job.said()
        why = job.lines(2).removeprefix("zocosmo: rank 2: ").strip()
        assert "node 2" in why
        assert "the rig of node 2 is on fire" in why
        for line in ended_lines(job, [2, 2]):
            assert line.endswith(f"; the first to end was rank 2: {why}\n")


@pytest.mark.parametrize("command", ["run", "launch"])
def test_a_config_that_asks_for_idle_peers_is_told_what_to_use(tmp_path, call_main, command):
    config = write_config(tmp_path, PATH, on_lost_peer="idle")
    code, _, said = call_main(command, str(config), "--out", str(tmp_path / "out"))
    assert (code, said.count("\n")) == (2, 1)
    assert re.search(r"config.yaml:\d+: on_lost_peer idle: .*use zocosmo host and zocosmo join", said)


def test_the_option_of_idle_peers_is_told_what_to_use(tmp_path, call_main):
    config = write_config(tmp_path, PATH)
    code, _, said = call_main("launch", str(config), "--on-lost-peer", "idle")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("zocosmo: --on-lost-peer idle: ")
    assert "use zocosmo host and zocosmo join" in said


def test_what_stops_at_a_lost_peer_may_say_so(tmp_path):
    """Configs of earlier versions name the default."""
    plain, named = tmp_path / "plain", tmp_path / "named"
    plain.mkdir(), named.mkdir()
    plans = [
        load_plan(write_config(plain, PATH)),
        load_plan(write_config(named, PATH, on_lost_peer="stop")),
    ]
    assert plans[0].fingerprint == plans[1].fingerprint
