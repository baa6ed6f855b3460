"""A language model in a public subspace: what is learnt is an ordinary adapter, with the bits of any run."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from dist.plans import case  # noqa: E402
from dist.ranks import run_cases  # noqa: E402
from dist.test_equal import other_logs, other_states  # noqa: E402
from llm.tiny import tiny_folder  # noqa: E402
from zocosmo.errors import ConfigError, InputError  # noqa: E402
from zocosmo.experiments.config import Config  # noqa: E402
from zocosmo.experiments.plan import read_plan  # noqa: E402
from zocosmo.experiments.states import STATES, read_states  # noqa: E402
from zocosmo.graphs.graph import ring  # noqa: E402
from zocosmo.llm.finetune import finetune  # noqa: E402
from zocosmo.llm.problem import LanguageModel  # noqa: E402
from zocosmo.llm.recipe import open_recipe, settle  # noqa: E402
from zocosmo.methods import Cosmo, EdgeLocal  # noqa: E402
from zocosmo.oracle import Problem  # noqa: E402
from zocosmo.problems.language import llm  # noqa: E402
from zocosmo.problems.subspace import in_subspace  # noqa: E402
from zocosmo.sim.engine import Run, Simulation  # noqa: E402
from zocosmo.torch.rows import Rows  # noqa: E402

SMALL = {"rank": 2, "batch": 2, "train_rows": 40, "validation_rows": 17, "threads": 1, "eval_batch": 4}
STEP = {"q": 5, "eta": 20.0, "mu": 0.01, "beta": 0.5}
M = 60
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tiny_folder(tmp_path_factory.mktemp("models") / "tiny"))


def simulation(model, kind, queries, device="cpu", size=M):
    problem = in_subspace(llm(3, 1, model=model, queries=queries, device=device, **SMALL), size, 1)
    return Simulation([Run(kind(**STEP), ring(3), problem, 1)], dtype="float32", wire="f32")


def advance(sim, rounds):
    for _ in range(rounds):
        sim.round()
    return sim


def in_rows(device):
    return lambda self, *opened: Rows(Problem.states(self, *opened), torch.device(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [M, 61])
@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
@pytest.mark.parametrize("kind", [Cosmo, EdgeLocal])
def test_x_in_rows_on_a_device_gives_the_bits_of_an_array(folder, monkeypatch, kind, queries, size, device):
    found = []
    for states_of in (Problem.states, in_rows(device)):
        monkeypatch.setattr(LanguageModel, "states", states_of)
        sim = simulation(folder, kind, queries, device, size)
        now = advance(sim, 6).checkpoint()
        assert isinstance(sim.state.x.x, Rows) == (states_of is not Problem.states)
        kept = {name: array.tobytes() for name, array in sim.arrays().items()}
        found.append((kept, now.objective.tobytes(), sim.states().tobytes(), now.extra["moved"].tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
def test_a_run_restored_in_the_middle_is_the_uninterrupted_one(folder, queries):
    straight, resumed = (simulation(folder, EdgeLocal, queries) for _ in range(2))
    advance(straight, 5)
    resumed.restore({name: array.copy() for name, array in straight.arrays().items()})
    assert advance(resumed, 4).states().tobytes() == advance(straight, 4).states().tobytes()
    assert resumed.checkpoint().objective == straight.checkpoint().objective


def test_the_start_is_the_adapters_own_and_steps_move_it_by_the_length_of_z(folder):
    sim = simulation(folder, Cosmo, "one_by_one")
    inner = sim.problem.inner
    assert (sim.states() == inner.x0[:, None].astype(np.float32)).all()
    now = advance(sim, 3).checkpoint()
    length = np.sqrt((np.asarray(sim.state.x, np.float64).mean(axis=-2) ** 2).sum())
    if inner.d % M == 0:
        assert now.extra["moved"][0] == pytest.approx(length, rel=1e-5)
    assert now.extra["moved"][0] > 0


def config(model, **more):
    problem = {"kind": "llm", "model": model, **SMALL, "queries": "one_by_one", "subspace": {"size": M}}
    methods = [{"kind": "edge_local", **STEP, **more}]
    entries = {"problem": problem, "graphs": [{"kind": "ring", "n": 2}], "methods": methods}
    return json.dumps(
        {**entries, "seeds": [5], "rounds": 6, "log_every": 3, "wire": "f32", "dtype": "float32"}
    )


@pytest.mark.slow
def test_processes_write_the_log_and_the_states_of_the_simulator(folder, tmp_path):
    cases = [case("model", tmp_path, config(folder))]
    run_cases(tmp_path, 2, cases)
    assert list(other_states(cases, tmp_path)) == []
    assert list(other_logs(cases, tmp_path)) == []


def test_finetune_saves_an_ordinary_adapter_and_its_config_says_so(folder, tmp_path):
    written = tmp_path / "mine.yaml"
    written.write_text(config(folder), encoding="utf-8")
    plan = settle(open_recipe(written, {}), "mine")
    found = finetune(plan, tmp_path / "out")
    (x,) = read_states(tmp_path / "out" / STATES).values()
    assert x.shape == (2, plan.trials[0].run().problem.inner.d)
    assert (found.adapter / "adapter_model.safetensors").exists()
    again = read_plan(Config((tmp_path / "out" / "config.yaml").read_text(), "again"), "mine")
    assert again.trials[0].problem == plan.trials[0].problem


def test_steps_are_not_suggested_in_a_subspace(folder, tmp_path):
    data = json.loads(config(folder))
    del data["methods"][0]["eta"], data["methods"][0]["mu"]
    written = tmp_path / "mine.yaml"
    written.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises((ConfigError, InputError), match="eta, mu cannot be suggested in a subspace; give"):
        settle(open_recipe(written, {}), "mine")


def test_the_weights_of_a_model_itself_have_no_subspace(folder):
    data = json.loads(config(folder))
    data["problem"] |= {"coordinates": "full"}
    data["graphs"], data["methods"] = [{"kind": "complete", "n": 1}], [{"kind": "cosmo", **STEP}]
    with pytest.raises(ConfigError, match="a subspace needs states that are vectors"):
        read_plan(Config(json.dumps(data), "study.yaml"), "study")
