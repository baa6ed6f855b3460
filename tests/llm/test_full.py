"""A model's own weights as the state of one node: what a round may touch, what a snapshot keeps."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny import tiny_folder  # noqa: E402

from zocosmo.errors import ConfigError, InputError  # noqa: E402
from zocosmo.experiments.config import Config  # noqa: E402
from zocosmo.experiments.plan import read_plan  # noqa: E402
from zocosmo.experiments.run import run_plan  # noqa: E402
from zocosmo.llm.full import open_whole  # noqa: E402
from zocosmo.oracle import Query  # noqa: E402
from zocosmo.sim.engine import Simulation  # noqa: E402

Q = 40
STUDY = """\
problem:
  {{kind: llm, model: {model}, task: toy, coordinates: "{coordinates}", dtype: {kind}, device: cpu,
   threads: 1, batch: 2, max_tokens: 24, train_rows: 40, validation_rows: 12}}
graphs: [{{kind: complete, n: {n}}}]
methods: [{{kind: {method}, q: 40, eta: {eta}, mu: 1.0e-2, beta: {beta}, codec: [values, indexed]}}]
seeds: {seeds}
rounds: 20
log_every: 5
dtype: {dtype}
"""
CASE = {
    "coordinates": "full", "kind": "bfloat16", "n": 1, "method": "cosmo", "beta": 0.9, "eta": 1e-3,
    "seeds": [1], "dtype": "float32",
}  # fmt: skip
BITS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    open_whole.cache_clear()
    yield tiny_folder(tmp_path_factory.mktemp("tiny"))
    open_whole.cache_clear()


def plan_of(model, **changes):
    return read_plan(Config(STUDY.format(model=model, **CASE | changes), "full.yaml"), "full")


def simulation(model, **changes):
    return Simulation([plan_of(model, **changes).trials[0].run()], dtype=np.float32)


def weights_of(sim):
    """Every tensor of the model as whole numbers, by name."""
    named = sim.problem.subject.backbone.model.named_parameters()
    return {name: p.detach().view(BITS[p.dtype]).clone() for name, p in named}


def changed(before, after):
    """How many weights differ, by tensor, where some do."""
    counts = {name: int((before[name] != after[name]).sum()) for name in before}
    return {name: count for name, count in counts.items() if count}


def snapshot(sim):
    return {name: np.array(array) for name, array in sim.arrays().items()}


def same(one, other):
    """To the bit."""
    return one.keys() == other.keys() and all(one[k].tobytes() == np.asarray(other[k]).tobytes() for k in one)


def test_a_round_changes_at_most_q_weights_and_twenty_at_most_twenty_times_q(model):
    sim = simulation(model)
    first = last = weights_of(sim)
    for _ in range(20):
        sim.round()
        now = weights_of(sim)
        assert sum(changed(last, now).values()) <= Q
        last = now
    assert 0 < sum(changed(first, last).values()) <= len(sim.state.x.origin) <= 20 * Q
    assert not any("embed" in name for name in changed(first, last))


def test_queries_and_checkpoints_leave_every_bit_and_visit_nothing(model):
    sim = simulation(model)
    sim.round()
    before, kept = weights_of(sim), snapshot(sim)
    sim.problem.slopes(Query(sim.state.x, (sim.draws.at(5).u,), 1e-2), 5)
    sim.checkpoint()
    assert changed(before, weights_of(sim)) == {}
    assert np.array(sim.state.x).tobytes() == kept["state.x"].tobytes()


def test_steps_too_small_for_bfloat16_are_kept(model):
    """Masters are float32: most weights stand still, all values move on."""
    sim = simulation(model, eta=1e-6)
    before = weights_of(sim)
    for _ in range(3):
        sim.round()
    now, then = sim.state.x.now_and_then()
    assert (now != then).all()
    assert sum(changed(before, weights_of(sim)).values()) < now.size / 4
    assert (np.array(sim.state.x)[0, 1] == now).all()


def test_nothing_of_a_state_or_a_snapshot_has_d_entries(model):
    sim = simulation(model)
    for _ in range(3):
        sim.round()
    assert sim.problem.d > 15_000
    assert max(array.size for array in sim.arrays().values()) <= 2 * 3 * Q
    assert sim.states().shape == (1, 2, len(sim.state.x.origin))


def test_the_log_has_the_columns_of_adapters_and_the_bill_of_one_listener(model):
    adapters = run_plan(plan_of(model, coordinates="lora", kind="float32")).rows
    log = run_plan(plan_of(model)).rows
    index = int(np.ceil(np.log2(plan_of(model).trials[0].run().problem.d)))
    values, indexed = (log[log["method"].str.endswith("indexed") == flag] for flag in (False, True))
    assert list(log.columns) == list(adapters.columns)
    assert values["bits"].tolist() == [Q * 32 * t for t in (0, 5, 10, 15, 20)]
    assert indexed["bits"].tolist() == [Q * (32 + index) * t for t in (0, 5, 10, 15, 20)]
    assert values["objective"].tolist() == indexed["objective"].tolist()
    assert values["queries"].tolist() == [0, 10, 20, 30, 40]


def test_coverage_and_distance_are_those_of_the_weights(model):
    sim = simulation(model, kind="float32")
    before = torch.cat([t.detach().reshape(-1).clone() for t in sim.state.x.flat.tensors]).double()
    for _ in range(5):
        sim.round()
    now = torch.cat([t.detach().reshape(-1) for t in sim.state.x.flat.tensors]).double()
    told = sim.checkpoint().extra
    assert told["coverage"][0] == (now != before).sum().item() / sim.problem.d
    assert told["moved"][0] == pytest.approx((now - before).norm().item(), rel=1e-12)
    assert told["norm"][0] == pytest.approx(now.norm().item(), rel=1e-12)  # sums of float64 in another order


@pytest.mark.parametrize(("kind", "beta"), [("bfloat16", 0.9), ("bfloat16", 0.0), ("float32", 0.0)])
def test_a_resumed_run_is_the_straight_one(model, kind, beta):
    straight = simulation(model, kind=kind, beta=beta)
    for t in range(12):
        if t == 7:
            half = snapshot(straight)
        straight.round()
    weights, kept, measured = weights_of(straight), snapshot(straight), straight.checkpoint()
    again = simulation(model, kind=kind, beta=beta)  # takes the model back to its start
    again.restore(half)
    for _ in range(5):
        again.round()
    assert changed(weights, weights_of(again)) == {}
    assert same(kept, again.arrays())
    assert same(dict(measured.extra), again.checkpoint().extra)


def test_a_stopped_study_goes_on_to_the_same_log_and_states(model, tmp_path, monkeypatch):
    monkeypatch.setattr("zocosmo.experiments.run.SNAPSHOT_EVERY", 0.0)
    plan = plan_of(model)
    run_plan(plan, tmp_path / "straight", states=True)

    def stop(progress):
        if progress.rounds >= 2 * 10:  # two codecs
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, tmp_path / "out", tick=stop, states=True)
    run_plan(plan, tmp_path / "out", resume=True, states=True)
    for name in ("log.parquet", "states.npz"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_every_trial_begins_with_the_same_weights(model):
    both = run_plan(plan_of(model, seeds=[1, 2])).rows
    alone = run_plan(plan_of(model, seeds=[2])).rows
    second = both[both["seed"] == "2"].reset_index(drop=True)
    assert second.drop(columns="trial").equals(alone.drop(columns="trial"))


def test_examples_made_ready_are_those_of_the_round(model):
    sim = simulation(model)
    sim.round()
    (t, rows, times, ready), sampler = sim.problem.sampler.ready, sim.problem.sampler
    assert (t, times) == (sim.t, 1) == (1, 1)
    assert sampler.batch(1, rows, 1) is ready
    sampler.ready = None
    assert all(torch.equal(a, b) for a, b in zip(ready, sampler.batch(1, rows, 1), strict=True))
    assert not torch.equal(ready[0], sampler.batch(0, rows, 1)[0])


def test_a_support_that_was_made_ready_is_searched_for_nowhere(model, monkeypatch):
    sim = simulation(model)
    sim.round()
    x, u = sim.state.x, sim.draws.at(1).u
    with monkeypatch.context() as patch:
        for visited in (x.origin, x.flat.visited):
            patch.setattr(visited, "_search", None)
        ready = asked(x, u)
    x.restrict(sim.draws.at(5).u)  # forgets it
    x.origin.get(np.array([0]), "x")
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ready, asked(x, u), strict=True))


def asked(x, u):
    return x.restrict(u), x.origin.get(u.index, "x")


def test_any_subset_can_be_named(model):
    sim = simulation(model, coordinates="*.self_attn.*, !*.o_proj.*")
    before = weights_of(sim)
    for _ in range(5):
        sim.round()
    touched = set(changed(before, weights_of(sim)))
    assert touched
    assert all(".self_attn." in name and ".o_proj." not in name for name in touched)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"n": 2},
            r"full.yaml:1: .*one node, got 2; .*zocosmo.torch.Cosmo or zocosmo.llm.CosmoTrainer under",
        ),
        (
            {"coordinates": "*.self_atn.*"},
            r"full.yaml:1: '\*.self_atn.\*' matches no parameter; the closest are",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_its_line(model, changes, says):
    with pytest.raises(ConfigError, match=says):
        plan_of(model, **changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dtype": "float64"}, "set the study's dtype to float32"),
        ({"method": "rand_k"}, "runs cosmo, got rand_k"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_its_first_round(model, changes, says):
    with pytest.raises(InputError, match=says):
        run_plan(plan_of(model, **changes))


def test_processes_are_sent_to_the_optimizer(model):
    with pytest.raises(InputError, match=r"one node under zocosmo run; .* under torchrun"):
        plan_of(model).trials[0].run().problem.at([0])
