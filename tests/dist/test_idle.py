"""Jobs that go on without lost peers: pairs idle together, and who returns mixes again."""

import json
import math
import random
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dist.jobs import BOTH, Disturbed, wait_for, write_config
from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import read_log

DRIVER = Path(__file__).with_name("idle_driver.py")
RING = {"kind": "ring", "n": 4}
ROUNDS, GATE = 300, 200
ORDERS = {"gates": [], "apart": False, "pause": 0.0, "every": 10, "deadline": 20.0, "dies": None}
LAUNCH = (
    "import sys; from zocosmo.dist.launch import launch_returning; "
    "sys.exit(launch_returning([sys.executable, *sys.argv[2:]], int(sys.argv[1]), restarts=1))"
)


def write_orders(folder, graph, *, rounds=ROUNDS, eta=0.015625, **changes):
    config = write_config(folder, graph, methods=[{**BOTH[1], "eta": eta}], rounds=rounds, log_every=20)
    orders = folder / "orders.json"
    given = {**ORDERS, "config": str(config), "out": str(folder / "out"), **changes}
    orders.write_text(json.dumps(given), encoding="utf-8")
    return orders


def diaries(folder, rank):
    """What the incarnations of a rank wrote, in order; the first line is the state that it started from."""
    found = sorted(folder.glob(f"did.{rank}.*"), key=lambda path: int(path.suffix[1:]))
    return [
        [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]] for path in found
    ]


def rounds_done(folder, rank):
    """The round that the newest incarnation of a rank wrote about last; −1 before any."""
    written = diaries(folder, rank)
    return written[-1][-1]["t"] if written and written[-1] else -1


def breaches(folder, world):
    """Rounds in which one end of a pair mixed and the other did not, or in which the pair's sum changed."""
    all_of = [diaries(folder, rank) for rank in range(world)]
    mixed = [Counter(line["t"] for one in each for line in one if line["mixed"]) for each in all_of]
    cut = [
        Counter(one[-1]["t"] + 1 for one in each if one) for each in all_of
    ]  # rounds that a kill may have cut
    for rank, each in enumerate(all_of):
        alone = Counter()  # rounds of which the peer's line fits none of ours: a kill may have cut it
        for one in each:
            for before, after in pairwise(one):
                t, peer = after["t"], after["partner"]
                if not after["mixed"]:
                    if after["x"] != before["x"]:
                        yield rank, t, "idled and moved"
                elif mixed[rank][t] > mixed[peer][t] + cut[peer][t]:
                    yield rank, t, f"mixed without {peer}"
                elif mixed[peer][t] and not any(is_mean(before, after, *two) for two in at(all_of[peer], t)):
                    alone[t] += 1
                    if alone[t] > cut[peer][t]:
                        yield rank, t, f"changed the sum with {peer}"


def at(written, t):
    """Lines about round t, in which a node mixed, and those before them."""
    for one in written:
        yield from ((a, b) for a, b in pairwise(one) if b["t"] == t and b["mixed"])


def is_mean(before, after, peer_before, peer_after):
    """Whether two states keep their sum, up to the one rounding of fl(a + b)."""
    quads = zip(after["x"], peer_after["x"], before["x"], peer_before["x"], strict=True)
    return all(abs(math.fsum([a, b, -c, -d])) <= 2.0**-52 * abs(c + d) for a, b, c, d in quads)


@pytest.mark.parametrize(
    ("x", "mixed", "found"),
    [
        ([1.5, 1.5], [True, True], []),
        ([1.0, 2.0], [False, False], []),
        ([1.5, 2.0], [True, False], [(0, 0, "mixed without 1")]),
        ([1.0, 1.5], [False, False], [(1, 0, "idled and moved")]),
        ([1.5, 1.25], [True, True], [(0, 0, "changed the sum with 1"), (1, 0, "changed the sum with 0")]),
    ],
)
def test_the_check_of_pairs_sees_one_that_parts(tmp_path, x, mixed, found):
    """Two nodes at 1 and 2, one round, and a second in which both idle."""
    for rank in range(2):
        told = [(-1, 1.0 + rank, False), (0, x[rank], mixed[rank]), (1, x[rank], False)]
        lines = [json.dumps({"t": t, "partner": 1 - rank, "mixed": m, "x": [v]}) for t, v, m in told]
        (tmp_path / f"did.{rank}.0").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert list(breaches(tmp_path, 2)) == found


@pytest.mark.parametrize(("lost", "found"), [(True, []), (False, [(0, 0, "changed the sum with 1")])])
def test_the_check_knows_that_a_kill_may_cut_a_line(tmp_path, lost, found):
    """Both were killed in round 0, which node 0 alone had written down, and mixed in it again."""
    told = [[1, 1.5], [3, 6.5]], [[2] + [9] * (not lost), [10, 6.5]]
    for rank, incarnations in enumerate(told):
        for number, states in enumerate(incarnations):
            lines = [
                json.dumps({"t": k - 1, "partner": 1 - rank, "mixed": k > 0, "x": [v]})
                for k, v in enumerate(states)
            ]
            (tmp_path / f"did.{rank}.{number}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert [each for each in breaches(tmp_path, 2) if each[0] == 0] == found


def open_gate(job, world):
    """Let all go on from the gate, once they are there; each must then end well."""
    wait_for(lambda: all(rounds_done(job.folder, rank) >= GATE - 1 for rank in range(world)), 120, 0.05)
    (job.folder / f"gate.{GATE}").touch()
    assert job.wait(90) == [0] * world, job.said()


def test_without_a_loss_the_log_is_the_simulators_but_for_the_living(tmp_path):
    orders = write_orders(tmp_path, {"kind": "path", "n": 3}, rounds=60)
    with Disturbed(tmp_path, 3, orders, command=(str(DRIVER),)) as job:
        job.start()
        assert job.wait(100) == [0, 0, 0], job.said()
    plan, out = load_plan(tmp_path / "config.yaml"), tmp_path / "simulated"
    expected, log = run_plan(plan, out, states=True), read_log(tmp_path / "out" / "log.parquet")
    assert (log.rows.pop("living") == 3).all()
    assert log.rows.equals(expected.rows)
    with np.load(tmp_path / "out" / "states.npz") as ours, np.load(out / "states.npz") as theirs:
        assert ours["trial-0"].tolist() == theirs["trial-0"].tolist()


SCHEDULES = {  # ranks to kill (−), to start again (+), and seconds in between
    "one": "-2 1 +2",
    "the one with the log": "-0 0.5 +0",
    "two neighbours": "-1 -2 0.5 +1 +2",
    "opposite": "-0 -2 +0 +2",
    "again while it starts": "-2 +2 0.5 -2 +2 2 -2 +2",
    "again once it is back": "-2 +2 back2 -2 +2 back2 0.2 -2 0.1 +2",
    "a burst": "-1 0.1 -3 0.1 -2 0.3 +2 +3 +1",
    "one after the other": "-0 +0 -1 +1 -2 +2 -3 +3",
    "neighbour of one that comes back": "-1 +1 1 -2 +2",
    "all": "-0 -1 -2 -3 0.5 +0 +1 +2 +3",
}


def disturb(job, schedule):
    for word in schedule.split():
        if word[0] == "-":
            job.send(int(word[1:]))
            job.processes[int(word[1:])].wait()
        elif word[0] == "+":
            job.start_one(int(word[1:]))
        elif word.startswith("back"):
            rank = int(word[4:])
            count = len(diaries(job.folder, rank))
            wait_for(lambda rank=rank, count=count: len(diaries(job.folder, rank)) > count, 60)
        else:
            time.sleep(float(word))


def random_schedule(seed):
    """Kills of up to three ranks and their returns, in any order and after any time."""
    coins, words = random.Random(seed), []
    for _ in range(4):
        lost = coins.sample(range(4), coins.choice([1, 1, 2, 3]))
        words += [f"-{rank}" for rank in lost] + [f"{coins.uniform(0, 2):.2f}"]
        for rank in coins.sample(lost, len(lost)):
            words += [f"+{rank}", f"{coins.choice([0, coins.uniform(0, 4)]):.2f}"]
    return " ".join(words)


SLOW = [pytest.param(text, id=name, marks=pytest.mark.slow) for name, text in list(SCHEDULES.items())[1:]]
SLOW += [pytest.param(random_schedule(k), id=f"random {k}", marks=pytest.mark.slow) for k in range(6)]


@pytest.mark.parametrize("schedule", [pytest.param(SCHEDULES["one"], id="one"), *SLOW])
def test_pairs_mix_or_idle_together_whoever_is_killed_and_whoever_returns(tmp_path, schedule):
    orders = write_orders(tmp_path, RING, eta=0.0, gates=[GATE], apart=True, pause=0.005)
    with Disturbed(tmp_path, 4, orders, command=(str(DRIVER),)) as job:
        job.start()
        wait_for(lambda: min(rounds_done(tmp_path, rank) for rank in range(4)) >= 40, pause=0.02)
        disturb(job, schedule)
        open_gate(job, 4)
    assert list(breaches(tmp_path, 4)) == []
    for rank in range(4):
        last = diaries(tmp_path, rank)[-1]
        assert [line["t"] for line in last] == list(range(last[0]["t"], ROUNDS))
        assert sum(line["mixed"] for line in last if line["t"] > GATE) > 20  # of 99, one in two on average


@pytest.mark.slow
def test_launch_returning_starts_the_lost_process_alone(tmp_path):
    orders = write_orders(tmp_path, {"kind": "path", "n": 3}, rounds=GATE + 50, gates=[GATE], dies=[1, 60])
    line = [sys.executable, "-c", LAUNCH, "3", str(DRIVER), str(orders)]
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(line, stdout=said, stderr=said)
    try:
        wait_for(lambda: len(diaries(tmp_path, 1)) == 2 and rounds_done(tmp_path, 1) >= GATE - 1, 120, 0.05)
        (tmp_path / f"gate.{GATE}").touch()
        assert run.wait(60) == 0, (tmp_path / "said").read_text()
    finally:
        run.kill()
    assert [len(diaries(tmp_path, rank)) for rank in range(3)] == [1, 2, 1]
    assert (tmp_path / "said").read_text().count("comes back") == 1
