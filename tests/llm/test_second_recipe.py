"""The recipe of the second generation: sizes by rule, shifts and steps from training rows."""

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from zocosmo.experiments.plan import load_plan  # noqa: E402
from zocosmo.graphs.graph import complete, ring  # noqa: E402
from zocosmo.llm import recipe  # noqa: E402
from zocosmo.llm.pilot import Pilot  # noqa: E402
from zocosmo.llm.probe import setting_of, suggest_for  # noqa: E402
from zocosmo.llm.recipe import open_recipe, settle  # noqa: E402
from zocosmo.llm.second import length_for, pick_shift, rescaled, shape_for  # noqa: E402
from zocosmo.llm.survey import Level  # noqa: E402
from zocosmo.log import read_log  # noqa: E402

D = 460_800  # of SmolLM2's adapter
SMALL = "--set problem.train_rows=64 --set problem.validation_rows=8 --set problem.threads=1 --batch 2"


KIND = ("methods", 0, "kind")


def level(mu, snr, apart):
    return Level(mu, 0.0, 0.0, snr, apart, 0.0, 0.0)


# Rules


@pytest.mark.parametrize(
    ("rounds", "batch", "size"), [(1540, 16, 4096), (400, 8, 1024), (60, 4, 512), (10**6, 32, 8192)]
)
def test_sizes_are_those_that_were_measured(rounds, batch, size):
    shape = shape_for(D, rounds, batch, ring(4))
    assert (shape.subspace, shape.q, shape.directions, shape.wire) == (size, 224, batch, "mod4")


def test_slow_graphs_have_smaller_subspaces():
    """A ring of 32 mixes slowly: its dimensions must come up more often."""
    sizes = [shape_for(D, 768, 8, graph).subspace for graph in (complete(32), ring(16), ring(32))]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_adapters_without_room_have_no_subspace_and_supports_that_fit():
    shape = shape_for(600, 40, 4, ring(4))
    assert (shape.subspace, shape.q) == (None, 224)
    assert shape_for(100, 40, 80, ring(4))[:3] == (None, 50, 64)
    assert "subspace" not in shape.problem


@pytest.mark.parametrize(("graph", "wire"), [(ring(4), "grid4"), (ring(16), "grid5"), (complete(1), "grid4")])
def test_a_mean_over_a_tree_takes_all_of_its_subspace_in_every_round(graph, wire):
    shape = shape_for(D, 400, 8, graph, kind="tree_mean")
    assert (shape.subspace, shape.q, shape.directions, shape.wire) == (4096, 4096, 8, wire)
    assert shape_for(600, 40, 4, graph, kind="tree_mean")[:3] == (None, 600, 4)
    assert (shape.method["step"], "coupling" in shape.method) == ("normalised", False)


def test_the_step_of_a_mean_over_a_tree_is_that_of_the_average():
    assert {length_for(400, n, share, "tree_mean")[0] for n in (1, 4, 64) for share in (0.0, 1.0)} == {2.83}
    assert length_for(1540, 4, 0.3, "tree_mean")[0] == float(f"{2.83 * (400 / 1540) ** 0.3:.3g}")


@pytest.mark.parametrize(("rounds", "eta"), [(400, 4.25), (1540, 2.84)])
def test_lengths_of_steps_are_those_that_were_best(rounds, eta):
    assert length_for(rounds, 4, 0.3)[0] == eta


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_steps_lengthen_with_nodes_by_what_averaging_shortens_them(share):
    """√(ρ + (1 − ρ)/n) is the length of an average of n unit steps; the factor is at most √2."""
    four, sixteen = (length_for(400, n, share)[0] for n in (4, 16))
    factor = math.sqrt((share + (1 - share) / 4) / (share + (1 - share) / 16))
    assert sixteen / four == pytest.approx(min(factor, math.sqrt(2)), rel=2e-3)


def test_the_longest_straight_shift_is_taken():
    levels = [level(0.01, 30, 0.01), level(0.03, 90, 0.05), level(0.1, 300, 0.4), level(0.3, 900, math.nan)]
    assert pick_shift(levels).mu == 0.03
    assert pick_shift([level(0.01, 5, 0.01), level(0.03, 90, math.nan)]) is None


def test_the_best_pilot_is_scaled_to_the_run():
    tried = [Pilot(4.0, 0.7, 0.6, 1.0), Pilot(8.0, 0.7, 0.5, 1.0), Pilot(16.0, 0.7, 2.0, 1.0)]
    assert rescaled(tried, 60, 400)[0] == float(f"{8 * (60 / 400) ** 0.3:.3g}")
    lost = [Pilot(4.0, 0.7, 2.0, 1.0)]
    assert rescaled(lost, 60, 60)[0] == 4.0
    assert "all pilots diverged" in rescaled(lost, 60, 60)[1][0]


# finetune


@pytest.mark.parametrize(
    ("sets", "second"),
    [
        ([], True),
        (["methods.0.kind=edge_local"], True),
        (["methods.0.kind=tree_mean"], True),
        (["rounds=100"], True),
        (["methods.0.q=64"], False),
        (["methods.0.beta=0.9"], False),
        (["methods.0.kind=cosmo"], False),
        (["problem.subspace={size: 64}"], False),
    ],
)
def test_what_is_said_of_the_method_makes_it_the_papers(sets, second):
    data = open_recipe(None, {}, sets).data
    assert (data["methods"][0].get("step") == "normalised") == second
    assert (data["problem"].get("rows") == "split") == second
    assert ("beta" in data["methods"][0]) != second


def test_exact_is_the_papers_recipe():
    method = open_recipe(None, {}, exact=True).data["methods"][0]
    assert method == {"kind": "edge_local", "beta": 0.9, "decay": {"kind": "constant"}}


def test_the_command_runs_it_and_names_every_choice(run, tmp_path):
    code, out, err = run(f"finetune --model tiny --method edge_local --rounds 2 {SMALL} --out a")
    assert code == 0, err
    plan = load_plan(tmp_path / "a" / "config.yaml")
    method, problem = plan.trials[0].method, plan.config["problem"]
    assert (problem["subspace"], problem["rows"], problem["clip"]) == ({"size": 512}, "split", 0.9)
    assert (method.q, method.directions, method.wire, method.coupling) == (224, 2, "mod4", "G")
    assert (method.step_rule, method.rule, method.signs, method.beta) == (
        "normalised",
        "balanced",
        "orthogonal",
        0,
    )
    assert method.eta > 0
    for reason in (
        "subspace of 512",
        "K = 2",
        "wire mod4",
        "coupling G",
        "shifts of length",
        "steps of length",
    ):
        assert reason in err
    assert "sending gradients" in out
    rows = read_log(tmp_path / "a" / "log.parquet").rows
    assert {"examples", "failures", "disagreement", "moved"} <= set(rows)


def test_the_command_runs_it_over_a_tree(run, tmp_path):
    code, out, err = run(f"finetune --model tiny --rounds 2 {SMALL} --out a")
    assert code == 0, err
    plan = load_plan(tmp_path / "a" / "config.yaml")
    method = plan.trials[0].method
    assert "subspace" not in plan.config["problem"]  # 1,792 numbers are few
    assert (method.kind, method.q, method.directions, method.wire) == ("tree_mean", 1792, 2, "grid4")
    assert (method.step_rule, method.signs) == ("normalised", "orthogonal")
    assert "this run, tree_mean" in out
    assert "messages that could not be read" not in out  # all can be


def test_only_training_rows_have_a_say(run, monkeypatch):
    """The validation rows are read for checkpoints, and nothing that is probed asks for them."""
    seen = {}

    def probing(*given, **named):
        seen.update(named)
        monkeypatch.undo()
        raise ZeroDivisionError

    monkeypatch.setattr(recipe, "suggest_for", probing)
    with pytest.raises(ZeroDivisionError):
        settle(open_recipe(None, {("problem", "model"): "tiny", ("rounds",): 4, KIND: "edge_local"}), "demo")
    assert seen["shape"].subspace == 512


# probe


def test_the_probe_proposes_it_and_its_config_runs(run, tmp_path):
    more = (
        "--set train_rows=64 --set threads=1 --set validation_rows=8 --device cpu --directions 4 --examples 8"
    )
    line = (
        f"probe --model tiny --method edge_local {more} --batch 2 --rounds 1 --for-rounds 4 --to ready.yaml"
    )
    line += " --figure seen.png"
    code, out, err = run(line)
    assert (code, err) == (0, "")
    assert "subspace 512, K = 2, mod4, coupling G" in out
    assert "steps of length" in out
    plan = load_plan(tmp_path / "ready.yaml")
    assert dict(plan.trials[0].problem)["subspace.size"] == 512
    assert plan.trials[0].method.step_rule == "normalised"
    assert run("run ready.yaml")[0] == 0


def test_the_probe_proposes_a_mean_over_a_tree_and_its_config_runs(run, tmp_path):
    more = (
        "--set train_rows=64 --set threads=1 --set validation_rows=8 --device cpu --directions 4 --examples 8"
    )
    line = f"probe --model tiny {more} --batch 2 --rounds 1 --for-rounds 4 --to ready.yaml"
    code, out, err = run(line)
    assert (code, err) == (0, "")
    assert "K = 2, grid4\n" in out
    method = load_plan(tmp_path / "ready.yaml").trials[0].method
    assert (method.kind, method.step_rule) == ("tree_mean", "normalised")
    assert run("run ready.yaml")[0] == 0


def test_the_same_seed_proposes_the_same(model):
    setting = setting_of(model=str(model), train_rows=64, threads=1, batch=2, rows="split")
    shape = shape_for(1792, 20, 2, ring(4))
    found = [suggest_for(setting, shape=shape, planned=20, rounds=2) for _ in range(2)]
    assert found[0] == found[1]
    assert not found[0].hopeless
    assert found[0].eta == pytest.approx(found[0].pilot * (2 / 20) ** 0.3, rel=5e-3)
