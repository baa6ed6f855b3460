"""Studies on disk: the same log however trials are batched, stopped, resumed or spread over processes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from problems.drifting import ENTRY as DRIFTING
from zocosmo.errors import InputError
from zocosmo.experiments import run as running
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.processes import THREADS, in_processes
from zocosmo.experiments.run import make_batches, run_plan
from zocosmo.log import read_log, write_log

STUDY = """\
problem: {kind: quadratic, d: 8, zeta: 1.0, sigma: 0.1}
graphs: [{kind: ring, n: 4}, {kind: complete, n: 4}]
methods:
  - {kind: cosmo, q: 2, eta: [0.01, 0.02], mu: 0.001, codec: [values, indexed]}
  - {kind: edge_local, q: 2, eta: 0.01, mu: 0.001, beta: 0.5}
  - {kind: com_dszo, q: 2, eta: 0.01, mu: 0.001}
seeds: [1, 2]
rounds: 45
budgets: [1000]
"""


def plan(text=STUDY, **options):
    return read_plan(Config(text, "study.yaml"), "study", **options)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    run_plan(plan(), folder)
    return folder / "log.parquet"


def test_a_log_has_a_row_for_every_trial_and_checkpoint(straight):
    """45 rounds logged every 10: the last round is a checkpoint only if it is a multiple."""
    log = read_log(straight)
    assert log.rows.groupby("trial")["round"].apply(list).tolist() == [[0, 10, 20, 30, 40]] * 24
    assert log.header["fingerprint"] == plan().fingerprint
    assert set(log.header) == {"config", "fingerprint", "source", "versions"}


def test_the_log_of_a_short_study_is_the_beginning_of_a_longer_one(straight):
    short = run_plan(plan(STUDY.replace("rounds: 45", "rounds: 20"))).rows
    long = read_log(straight).rows
    assert short.equals(long[long["round"] <= 20].reset_index(drop=True))


def test_bits_are_those_of_the_links(straight):
    """Ring of 4: two messages a node and round; on the complete graph three, of 2 values of 32 bits."""
    rows = read_log(straight).rows
    last = rows[(rows["round"] == 40) & (rows["method"] == "cosmo eta=0.01") & (rows["seed"] == "1")]
    assert dict(zip(last["graph"], last["bits"], strict=True)) == {"ring": 40 * 128.0, "complete": 40 * 192.0}
    assert (rows["bits"] * rows["n"] == rows[["value_bits", "index_bits", "control_bits"]].sum(axis=1)).all()


def test_the_same_updates_under_two_codecs_are_run_once():
    batches = list(make_batches(plan()))
    assert sorted(len(batch) for batch in batches) == [4, 4, 16]
    assert sorted(len({trial.path for trial in batch}) for batch in batches) == [4, 4, 8]


def test_batches_do_not_change_the_log(straight, monkeypatch, tmp_path):
    monkeypatch.setattr(running, "BATCH_VALUES", 1)
    run_plan(plan(), tmp_path)
    assert (tmp_path / "log.parquet").read_bytes() == straight.read_bytes()


def test_processes_do_not_change_the_log(straight, tmp_path):
    run_plan(plan(), tmp_path, processes=2)
    assert (tmp_path / "log.parquet").read_bytes() == straight.read_bytes()


def test_a_text_log_holds_the_same(straight, tmp_path):
    write_log(tmp_path / "log.csv", read_log(straight))
    a, b = read_log(straight), read_log(tmp_path / "log.csv")
    assert a.header == b.header
    assert a.rows.astype(object).equals(b.rows.astype(object))


class Stop(Exception):
    pass


@pytest.mark.parametrize("at", [1, 3, 9, 14])
def test_a_study_that_is_stopped_goes_on_to_the_same_bytes(straight, tmp_path, monkeypatch, at):
    """Snapshots after every round; the study is torn down at some checkpoint of some batch."""
    monkeypatch.setattr(running, "SNAPSHOT_EVERY", -1.0)
    left = iter([*range(at)][::-1])

    def tick(progress):
        if next(left, 0) == 0:
            raise Stop

    with pytest.raises(Stop):
        run_plan(plan(), tmp_path, tick=tick)
    assert not (tmp_path / "log.parquet").exists()
    run_plan(plan(), tmp_path, resume=True)
    assert (tmp_path / "log.parquet").read_bytes() == straight.read_bytes()
    assert not (tmp_path / "parts").exists()


def test_a_study_interrupted_by_its_caller_goes_on_too(tmp_path, straight):
    def tick(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(plan(), tmp_path, tick=tick)
    run_plan(plan(), tmp_path, resume=True)
    assert (tmp_path / "log.parquet").read_bytes() == straight.read_bytes()


REMEMBERING = f"""\
problem: {{kind: python, entry: "{DRIFTING}", d: 6}}
graphs: [{{kind: ring, n: 4}}]
methods: [{{kind: cosmo, q: 2, eta: [0.01, 0.02], mu: 0.001}}]
seeds: [1, 2]
rounds: 45
"""


@pytest.mark.parametrize("at", [1, 3])
def test_losses_with_a_memory_go_on_to_the_same_bytes(tmp_path, monkeypatch, at):
    """Stopped at checkpoint `at`, with a snapshot after every round; losses of the second study are new."""
    monkeypatch.setattr(running, "SNAPSHOT_EVERY", -1.0)
    left, study = iter([*range(at)][::-1]), plan(REMEMBERING)

    def tick(progress):
        if next(left, 0) == 0:
            raise Stop

    with pytest.raises(Stop):
        run_plan(study, tmp_path / "stopped", tick=tick)
    run_plan(study, tmp_path / "stopped", resume=True)
    run_plan(study, tmp_path / "straight")
    a, b = (tmp_path / name / "log.parquet" for name in ("stopped", "straight"))
    assert a.read_bytes() == b.read_bytes()


def test_a_killed_study_resumes_to_the_same_bytes(tmp_path):
    """kill −9 in the middle, of a study long enough to be in the middle of."""
    text = STUDY.replace("rounds: 45", "rounds: 4000").replace("seeds: [1, 2]", "seeds: [1, 2, 3, 4, 5, 6]")
    (tmp_path / "study.yaml").write_text(text)
    command = [sys.executable, "-m", "zocosmo", "run", "study.yaml", "--out"]
    code = (
        "from zocosmo.experiments import run; run.SNAPSHOT_EVERY = 0.05; from zocosmo.cli import main; main()"
    )
    killed = subprocess.Popen(
        [sys.executable, "-c", code, "run", "study.yaml", "--out", "killed"], cwd=tmp_path
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "killed" / "parts").glob("*.half.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert list((tmp_path / "killed" / "parts").iterdir())
    assert not (tmp_path / "killed" / "log.parquet").exists()
    for line in ([*command, "killed", "--resume"], [*command, "straight"]):
        assert subprocess.run(line, cwd=tmp_path, capture_output=True, timeout=120).returncode == 0
    a, b = (tmp_path / name / "log.parquet" for name in ("killed", "straight"))
    assert a.read_bytes() == b.read_bytes()


def test_a_finished_study_is_not_run_again(straight, monkeypatch):
    monkeypatch.setattr(running, "_run_batches", None)
    assert run_plan(plan(), straight.parent).rows.equals(read_log(straight).rows)


@pytest.mark.parametrize(("key", "says"), [("fingerprint", "another plan"), ("source", "another version")])
def test_the_folder_of_another_study_is_refused(straight, tmp_path, key, says):
    header = {**read_log(straight).header, key: "other"}
    (tmp_path / "plan.json").write_text(json.dumps(header))
    with pytest.raises(InputError, match=says):
        run_plan(plan(), tmp_path, resume=True)
    run_plan(plan(), tmp_path, replace_old=True)
    assert (tmp_path / "log.parquet").read_bytes() == straight.read_bytes()


def test_a_stopped_study_is_not_started_over_silently(straight, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(read_log(straight).header))
    with pytest.raises(InputError, match="--resume"):
        run_plan(plan(), tmp_path)


def test_diverged_runs_end_and_are_marked(tmp_path):
    text = STUDY.replace("eta: [0.01, 0.02]", "eta: [0.01, 1000.0]").replace("rounds: 45", "rounds: 200")
    rows = run_plan(plan(text)).rows
    lost = rows[rows["diverged"]]
    assert set(lost["method"]) == {"cosmo eta=1000", "cosmo eta=1000 indexed"}
    ends = rows.groupby("trial").tail(1)
    assert lost.index.isin(ends.index).all()  # nothing comes after
    assert np.isfinite(rows.loc[~rows["diverged"], "objective"]).all()


def test_float32_studies_run_on_a_real_wire(tmp_path):
    rows = run_plan(plan(STUDY + "dtype: float32\nwire: bf16\n")).rows
    assert rows.loc[rows["round"] == 10, "value_bits"].min() == 10 * 4 * 2 * 16


@pytest.mark.parametrize("given", [None, "2"])
def test_a_process_multiplies_matrices_in_one_thread(monkeypatch, given):
    """Unless the user set a number; the environment of this process stays as it is."""
    monkeypatch.delenv(THREADS, raising=False)
    if given:
        monkeypatch.setenv(THREADS, given)
    seen = dict(in_processes(os.getenv, [(THREADS,)], 1))
    assert seen == {0: given or "1"}
    assert os.getenv(THREADS) == given
