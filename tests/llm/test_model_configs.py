"""The paper's model studies: any model will do, and budgets buy the rounds that the paper says."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny import tiny_folder  # noqa: E402

from zocosmo.core.message import CODECS  # noqa: E402
from zocosmo.core.values import F32  # noqa: E402
from zocosmo.experiments.config import Config  # noqa: E402
from zocosmo.experiments.plan import load_plan  # noqa: E402
from zocosmo.experiments.run import run_plan  # noqa: E402
from zocosmo.graphs.graph import complete, ring  # noqa: E402
from zocosmo.llm.full import open_whole  # noqa: E402
from zocosmo.llm.subject import open_subject  # noqa: E402

FOLDER = Path(__file__).parents[2] / "configs" / "model"
CONFIGS = sorted(FOLDER.glob("*.yaml"))
D, FULL_D = 2_523_136, 6_525_621_760  # of Qwen2-7B: rank 8 on q and v; all but embeddings and head
SMALL = [
    "problem.task=toy", "problem.rank=64", "problem.device=cpu", "problem.threads=1", "problem.dtype=float32",
    "problem.queries=fused", "problem.batch=1", "problem.max_tokens=16", "problem.train_rows=16",
    "problem.validation_rows=4", "rounds=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    yield tiny_folder(tmp_path_factory.mktemp("tiny"), "qwen2")
    open_subject.cache_clear()
    open_whole.cache_clear()


def given(path):
    return Config.load(path).data


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_runs_two_rounds_with_any_model(path, model):
    times = ["log_every=1"] if "log_every" in given(path) else ["checkpoints=[1, 2]"]
    plan = load_plan(path, [1], [f"problem.model={model}", *SMALL, *times])
    log = run_plan(plan).rows
    assert set(log["round"]) == {0, 1, 2}
    assert log["trial"].nunique() == len(plan.trials)
    assert log["accuracy"].between(0, 1).all()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_names_its_command_and_has_the_papers_numbers(path):
    text, data = path.read_text(), given(path)
    verb = "audit" if path.stem == "placement_audit" else "run"
    assert f"# zocosmo {verb} configs/model/{path.name}" in text
    assert (data["problem"]["model"], data["problem"]["dtype"]) == ("Qwen/Qwen2-7B", "bfloat16")
    assert (data["problem"]["clip"], data["dtype"], data["wire"]) == (0, "float32", "f32")
    assert {method["mu"] for method in data["methods"]} == {1e-3}
    assert {method.get("q", 8192) for method in data["methods"]} == {8192}


@pytest.mark.parametrize(
    ("name", "graph", "kind", "codec", "rounds"),
    [
        ("qwen_diagnostics", complete(2), "cosmo", "values", {26_214_400: 100}),
        ("qwen_diagnostics", complete(2), "rand_k_average", "indexed", {26_214_400: 59}),
        ("qwen_two_worker_lora", complete(2), "rand_k_average", "indexed", {26_214_400: 59}),
        ("qwen_edge_local", complete(4), "cosmo", "values", {26_214_400: 33}),
        ("qwen_edge_local", complete(8), "cosmo", "values", {26_214_400: 14}),
        ("qwen_edge_local", ring(8), "cosmo", "values", {26_214_400: 50}),
        ("qwen_edge_local", ring(8), "edge_local", "indexed", {26_214_400: 59}),
        ("qwen_long_correlation", ring(4), "cosmo", "values", {26_214_400: 50}),
        ("qwen_matching_v27", ring(4), "edge_local", "values", {26_214_400: 100, 403_701_760: 1540}),
        ("qwen_reencoding", ring(4), "edge_local", "indexed", {26_214_400: 59, 403_701_760: 912}),
    ],
)
def test_a_budget_buys_rounds_that_are_measured(name, graph, kind, codec, rounds):
    """A node sends to all its neighbours in a round, or to one partner on a matching."""
    data, messages = given(FOLDER / f"{name}.yaml"), 1 if kind == "edge_local" else len(graph.neighbours[0])
    cost = messages * CODECS[codec].bits(D, 8192, F32).payload
    assert {budget: budget // cost for budget in data["budgets"]} == rounds
    assert set(rounds.values()) <= set(data["checkpoints"])
    assert kind in {method["kind"] for method in data["methods"]}


def test_an_update_of_the_whole_model_costs_what_the_paper_says():
    """eq:qwen_value_payload_numeric, eq:qwen_index_payload_numeric"""
    costs = [CODECS[codec].bits(FULL_D, 8192, F32).payload for codec in ("values", "indexed")]
    assert costs == [262_144, 262_144 + 270_336]
