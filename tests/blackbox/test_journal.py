"""Everything paid for is kept: interrupts, kill −9 and failing rigs ask nothing twice."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from zocosmo import minimize
from zocosmo.blackbox.journal import Journal, Key, read_lines
from zocosmo.errors import InputError, OracleError

X0 = np.full(4, 2.5)
STEP = {"q": 1, "eta": 0.1, "mu": 0.1}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No waiting for the disk in this process; programs that are started do wait."""
    monkeypatch.setattr("zocosmo.blackbox.journal.os.fsync", lambda handle: None)


class Rig:
    """A bowl that notes what it is asked, and can break at a query."""

    def __init__(self, node=0, breaks=None, error=None):
        self.node, self.breaks, self.error, self.asked = node, breaks, error, []

    def __call__(self, x):
        if len(self.asked) == self.breaks:
            self.breaks = None
            raise self.error
        self.asked.append(x.tobytes())
        return float(np.sum((x - self.node) ** 2))


WAYS = {
    "given": STEP,
    "suggested": {},
    "tolerance": {"tol": 1e-4},
    "several": {**STEP, "q": 2, "directions": 2, "signs": "orthogonal", "sides": 1},
    "workers": {**STEP, "workers": 3},
}


def start(rigs, path, way, rounds=20):
    return minimize(rigs, X0, rounds=rounds, journal=path, **WAYS[way])


CUTS = [(way, KeyboardInterrupt()) for way in WAYS] + [
    *(
        (way, ValueError("cable")) for way in ("given", "several", "workers")
    ),  # probes may do without an answer
    *((way, SystemExit(143)) for way in ("suggested", "tolerance")),
]


@pytest.mark.parametrize(
    ("way", "error"), CUTS, ids=lambda each: each if isinstance(each, str) else type(each).__name__
)
def test_a_run_that_was_cut_short_asks_nothing_twice_and_ends_as_if_it_never_was(tmp_path, way, error):
    whole = minimize([Rig(i) for i in range(3)], X0, rounds=20, **WAYS[way])
    rng = random.Random(f"{way} {error}")
    for trial in range(3):
        path = tmp_path / f"{trial}.journal"
        rigs = [Rig(0), Rig(1, rng.randrange(40), error), Rig(2)]
        with pytest.raises((type(error), OracleError)):
            start(rigs, path, way)
        result = start(rigs, path, way)
        assert (result.states == whole.states).all()
        assert (result.nfev, result.bits, result.fun) == (whole.nfev, whole.bits, whole.fun)
        assert sum(len(rig.asked) for rig in rigs) == whole.nfev


def test_a_longer_run_takes_over_the_answers_of_a_shorter_one(tmp_path):
    rig, path = Rig(), tmp_path / "j"
    short, rest = start(rig, path, "given", 5), start(rig, path, "given", 12)
    assert (rest.x == minimize(Rig(), X0, rounds=12, **STEP).x).all()
    assert len(rig.asked) == rest.nfev + 1  # the average after round 5 is not needed again
    assert short.journal == rest.journal == path


class Counting(Rig):
    """A rig whose answers depend on how often it was asked."""

    def __call__(self, x):
        return super().__call__(x) + 0.01 * np.sin(len(self.asked))

    def state_dict(self):
        return {"asked": len(self.asked)}

    def load_state_dict(self, state):
        self.asked = [b""] * state["asked"]


def test_the_memory_of_a_loss_is_in_the_journal(tmp_path):
    whole = start(Counting(), tmp_path / "whole", "given")
    with pytest.raises(KeyboardInterrupt):
        start(Counting(0, 17, KeyboardInterrupt()), tmp_path / "j", "given")
    assert (start(Counting(), tmp_path / "j", "given").states == whole.states).all()


def test_a_vectorised_loss_is_kept_too(tmp_path):
    calls = []

    def losses(x):
        if len(calls) == 9:
            calls.append(0)
            raise ValueError
        calls.append(0)
        return (x**2).sum(axis=1)

    about = {"n": 3, "rounds": 10, "vectorized": True, "journal": tmp_path / "j", **STEP}
    with pytest.raises(OracleError):
        minimize(losses, X0, **about)
    assert minimize(losses, X0, **about).nfev == 3 * (len(calls) - 1)


def test_probes_that_a_suggestion_did_without_are_met_again(tmp_path):
    """log is not defined at the far probes: the survey goes on without them, and so does its replay."""
    asked = Counter()

    def f(x):
        asked[x.tobytes()] += 1
        if asked.total() == 150:
            raise KeyboardInterrupt
        return float(np.sum(x - 0.3 * np.log(x))) if (x > 0).all() else float("nan")

    about = {"rounds": 30, "reach": 2.0, "journal": tmp_path / "j"}
    with pytest.raises(KeyboardInterrupt):
        minimize(f, np.full(3, 0.7), **about)
    before = asked.total()
    result = minimize(f, np.full(3, 0.7), **about)
    assert asked.total() - 1 == result.nfev  # the interrupted query was begun twice
    assert 0 < before < asked.total()


def test_a_line_that_was_cut_off_is_dropped_and_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "j"
    start(Rig(), path, "given", 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    rig = Rig()
    start(rig, path, "given", 3)
    assert len(rig.asked) == 1
    path.write_bytes(whole.replace(b'"answer": 2', b'"answer": 3', 1))
    with pytest.raises(InputError, match=r"j:2: not a line of a journal, or damaged"):
        start(Rig(), path, "given", 3)
    assert read_lines(whole, path)[1] == len(whole)


def test_one_process_writes_and_another_run_is_refused(tmp_path):
    path = tmp_path / "j"
    held = Journal(path, {"x0": 1})
    with pytest.raises(InputError, match="is being written by another process"):
        Journal(path, {"x0": 1})
    held.keep(Key(0, 0, "query x", "ab"), 0.1)
    held.close()
    with pytest.raises(InputError, match="is of a run with x0 = 1, not 2"):
        Journal(path, {"x0": 2})
    again, key = Journal(path, {"x0": 1}), Key(0, 0, "query x", "ab")
    assert (again.answer(key), again.answer(key)) == (0.1, None)
    again.close()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"eta": 0.2},
        {"bounds": (0, 9)},
        {"wire": "f32"},
        {"n": 2},
        {"method": "dense", "q": None},
    ],
)
def test_a_journal_of_another_question_is_refused(tmp_path, change):
    rig = Rig()
    minimize(rig, X0, rounds=3, journal=tmp_path / "j", **STEP)
    before = len(rig.asked)
    with pytest.raises(InputError, match=r"journal .* is of a run with"):
        minimize(rig, X0, rounds=3, journal=tmp_path / "j", **{**STEP, **change})
    assert len(rig.asked) == before


# The command line, with real programs and real signals

RIG = """
import os, sys, time
x = [float(v) for v in sys.argv[2].split(",")]
with open("asked", "a") as file:
    file.write(sys.argv[1] + " " + sys.argv[2] + " " + sys.argv[3] + "\\n")
if os.path.exists("broken-" + sys.argv[1]):
    sys.exit("the rig is broken")
print(sum((v - 1) ** 2 for v in x))
"""


def command(rounds, *more):
    rig = f"{sys.executable} -S rig.py {{node}} {{x}} {{round}}"
    words = [
        "minimize",
        "--command",
        rig,
        "--d",
        "3",
        "--nodes",
        "2",
        "--rounds",
        str(rounds),
        "--json",
        *more,
    ]
    return [sys.executable, "-m", "zocosmo", *words, "--q", "1", "--eta", "0.1", "--mu", "0.1"]


def lines(tmp_path):
    return (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []


def cut_short(tmp_path, rounds, number, how):
    """Start, wait for some queries, and end it by a signal or a broken rig; the queries that were begun."""
    (tmp_path / "rig.py").write_text(RIG)
    process = subprocess.Popen(
        command(rounds), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while len(lines(tmp_path)) < number and time.monotonic() < until and process.poll() is None:
        time.sleep(0.002)
    if isinstance(how, signal.Signals):
        process.send_signal(how)
    else:
        (tmp_path / "broken-1").touch()
    err = process.communicate(timeout=60)[1]
    (tmp_path / "broken-1").unlink(missing_ok=True)
    return process.returncode, err


def answered(tmp_path, paid):
    """What was asked for the answers in a journal: the first questions of each node. The next one may have
    been begun, without an answer, by a program that outlived kill −9."""
    for node in (0, 1):
        asked = dict.fromkeys(line for line in lines(tmp_path) if line.startswith(f"{node} "))
        yield from list(asked)[: sum(record["node"] == node for record in paid)]


def goes_on(tmp_path, rounds, number, how):
    code, err = cut_short(tmp_path, rounds, number, how)
    kept = list(tmp_path.glob("*.journal"))
    paid = [json.loads(line.split(" ", 1)[1]) for path in kept for line in path.read_text().splitlines()][1:]
    done = subprocess.run(command(rounds), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    assert report["nfev"] == rounds * 4 + 2
    assert all(lines(tmp_path).count(line) == 1 for line in answered(tmp_path, paid))  # none is asked again
    assert len(set(lines(tmp_path))) == report["nfev"]
    assert list(tmp_path.glob("*.journal")) == []
    return code, err, report


@pytest.mark.slow
def test_after_a_signal_the_same_command_goes_on(tmp_path):
    code, err, _ = goes_on(tmp_path, 3, 7, signal.SIGINT)
    assert code == 130
    assert "answers are kept in zocosmo-minimize-" in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(50))
def test_nothing_paid_for_is_asked_again_50_of_50(tmp_path, trial):
    """Ctrl-C, kill −9 and a rig that fails, at a random query."""
    how = [signal.SIGINT, signal.SIGKILL, "broken"][trial % 3]
    code, _, report = goes_on(tmp_path, 12, random.Random(trial).randrange(1, 48), how)
    whole = minimize([lambda x: float(((x - 1) ** 2).sum())] * 2, np.zeros(3), rounds=12, seed="0", **STEP)
    assert code in (130, -9, 2, 0)
    assert np.allclose(report["x"], whole.x, rtol=1e-12)


def test_a_failing_program_names_the_file_and_a_named_journal_stays(tmp_path, call_main, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rig.py").write_text(RIG)
    (tmp_path / "broken-1").touch()
    words = command(4, "--journal", "mine.journal")[3:]
    code, _, err = call_main(*words)
    assert (code, err.count("\n")) == (2, 1)
    assert "1 answer is kept in mine.journal: --resume it" in err
    assert call_main(*words)[2].startswith(
        "zocosmo: --journal mine.journal exists; go on from it with --resume"
    )
    (tmp_path / "broken-1").unlink()
    code, out, _ = call_main(*command(4, "--resume", "mine.journal")[3:])
    assert (code, json.loads(out)["nit"], len(lines(tmp_path))) == (0, 4, 19)
    assert (tmp_path / "mine.journal").exists()
