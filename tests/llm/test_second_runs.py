"""Runs of the second generation on a model: processes, interruptions, and the adapter that is left."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from dist.plans import case  # noqa: E402
from dist.test_equal import other_logs, other_states, run_cases  # noqa: E402
from llm.tiny import tiny_model  # noqa: E402
from llm.tuning import tuned  # noqa: E402
from zocosmo.experiments import run as runs  # noqa: E402
from zocosmo.log import read_log  # noqa: E402

SECOND = {"q": 24, "directions": 4, "signs": "orthogonal", "step": "normalised", "rule": "balanced"}
SECOND |= {"coupling": "G", "wire": "mod4", "correction": 0.125, "eta": 2.0, "mu": 0.05, "beta": 0.0}
MEAN = {"directions": 4, "signs": "orthogonal", "step": "normalised", "wire": "grid4", "eta": 2.0, "mu": 0.05}
SPACE = {"problem_subspace": {"size": 64}, "problem_rows": "split", "problem_clip": 0.9}
RESULT = ("log.parquet", "states.npz", "adapter/adapter_model.safetensors")


def learnt(model, out, method=SECOND, **more):
    return tuned(model, out, method=method, rounds=6, **SPACE, **more)


def files(folder):
    return [(folder / name).read_bytes() for name in RESULT]


@pytest.fixture(scope="module")
def straight(model, tmp_path_factory):
    out = tmp_path_factory.mktemp("second")
    learnt(model, out)
    return out


def test_a_run_that_ends_between_snapshots_goes_on_to_the_same_bytes(model, straight, tmp_path, monkeypatch):
    """A snapshot has states, v, corrections, what links remember, clipped slopes and examples counted."""

    def die(now):
        if now.round == 4:
            raise ZeroDivisionError

    monkeypatch.setattr(runs, "SNAPSHOT_EVERY", 0.0)
    with pytest.raises(ZeroDivisionError):
        learnt(model, tmp_path, see=die)
    seen = []
    learnt(model, tmp_path, resume=True, see=lambda now: seen.append(now.round))
    assert seen == [4, 6]
    assert files(tmp_path) == files(straight)


def test_a_mean_over_a_tree_goes_on_in_the_middle_of_a_walk(model, tmp_path, monkeypatch):
    """A snapshot has the sums of slopes, x before the walk, and v; round 5 is inside the second of 3."""
    method = {"kind": "tree_mean", "q": 64, "hold": 3, **MEAN}
    learnt(model, tmp_path / "straight", method)

    def die(now):
        if now.round == 6:  # measured before it is saved
            raise ZeroDivisionError

    monkeypatch.setattr(runs, "SNAPSHOT_EVERY", 0.0)
    with pytest.raises(ZeroDivisionError):
        learnt(model, tmp_path / "stopped", method, see=die)
    learnt(model, tmp_path / "stopped", method, resume=True)
    assert files(tmp_path / "stopped") == files(tmp_path / "straight")


def test_what_is_learnt_is_an_ordinary_adapter(straight):
    loaded = peft.PeftModel.from_pretrained(tiny_model(), straight / "adapter")
    moved = [p for name, p in loaded.named_parameters() if "lora_B" in name]
    assert moved
    assert all(p.abs().max() > 0 for p in moved)  # B starts at 0; a direction in the subspace moves all of x


def test_the_log_has_what_a_user_watches(straight):
    rows = read_log(straight / "log.parquet").rows
    assert rows["examples"].tolist() == [8 * t for t in rows["round"]]  # 4 rows, both sides
    assert {"accuracy", "objective", "bits", "failures", "disagreement", "moved"} <= set(rows)


@pytest.mark.slow
def test_processes_are_the_simulator_asked_one_by_one(model, tmp_path):
    problem = {"kind": "llm", "model": str(model), "rank": 2, "batch": 4, "rows": "split", "train_rows": 40}
    problem |= {
        "validation_rows": 8,
        "threads": 1,
        "queries": "one_by_one",
        "subspace": {"size": 64},
        "clip": 0.9,
    }
    entries = {"problem": problem, "graphs": [{"kind": "ring", "n": 2}], "seeds": [5], "rounds": 6}
    methods = [
        {"kind": "edge_local", **SECOND},
        {"kind": "cosmo", **{k: v for k, v in SECOND.items() if k != "coupling"}},
        {"kind": "tree_mean", "q": 64, **MEAN},
        {"kind": "tree_mean", "q": 24, "hold": 3, "rule": "balanced", **MEAN},
        {"kind": "tree_gather", "q": 64, **{**MEAN, "wire": "f16"}},
    ]
    more = {"log_every": 3, "wire": "f32", "dtype": "float32", "methods": methods}
    cases = [case("second", tmp_path, json.dumps({**entries, **more}))]
    run_cases(tmp_path, 2, cases)
    assert list(other_states(cases, tmp_path)) == []
    assert list(other_logs(cases, tmp_path)) == []
