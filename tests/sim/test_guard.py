"""The guard of the step: when it drops, when it does not, and that every bit of a run follows from it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods.cases import small_run
from zocosmo.errors import ConfigError, InputError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.graphs.graph import complete
from zocosmo.methods import Cosmo
from zocosmo.methods.decay import Drop, InverseSqrt
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import Rosenbrock
from zocosmo.rounds.guard import Guard, Seen
from zocosmo.sim.engine import Run, Simulation

GUARD = Guard(grow=0.25, by=0.5)
ETA = 2.0**-4


class Walk(Rosenbrock):
    """f(x) = −Σ x: states grow in equal steps, for ever; what nodes see of it is `seen`."""

    seen = 1.0

    def local(self, x):
        return np.full(x.shape[:-1], self.seen)

    def __call__(self, x, t, *, active=None):
        return -x.sum(axis=-1)


class Learns(Walk):
    """What nodes see falls as they grow."""

    def local(self, x):
        return -x.sum(axis=-1)


class Blind(Walk):
    seen = np.nan


def walk(kind=Walk, *, seed=1, n=1, d=1, eta=ETA, **given):
    """From 1 on every coordinate, with q = d = 1 exactly η a round."""
    problem = kind(np.zeros((n, d)), 2.0, np.ones(d))
    return Run(Cosmo(q=1, eta=eta, mu=0.5, **given), complete(n), problem, seed)


def advance(simulation, rounds):
    for _ in range(rounds):
        simulation.round()
    return simulation


def factors(simulation, checkpoints, every):
    """step_factor of the start and of each checkpoint after it."""
    logged = [simulation.checkpoint()]
    logged += [advance(simulation, every).checkpoint() for _ in range(checkpoints)]
    return [now.extra["step_factor"].tolist() for now in logged]


# The rule


@pytest.mark.parametrize(
    ("norm", "loss", "factor"),
    [
        (1.26, 1.0, 0.5),
        (1.25, 1.0, 1.0),  # grew by the share, not by more
        (np.nextafter(1.25, 2), 1.0, 0.5),
        (0.5, 2.0, 1.0),
        (9.0, np.nextafter(1, 0), 1.0),  # fell, if only a little
        (9.0, 7.0, 0.5),
        (9.0, np.nan, 1.0),
        (np.nan, 9.0, 1.0),
        (np.inf, np.inf, 0.5),
    ],
)
def test_the_step_drops_where_the_norm_grew_and_the_loss_did_not_fall(norm, loss, factor):
    before, now = Seen(np.array([1.0]), np.array([1.0])), Seen(np.array([norm]), np.array([loss]))
    assert GUARD.factor(before, now).tolist() == [factor]


def test_a_loss_that_was_no_number_before_drops_nothing():
    before, now = Seen(np.array([1.0]), np.array([np.nan])), Seen(np.array([9.0]), np.array([9.0]))
    assert GUARD.factor(before, now).tolist() == [1.0]


@pytest.mark.parametrize("wrong", [{"grow": -1}, {"grow": np.nan}, {"by": 0.0}, {"by": 1.0}, {"by": np.nan}])
def test_numbers_that_make_no_guard_are_refused(wrong):
    with pytest.raises(InputError, match="a guard needs grow ≥ 0 and 0 < by < 1, got"):
        Guard(**wrong)


# Runs


def test_a_walk_is_slowed_down_and_its_steps_are_exactly_halved():
    """From 1 to 1.5 it grows by more than a quarter, then by less: one drop, at once."""
    simulation = Simulation([walk()], guard=GUARD)
    found = [(simulation.checkpoint().extra["step_factor"][0], simulation.states().item())]
    for _ in range(5):
        now = advance(simulation, 8).checkpoint()
        found.append((now.extra["step_factor"][0], simulation.states().item()))
    assert found == [(1, 1), (1, 1.5), (0.5, 1.75), (0.5, 2), (0.5, 2.25), (0.5, 2.5)]


def test_a_run_drops_exactly_at_the_checkpoints_that_the_rule_names():
    """Over again in plain numbers, from the states alone."""
    simulation, guard = Simulation([walk(n=2, d=3, eta=ETA)], guard=Guard(grow=0.04, by=0.5)), []
    scale, last = 1.0, None
    for _ in range(10):
        guard.append(simulation.checkpoint().extra["step_factor"][0])
        norm = np.linalg.norm(simulation.states()[0].mean(axis=0))
        assert guard[-1] == scale
        scale, last = scale * (0.5 if last is not None and norm > 1.04 * last else 1.0), norm
        advance(simulation, 4)
    assert 0.5**9 < guard[-1] < 0.5  # it dropped more than once, and not every time


@pytest.mark.parametrize("kind", [Learns, Blind])
def test_a_run_that_learns_or_sees_no_number_keeps_its_step(kind):
    assert factors(Simulation([walk(kind)], guard=GUARD), 5, 8) == [[1.0]] * 6


def test_each_run_of_a_batch_has_its_own_factor():
    """A step of 2⁻¹² takes eight rounds to grow by a 512th."""
    fast, slow = walk(), walk(eta=2.0**-12)
    found = factors(Simulation([fast, slow], guard=GUARD), 4, 8)
    assert found[-1] == [0.5, 1.0]
    assert [row[:1] for row in found] == factors(Simulation([fast], guard=GUARD), 4, 8)


def test_the_guard_goes_along_with_a_decay():
    """Rounds 0 … 7 at η, then a quarter of it: 0.5, then 0.25 · 0.5 · η · 8."""
    simulation = Simulation([walk(decay=Drop(at=8, by=0.25))], guard=GUARD)
    simulation.checkpoint()
    advance(simulation, 8).checkpoint()
    assert advance(simulation, 8).states().item() == 1.5 + 0.0625


def test_without_a_guard_there_is_no_factor_and_no_array():
    simulation = advance(Simulation([walk()]), 3)
    assert "step_factor" not in simulation.checkpoint().extra
    assert not [name for name in simulation.arrays() if name.startswith("guard")]


# The same bits


def noisy(seed):
    problem = quadratic(4, seed, d=6, omega=0.5, zeta=1.0, sigma=4.0)
    return small_run(
        "edge_local", seed=seed, problem=problem, eta=0.03, beta=0.5, decay=InverseSqrt(after=50)
    )


def watched(simulation, checkpoints=8):
    """Factors as they were, then all bytes."""
    found = factors(simulation, checkpoints, 5)
    return found, simulation.states()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_run_is_the_same_run_in_a_batch_of_three(dtype):
    runs, guard = [noisy(seed) for seed in (1, 2, 3)], Guard(grow=0.05, by=0.7)
    together, states = watched(Simulation(runs, dtype=dtype, guard=guard))
    for k, run in enumerate(runs):
        alone, state = watched(Simulation([run], dtype=dtype, guard=guard))
        assert alone == [row[k : k + 1] for row in together]
        assert state[0].tobytes() == states[k].tobytes()
    assert len(set(together[-1])) > 1  # they did not drop alike


def test_the_step_is_an_array_in_the_type_of_the_states_for_one_run_and_for_many():
    for runs in (1, 3):
        simulation = Simulation([noisy(seed) for seed in range(runs)], dtype="float32", guard=GUARD)
        eta = simulation.guarded.now.eta_at(7)
        assert (eta.dtype, eta.shape) == (np.float32, (runs, 1, 1))


@given(at=st.integers(0, 24), dtype=st.sampled_from(["float32", "float64"]))
def test_a_restored_run_goes_on_with_the_factor_it_had(at, dtype):
    """Stopped anywhere: before the first drop, between checkpoints, after several drops."""
    first, second = (Simulation([walk(n=2, d=3)], dtype=dtype, guard=Guard(grow=0.01)) for _ in range(2))
    for t in range(30):
        if t == at:
            second.restore({name: array.copy() for name, array in first.arrays().items()})
        for simulation in (first, second) if t >= at else (first,):
            if t % 4 == 0:
                simulation.checkpoint()
            simulation.round()
    ends = [{name: array.tobytes() for name, array in each.arrays().items()} for each in (first, second)]
    assert ends[0] == ends[1]
    assert first.arrays()["guard.scale"] < 0.5


# Plans


def text(**more):
    method = {"kind": "cosmo", "q": 2, "eta": 0.05, "mu": 0.001}
    problem = {"kind": "quadratic", "d": 6, "sigma": 4.0}
    about = {"problem": problem, "graphs": [{"kind": "ring", "n": 4}], "methods": [method], "seeds": [1, 2]}
    return json.dumps({**about, "rounds": 40, "log_every": 5, **more}, indent=1)


def plan_of(content):
    return read_plan(Config(content, "mine.yaml"), "mine")


def test_the_log_has_a_column_of_what_the_step_is_multiplied_by():
    rows = run_plan(plan_of(text(guard={"grow": 0.01, "by": 0.5}))).rows
    assert rows["step_factor"][rows["round"] == 0].tolist() == [1.0, 1.0]
    assert rows["step_factor"].min() < 1
    assert set(np.log2(rows["step_factor"]) % 1) == {0.0}  # powers of two
    assert "step_factor" not in run_plan(plan_of(text())).rows


def test_a_plan_writes_its_guard_down_with_its_defaults():
    assert plan_of(text(guard={})).config["guard"] == {"grow": 0.05, "by": 0.5}
    assert "guard" not in plan_of(text(guard=None)).config
    assert plan_of(text(guard={})).fingerprint != plan_of(text()).fingerprint


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        ("{grow: -1}", "a guard needs grow ≥ 0 and 0 < by < 1, got -1.0 and 0.5"),
        ("{by: 2}", "a guard needs grow ≥ 0 and 0 < by < 1, got 0.05 and 2.0"),
        ("{gorw: 0.1}", "unknown key 'gorw' in guard, did you mean 'grow'?"),
        ("{grow: much}", "guard"),
        ("on", "guard"),
    ],
)
def test_a_guard_that_cannot_be_is_refused_with_file_and_line(guard, said):
    given = f"rounds: 4\nlog_every: 2\nguard: {guard}\n"
    rest = "problem: {kind: rosenbrock, d: 6}\ngraphs: [{kind: ring, n: 4}]\nseeds: [1]\n"
    method = "methods: [{kind: cosmo, q: 1, eta: 0.1, mu: 0.1}]\n"
    with pytest.raises(ConfigError) as found:
        plan_of(given + rest + method)
    assert str(found.value).startswith("mine.yaml:3: ")
    assert said in str(found.value)
    assert "\n" not in str(found.value)
