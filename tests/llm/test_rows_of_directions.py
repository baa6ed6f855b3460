"""Directions on rows of their own: K directions for one batch, in a subspace too, and in processes."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from dist.plans import case  # noqa: E402
from dist.ranks import run_cases  # noqa: E402
from dist.test_equal import other_logs, other_states  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.experiments.config import Config  # noqa: E402
from zocosmo.experiments.plan import read_plan  # noqa: E402
from zocosmo.experiments.run import run_plan  # noqa: E402
from zocosmo.graphs.graph import complete, ring  # noqa: E402
from zocosmo.llm import memory  # noqa: E402
from zocosmo.llm.finetune import finetune  # noqa: E402
from zocosmo.llm.problem import LanguageModel  # noqa: E402
from zocosmo.llm.recipe import open_recipe, settle  # noqa: E402
from zocosmo.llm.sampling import blocks  # noqa: E402
from zocosmo.methods import Cosmo, EdgeLocal  # noqa: E402
from zocosmo.oracle import Problem, ask_slopes  # noqa: E402
from zocosmo.problems.language import llm  # noqa: E402
from zocosmo.problems.subspace import in_subspace  # noqa: E402
from zocosmo.sim.engine import Run, Simulation  # noqa: E402
from zocosmo.torch.lifted import LiftedRows  # noqa: E402
from zocosmo.torch.rows import Rows  # noqa: E402

SMALL = {"rank": 2, "batch": 4, "train_rows": 40, "validation_rows": 9, "threads": 1, "eval_batch": 4}
STEP = {"q": 5, "eta": 2.0, "mu": 0.05, "directions": 4, "signs": "orthogonal", "step_rule": "normalised"}
CLOSE = 1e-5  # slopes of a fused forward in float32: losses differ near 1e-7, divided by 2μ = 0.1
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


def build(model, n=3, queries="one_by_one", size=None, seed=1, **more):
    problem = llm(n, seed, model=str(model), queries=queries, **{**SMALL, "rows": "split", **more})
    return problem if size is None else in_subspace(problem, size, seed)


def simulation(problems, method, wire="f32"):
    graph = ring(problems[0].n) if problems[0].n > 1 else complete(1)
    runs = [Run(method, graph, problem, k + 1) for k, problem in enumerate(problems)]
    return Simulation(runs, dtype="float32", wire=wire)


def advance(sim, rounds):
    for _ in range(rounds):
        sim.round()
    return sim


def in_rows(device):
    def states(self, method, *opened):
        self._open(method)
        return Rows(Problem.states(self, method, *opened), torch.device(device))

    return states


def in_array(self, method, *opened):
    self._open(method)
    return Problem.states(self, method, *opened)


@pytest.mark.parametrize("k", [1, 3, 4])
@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
def test_a_direction_sees_its_block_of_the_batch_on_both_sides(model, queries, k):
    problem = build(model, queries=queries)
    sim = simulation([problem], Cosmo(**{**STEP, "directions": k}))
    query, inner = sim.ask(), sim.problem
    found, subject = inner.slopes(query, 0), inner.subject
    assert found.shape == (1, 3, k)
    for node, of_node in enumerate(inner.sampler.sample(0)):
        for one, (cut, u) in enumerate(zip(blocks(4, k), query.directions, strict=True)):
            plus, minus = (
                torch.from_numpy(x[0, node, None]) for x in query._replace(directions=(u,)).points()
            )
            batch = subject.train.batch(of_node[cut], subject.backbone.device)
            losses = [subject.backbone.losses(x.float(), batch)[0].mean().item() for x in (plus, minus)]
            slope = np.float32((losses[0] - losses[1]) / (2 * 0.05))
            assert found[0, node, one] == (
                slope if queries == "one_by_one" else pytest.approx(slope, abs=CLOSE)
            )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [None, 61, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
@pytest.mark.parametrize("kind", [Cosmo, EdgeLocal])
def test_rows_on_a_device_give_the_bits_of_an_array(model, monkeypatch, kind, queries, size, device):
    found = []
    for states in (in_array, in_rows(device)):
        monkeypatch.setattr(LanguageModel, "states", states)
        sim = simulation([build(model, 3, queries, size, device=device)], kind(**STEP), "mod4")
        advance(sim, 5)
        assert isinstance(sim.state.x, LiftedRows) == (states is not in_array and size is not None)
        kept = {name: array.tobytes() for name, array in sim.arrays().items()}
        found.append((kept, sim.checkpoint().objective.tobytes(), sim.states().tobytes()))
    assert found[0] == found[1]


def test_x_on_a_device_is_x_on_the_host_whenever_it_is_read(model, monkeypatch):
    monkeypatch.setattr(LanguageModel, "states", in_rows("cpu"))
    sim = simulation([build(model, 3, size=61, seed=s) for s in (1, 2)], EdgeLocal(**STEP))
    for _ in range(4):
        expected = sim.problem.lifting.lift(np.asarray(sim.state.x))
        assert np.asarray(sim.state.x.x).tobytes() == expected.tobytes()
        sim.round()
    one, other = (sim.problem.lifting.space.column[k] for k in range(2))
    assert (one != other).any()


@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
def test_lifted_points_are_those_of_the_host_to_the_bit(model, monkeypatch, queries):
    """Of a stack of two runs, whose subspaces differ, and with idle nodes."""
    monkeypatch.setattr(LanguageModel, "states", in_rows("cpu"))
    sim = simulation([build(model, 3, queries, 61, seed=s) for s in (1, 2)], EdgeLocal(**STEP))
    advance(sim, 3)
    query, held = sim.ask(), sim.state.x
    lift, shifts = held.device_lift, held.shifts(query.directions, query.mu)
    found = lift.points(held.tensor(), *shifts).numpy().reshape(2, 2, 3, 4, -1)
    lifting, z = sim.problem.lifting, np.asarray(held)
    for k, u in enumerate(query.directions):
        asked = query._replace(x=lifting.lift(z), directions=(lifting.direction(u, z.dtype),))
        for side, expected in enumerate(asked.points()):
            assert found[side, :, :, k].tobytes() == np.ascontiguousarray(expected).tobytes()


def test_runs_together_are_those_alone_when_asked_one_by_one(model, monkeypatch):
    monkeypatch.setattr(LanguageModel, "states", in_rows("cpu"))
    both = advance(simulation([build(model, 3, size=60, seed=s) for s in (1, 2)], EdgeLocal(**STEP)), 4)
    alone = advance(simulation([build(model, 3, size=60)], EdgeLocal(**STEP)), 4)
    assert both.states()[0].tobytes() == alone.states()[0].tobytes()


@pytest.mark.parametrize("rows", ["split", "shared", None])
def test_examples_are_counted_beside_queries(model, rows):
    sim = advance(simulation([build(model, 4, rows=rows)], EdgeLocal(**STEP)), 3)
    now = sim.checkpoint()
    assert now.queries.tolist() == [3 * 4 * 8]
    if rows is None:
        assert "examples" not in now.extra
    else:
        assert now.extra["examples"].tolist() == [3 * 2 * 4 * (1 if rows == "split" else 4)]


def test_a_restored_run_is_the_uninterrupted_one(model):
    straight, resumed = (simulation([build(model, 3, size=60)], EdgeLocal(**STEP), "mod4") for _ in range(2))
    advance(straight, 3)
    resumed.restore({name: array.copy() for name, array in straight.arrays().items()})
    assert advance(resumed, 3).states().tobytes() == advance(straight, 3).states().tobytes()
    ends = [sim.checkpoint() for sim in (straight, resumed)]
    assert ends[0].extra["examples"] == ends[1].extra["examples"] == 3 * 2 * 4 * 2 * 2 / 3


@pytest.mark.parametrize("more", [{}, {"size": 61}, {"coordinates": "*.self_attn.*", "n": 1}])
def test_parts_are_asked_as_the_whole_is(model, more):
    sim = simulation([build(model, **{"n": 3, **more})], Cosmo(**STEP))
    query, problem = sim.ask(), sim.problem
    whole = problem.slopes(query, 0)
    each = [ask_slopes(problem.part(k, 4), one, 0) for k, one in enumerate(query.each())]
    assert whole.tobytes() == np.concatenate(each, axis=-1).tobytes()


def test_one_direction_on_split_rows_is_one_direction(model):
    one = {**STEP, "directions": 1}
    ends = [
        advance(simulation([build(model, rows=rows)], Cosmo(**one)), 3).states() for rows in ("split", None)
    ]
    assert ends[0].tobytes() == ends[1].tobytes()


def test_more_directions_than_rows_are_refused(model):
    with pytest.raises(InputError, match="8 directions cannot split a batch of 4; lower directions"):
        simulation([build(model, size=60)], Cosmo(**{**STEP, "directions": 8}))
    with pytest.raises(InputError, match="use sides 2, not 1"):
        simulation([build(model, size=60)], Cosmo(**STEP, sides=1))


def test_adapters_that_do_not_fit_are_refused_before_the_first_round(model, monkeypatch):
    problem = build(model)
    each = 2 * 3 * problem.d * 4
    _ = problem.subject.backbone
    monkeypatch.setattr(memory, "free_memory", lambda device: 3 * each)
    with pytest.raises(
        InputError, match=r"24 adapters \(3 nodes, 4 directions, both sides\) needs .*directions to 3"
    ):
        simulation([problem], Cosmo(**STEP))
    monkeypatch.setattr(memory, "free_memory", lambda device: 4 * each)
    simulation([problem], Cosmo(**STEP))


def config(model, wire, n=2, coupling="G"):
    problem = {"kind": "llm", "model": str(model), **SMALL, "queries": "one_by_one", "rows": "split"}
    method = {"kind": "edge_local", "coupling": coupling, **STEP}
    method["step"] = method.pop("step_rule")
    entries = {
        "problem": {**problem, "subspace": {"size": 61}, "clip": 0.9},
        "graphs": [{"kind": "ring", "n": n}],
        "methods": [{**method, "decay": {"kind": "cosine", "rounds": 6}, "wire": wire}],
    }
    return json.dumps({**entries, "seeds": [5], "rounds": 6, "log_every": 3, "dtype": "float32"})


@pytest.mark.slow
@pytest.mark.parametrize(("wire", "coupling"), [("mod2", "I"), ("mod4", "G"), ("mod8", "S")])
def test_processes_write_the_log_and_the_states_of_the_simulator(model, tmp_path, wire, coupling):
    cases = [case("model", tmp_path, config(model, wire, coupling=coupling))]
    run_cases(tmp_path, 2, cases)
    assert list(other_states(cases, tmp_path)) == []
    assert list(other_logs(cases, tmp_path)) == []


@pytest.mark.parametrize(
    "wire", ["mod2", "mod8", *(pytest.param(f"mod{b}", marks=pytest.mark.slow) for b in range(3, 8))]
)
def test_every_wire_runs_and_is_charged(model, wire):
    rows = run_plan(read_plan(Config(config(model, wire, coupling="I"), "x"), "x")).rows
    assert rows["examples"].tolist() == [0, 3 * 2 * 4, 6 * 2 * 4]
    assert np.isfinite(rows["objective"]).all()
    assert rows["bits"].iloc[-1] < 6 * 5 * 32


def test_finetune_says_what_was_counted_and_its_config_runs_again(model, tmp_path):
    written = tmp_path / "mine.yaml"
    written.write_text(config(model, "mod4"), encoding="utf-8")
    plan = settle(open_recipe(written, {}), "mine")
    found = finetune(plan, tmp_path / "out")
    assert found.after["examples"] == 6 * 2 * 4
    assert (found.adapter / "adapter_model.safetensors").exists()
    again = read_plan(Config((tmp_path / "out" / "config.yaml").read_text(), "again"), "mine")
    assert again.trials[0].problem == plan.trials[0].problem
    assert again.trials[0].method == plan.trials[0].method


@pytest.mark.parametrize("device", DEVICES)
def test_a_replayed_round_asks_at_the_points_of_one_that_is_called(model, monkeypatch, device):
    """Also with another μ, and with directions that were copied ahead: nothing of them is recorded."""
    monkeypatch.setattr(LanguageModel, "states", in_rows(device))
    sim = advance(simulation([build(model, 4, "fused", 60, device=device)], EdgeLocal(**STEP)), 3)
    sim.use(EdgeLocal(**{**STEP, "mu": 0.1}))
    query = sim.ask()
    found = [sim.problem.slopes(query, 3)]
    monkeypatch.setattr("zocosmo.llm.replay.MOST_TOKENS", 0)
    found.append(sim.problem.slopes(query, 3))
    assert (np.abs(found[0] - found[1]) < 5 * CLOSE).all()
    assert (np.abs(found[0]) > 100 * CLOSE).mean() > 0.8
