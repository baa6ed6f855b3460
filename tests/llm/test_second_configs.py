"""Studies of the second generation that wait for a GPU: they load, and follow the rule of the probe."""

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm.tiny import tiny_folder  # noqa: E402
from zocosmo.compare.config import load_comparison  # noqa: E402
from zocosmo.experiments.config import Config  # noqa: E402
from zocosmo.experiments.plan import load_plan  # noqa: E402
from zocosmo.llm.second import FARTHEST, length_for, shape_for  # noqa: E402
from zocosmo.llm.subject import open_subject  # noqa: E402

CONFIGS = Path(__file__).parents[2] / "configs"
STUDIES = sorted(path for path in (CONFIGS / "second-models").glob("*.yaml") if path.stem != "field")
D = {"smollm2": 460_800, "qwen2.5-coder-0.5b": 540_672}
HERE = [
    "problem.task=toy",
    "problem.dtype=float32",
    "problem.device=cpu",
    "problem.train_rows=64",
    "problem.rank=64",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    yield tiny_folder(tmp_path_factory.mktemp("tiny"))
    open_subject.cache_clear()


def test_every_task_and_number_of_nodes_has_a_study():
    tasks = {f"{task}-{name}" for task in ("boolq", "rte", "mrpc", "qnli") for name in ("smollm2", "qwen")}
    trees = {f"tree-{name}" for name in ("smollm2", "smollm2-32", "smollm2-400", "nodes-16", "qnli-qwen")}
    assert {path.stem for path in STUDIES} == {
        *tasks,
        *trees,
        "sst2-qwen",
        *(f"nodes-{n}" for n in (4, 8, 16, 32)),
    }


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_loads_and_has_the_sizes_of_the_rule(path, model):
    given = Config.load(path).data
    plan = load_plan(path, None, [f"problem.model={model}", *HERE])
    method, problem, graph = plan.trials[0].method, given["problem"], plan.trials[0].graph_of()
    shape = shape_for(D[problem["model"]], plan.last, problem["batch"], graph, kind=method.kind)
    assert problem["subspace"]["size"] == shape.subspace
    assert (method.q, method.directions, method.wire) == (shape.q, shape.directions, shape.wire)
    least = length_for(plan.last, graph.n, 1.0, method.kind)[0]
    most = least * (1.0 if method.kind == "tree_mean" else FARTHEST)
    assert least <= method.eta <= most
    assert len({trial.seed for trial in plan.trials}) == 5
    assert plan.last == (400 if path.stem.endswith("-400") else 1540)
    assert f"# zocosmo run configs/second-models/{path.name}" in path.read_text(encoding="utf-8")


def test_numbers_of_nodes_share_out_the_same_rows():
    given = [Config.load(CONFIGS / "second-models" / f"nodes-{n}.yaml").data for n in (4, 8, 16, 32)]
    assert {data["problem"]["batch"] * data["graphs"][0]["n"] for data in given} == {64}


def test_the_field_gives_every_method_as_many_settings(model):
    changes = [text.replace("problem.", "problems.sst2.") for text in [f"problem.model={model}", *HERE]]
    comparison = load_comparison(CONFIGS / "second-models" / "field.yaml", changes)
    (contest,) = comparison.contests
    assert {len(candidate.grid) for candidate in contest.candidates} == {6}
    kinds = {candidate.kind for candidate in contest.candidates}
    assert {"edge_local", "tree_sum", "fzoo", "decomfl", "seedflood", "feedsign", "mezo"} <= kinds
    ours = [c for c in contest.candidates if c.label.startswith("second generation")]
    sizes = [(c.kind, c.fixed["problem"]["rows"], c.fixed["problem"]["subspace"]["size"]) for c in ours]
    assert sizes == [("edge_local", "split", 1024)] * 2 + [("tree_mean", "split", 4096)]
    text = (CONFIGS / "second-models" / "field.yaml").read_text(encoding="utf-8")
    before = (CONFIGS / "field-smollm2.yaml").read_text(encoding="utf-8")
    old = set(re.findall(r"kind: (\w+)", before)) - {"llm", "ring"}
    assert old <= set(re.findall(r"kind: (\w+)", text))
