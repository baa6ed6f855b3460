"""Folders of studies: what happens to them while nobody looks."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments.test_run import STUDY, plan
from zocosmo.errors import InputError
from zocosmo.experiments import run as running
from zocosmo.experiments.folder import Folder, FolderPart
from zocosmo.experiments.run import run_plan
from zocosmo.log import make_header, read_log


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, make_header(plan().config, plan().fingerprint))


def columns_of(number):
    return {"trial": np.array([number]), "objective": np.array([0.5])}


def test_a_part_comes_back_as_it_was(tmp_path):
    part = FolderPart(tmp_path / "0001", "stamp")
    part.save("done", columns_of(3))
    found = part.load("done")
    assert found.keys() == columns_of(3).keys()
    assert found["trial"].tolist() == [3]


@pytest.mark.parametrize("content", [b"", b"garbage", None, "cut"])
def test_a_damaged_or_foreign_part_counts_for_nothing(tmp_path, content):
    part, file = FolderPart(tmp_path / "0001", "stamp"), tmp_path / "0001.done.npz"
    FolderPart(tmp_path / "0001", "another").save("done", columns_of(3))
    if content == "cut":
        part.save("done", columns_of(3))
        file.write_bytes(file.read_bytes()[:-30])
    elif content is not None:
        file.write_bytes(content)
    assert part.load("done") is None


def test_a_damaged_part_is_run_again(tmp_path, monkeypatch):
    straight = run_plan(plan()).rows
    monkeypatch.setattr(Folder, "finish", lambda self, log: None)
    run_plan(plan(), tmp_path)
    parts = sorted((tmp_path / "parts").glob("*.done.npz"))
    assert len(parts) == 3
    parts[1].write_bytes(b"not any more")
    monkeypatch.undo()
    assert run_plan(plan(), tmp_path, resume=True).rows.equals(straight)


def test_finished_parts_are_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(Folder, "finish", lambda self, log: None)
    straight = run_plan(plan(), tmp_path).rows
    monkeypatch.setattr(running, "Simulation", None)  # whoever needs it fails
    assert run_plan(plan(), tmp_path, resume=True).rows.equals(straight)


def test_parts_of_another_plan_are_not_taken(tmp_path, monkeypatch):
    """As when processes of a killed study still write into a folder that was given to another."""
    other = plan(STUDY.replace("eta: 0.01", "eta: 0.03"))
    monkeypatch.setattr(Folder, "finish", lambda self, log: None)
    run_plan(other, tmp_path)
    monkeypatch.undo()
    (tmp_path / "plan.json").unlink()
    assert run_plan(plan(), tmp_path).rows.equals(run_plan(plan()).rows)


def test_only_one_process_has_a_folder(folder, tmp_path):
    with folder.opened(resume=False, replace_old=False), pytest.raises(InputError, match="another process"):
        run_plan(plan(), tmp_path)
    assert run_plan(plan(), tmp_path, resume=True).rows.shape[0] == 120


def test_a_log_of_another_plan_is_not_handed_out(folder, tmp_path):
    run_plan(plan(STUDY.replace("rounds: 45", "rounds: 30")), tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps(folder.header))
    with pytest.raises(InputError, match="another plan"):
        run_plan(plan(), tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_a_damaged_plan_is_one_line(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InputError, match="--replace"):
        run_plan(plan(), tmp_path, resume=True)


def test_replacing_leaves_nothing_of_the_old_study(tmp_path):
    run_plan(plan(), tmp_path)
    run_plan(plan(STUDY.replace("rounds: 45", "rounds: 30")), tmp_path, replace_old=True, suffix=".csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "log.csv", "plan.json"]


def test_a_finished_study_is_given_in_the_other_format_too(tmp_path):
    first = run_plan(plan(), tmp_path).rows
    run_plan(plan(), tmp_path, suffix=".csv")
    assert read_log(tmp_path / "log.csv").rows.astype(object).equals(first.astype(object))


def test_text_seeds_that_look_like_nothing_survive_a_text_log(tmp_path):
    log = run_plan(
        plan(STUDY.replace("seeds: [1, 2]", 'seeds: ["NA", "nan", "null"]')), tmp_path, suffix=".csv"
    )
    assert set(read_log(tmp_path / "log.csv").rows["seed"]) == set(log.rows["seed"]) == {"NA", "nan", "null"}


def test_processes_left_alone_end(tmp_path):
    """kill −9 of the parent: its processes notice within a round."""
    (tmp_path / "long.yaml").write_text(STUDY.replace("rounds: 45", "rounds: 1000000"))
    command = [sys.executable, "-m", "zocosmo", "run", "long.yaml", "--processes", "2"]
    parent = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(working(parent.pid)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2.0)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    while working(parent.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert working(parent.pid) == []


def test_a_killed_process_is_one_line_and_the_study_goes_on(tmp_path):
    text = STUDY.replace("rounds: 45", "rounds: 3000")
    (tmp_path / "long.yaml").write_text(text)
    command = [sys.executable, "-m", "zocosmo", "run", "long.yaml", "--processes", "2"]
    parent = subprocess.Popen(
        command, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    if not children.exists():
        parent.kill()
        pytest.skip("this system does not list the children of a process")
    deadline = time.monotonic() + 60
    while not (tmp_path / "runs/long/parts").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    while time.monotonic() < deadline:
        found = children.read_text().split()  # the last to start is a process of the pool
        if len(found) >= 3:
            break
        time.sleep(0.02)
    os.kill(int(found[-1]), signal.SIGKILL)
    err = parent.communicate(timeout=60)[1]
    assert parent.returncode == 2
    assert "a process was killed" in err
    assert "Traceback" not in err
    assert subprocess.run([*command[:5], "--resume"], cwd=tmp_path, capture_output=True).returncode == 0
    assert read_log(tmp_path / "runs/long/log.parquet").rows.equals(run_plan(plan(text)).rows)


def working(session):
    """Processes of a session that are neither gone nor about to be."""
    shown = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-s", str(session)], capture_output=True, text=True
    ).stdout
    return [line for line in shown.splitlines() if "Z" not in line.split()[1]]
