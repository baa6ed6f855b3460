"""The model studies: not run without a model, orderings with any, figures with the paper's own."""

import math
from pathlib import Path

import pandas as pd
import pytest

from zocosmo_paper.item import Evidence
from zocosmo_paper.items.models import (
    DIAGNOSTICS,
    ITEMS,
    MATCHING,
    REENCODING,
    SCHEDULING,
    SHORT,
    STUDIES,
    TOPOLOGY,
)
from zocosmo_paper.model import QWEN, At, D
from zocosmo_paper.plans import config_text
from zocosmo_paper.run import reproduce

SETTINGS = [
    "problem.task=toy", "problem.rank=64", "problem.device=cpu", "problem.threads=1", "problem.dtype=float32",
    "problem.queries=fused", "problem.batch=1", "problem.max_tokens=16", "problem.train_rows=16",
    "problem.validation_rows=4", "rounds=2", "checkpoints=[1, 2]",
]  # fmt: skip


def log_of(study, accuracy):
    """A log with one row at every place of a study; `accuracy` of seed s by method."""
    places = dict.fromkeys(at for claim in study.claims for at in claim.places)
    spots = dict.fromkeys((at.graph, at.method) for at in places)
    rows = [
        {"trial": 5 * k + s, "problem": "llm", "graph": graph, "method": method, "seed": str(s), "round": 100,
         "bits": float(SHORT), "accuracy": accuracy(method, s), "local": 1.0 - accuracy(method, s) / 10,
         "objective": 1.0, "disagreement": 4.0 * D, "diverged": False}
        for k, (graph, method) in enumerate(spots) for s in range(5)
    ]  # fmt: skip
    return {f"model/{study.configs[0]}": pd.DataFrame(rows)}


def found(study, model, accuracy=lambda method, s: 0.6):
    item = next(item for item in ITEMS if item.name == study.name)
    logs = log_of(study, accuracy) if model else {}
    return {claim.words: claim for claim in item.find(Evidence(logs, None, Path(), model)).claims}


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_without_a_model_nothing_is_run_and_the_command_is_there(item):
    claims = item.find(Evidence({}, None, Path())).claims
    assert claims
    assert {claim.verdict for claim in claims} == {"not run"}
    first = "no command: " if item.name == "qwen-training-loss" else "run: zocosmo "
    assert all(claim.note.startswith(first) for claim in claims)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_config_is_there(study):
    assert all("[" in config_text(f"model/{name}") for name in study.configs)


def test_an_ordering_is_tried_with_any_model():
    ahead = found(DIAGNOSTICS, "tiny", lambda method, s: 0.6 + 0.01 * s + 0.1 * (method == "ZO-COSMO"))
    behind = found(DIAGNOSTICS, "tiny", lambda method, s: 0.6 + 0.01 * s - 0.1 * (method == "ZO-COSMO"))
    words = "values alone beat explicit indices"
    assert (ahead[words].verdict, behind[words].verdict) == ("ordering", "no")


def test_figures_are_held_against_no_other_model():
    words = "accuracy (%) at the budget, ZO-COSMO"
    assert found(DIAGNOSTICS, "tiny")[words].verdict == "not run"
    assert found(DIAGNOSTICS, QWEN, lambda method, s: 0.66)[words].verdict == "within"
    assert found(DIAGNOSTICS, QWEN, lambda method, s: 0.72)[words].verdict == "no"


def test_a_log_without_a_place_says_so():
    claim = found(MATCHING, QWEN)["S is more accurate than G, drop"]
    assert (claim.verdict, "no round 1540 of edge_local decay=drop" in claim.note) == ("not run", True)


def test_units_are_the_papers():
    """Accuracy in per cent; RMS is √(disagreement / d) = √4."""
    logs = list(log_of(TOPOLOGY, lambda method, s: 0.5).values())
    assert set(At("ring n=4", "cosmo").values(logs)[0].values()) == {50.0}
    assert set(At("ring n=4", "cosmo", "rms").values(logs)[0].values()) == {2.0}


def test_a_tiny_model_runs_a_study_to_its_verdicts(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from llm.tiny import tiny_folder

    model = tiny_folder(tmp_path / "tiny", "qwen2")
    given = [f"problem.model={model}", *SETTINGS]
    (result,) = reproduce([SCHEDULING.name], tmp_path / "out", seeds=2, given=given)
    claim = next(claim for claim in result.findings.claims if "matching has less NLL" in claim.words)
    assert claim.verdict in ("ordering", "no")
    assert math.isfinite(claim.ours)
    assert claim.seeds == 2
    assert result.command.startswith(f"zocosmo reproduce qwen-scheduling --seeds 2 --model {model} --set ")


def test_a_printed_difference_is_held_against_its_interval():
    """Printed −1.08 [−5.85, 3.67] points."""
    words = "accuracy (points), ZO-COSMO minus seed-aware Rand-k"
    by = {"ZO-COSMO": 0.66, "seed-aware Rand-k": 0.67}
    near = found(DIAGNOSTICS, QWEN, lambda method, s: by.get(method, 0.6) + 0.01 * s)[words]
    far = found(DIAGNOSTICS, QWEN, lambda method, s: 0.8 if method == "ZO-COSMO" else 0.6)[words]
    assert (near.verdict, far.verdict) == ("within", "no")
    assert near.ours == pytest.approx(-1.0)
    assert found(DIAGNOSTICS, "tiny")[words].verdict == "not run"


@pytest.mark.parametrize(
    ("rms", "verdict"), [(1.6449, "no"), (1.6451, "within"), (1.7149, "within"), (1.7151, "no")]
)
def test_a_mean_may_round_to_anything_between_two_printed_ends(rms, verdict):
    words = "RMS disagreement at 1,540 rounds, G, S and I, constant"
    (span,) = (each for each in MATCHING.claims if each.words == words)
    (log,) = log_of(MATCHING, lambda method, s: 0.6).values()
    log = log.assign(round=1540, disagreement=D * rms**2)
    assert span.judge([log], QWEN).verdict == verdict
    assert span.judge([log], "tiny").verdict == "not run"


def test_trajectories_that_must_be_equal_are_compared_exactly():
    words = "both encodings of Rand-k are one trajectory"
    off = {"seed-aware Rand-k": 1e-9}
    assert found(DIAGNOSTICS, "tiny")[words].verdict == "within"
    assert found(DIAGNOSTICS, "tiny", lambda method, s: 0.6 + off.get(method, 0.0))[words].verdict == "no"


def test_an_interval_that_spans_zero_is_asked_for():
    words = "accuracy and NLL after 100 rounds do not tell matching from all neighbours"
    apart = {"matching G": 0.1}
    mixed = found(SCHEDULING, "tiny", lambda method, s: 0.6 + (s - 2) * 0.01 * (method == "matching G"))
    assert mixed[words].verdict == "within"
    assert found(SCHEDULING, "tiny", lambda m, s: 0.6 + 0.01 * s + apart.get(m, 0.0))[words].verdict == "no"


def test_what_is_printed_for_several_or_twice_is_counted_once():
    claims = found(MATCHING, "") | found(REENCODING, "")
    kinds = {words: claim.kind for words, claim in claims.items()}
    assert kinds["1,540 rounds leave less disagreement than 100: G, S and I, drop"] == "ordering"
    assert kinds["accuracy (%), I, values"] == "check"
    same = claims["NLL at round 100 is that of the constant step: G, S and I, drop"]
    assert (same.kind, "holds by construction" in same.note) == ("check", True)


def test_what_small_models_say_stands_beside_and_is_marked():
    claims = found(MATCHING, "")
    assert "another model, SmolLM2" in claims["S is more accurate than G, drop"].note
    assert "another model" not in claims["accuracy (%) at 1,540 rounds, G, drop"].note
