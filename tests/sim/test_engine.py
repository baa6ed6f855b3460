from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small, small_run
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import METHODS, Cosmo, EdgeLocal, Flood
from zocosmo.methods.decay import Cosine, Drop, InverseSqrt
from zocosmo.methods.edge_local import EdgeLocalDraw
from zocosmo.problems import logistic, network
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import Rosenbrock, rosenbrock
from zocosmo.rounds.draws import DrawAhead
from zocosmo.sim.engine import Run, Simulation, batch_key

LOST = {"eta": 0.5}  # far beyond stability: overflows within some rounds


def advance(simulation, rounds):
    for _ in range(rounds):
        simulation.round()
    return simulation


def test_a_diverged_run_is_frozen_and_its_company_never_notices():
    problem = rosenbrock(4, 1, d=6)
    well, lost = (small_run("cosmo", problem=problem, **change) for change in ({"eta": 1e-3}, LOST))
    both, alone = Simulation([well, lost]), Simulation([well])
    for simulation in (both, alone):
        simulation.checkpoint()
        for _ in range(6):
            advance(simulation, 10)
            simulation.checkpoint()
    assert_array_equal(both.states()[0], alone.states()[0])
    assert both.alive.tolist() == [True, False]


def test_a_run_diverges_once_and_is_reported_once():
    simulation = Simulation([small_run("cosmo", problem=rosenbrock(4, 1, d=6), **LOST)])
    simulation.checkpoint()
    seen = [advance(simulation, 10).checkpoint() for _ in range(5)]
    assert sum(int(now.diverged.sum()) for now in seen) == 1
    assert [bool(now.alive[0]) for now in seen] == sorted((bool(now.alive[0]) for now in seen), reverse=True)
    assert 0 in simulation.frozen


def test_the_bound_is_relative_to_the_start():
    """F(x̄_0) = 5 (1 + 2 · 4 + …) > 1, and no run ever exceeds it ten-fold; a bound of 0.01 stops all."""
    run = small_run("cosmo", problem=rosenbrock(4, 1, d=6), eta=1e-4)
    loose, tight = (Simulation([run], bound=bound) for bound in (10.0, 0.01))
    assert not loose.checkpoint().diverged.any()
    assert tight.checkpoint().diverged.all()


def test_draws_are_shared_by_runs_of_one_seed_and_graph():
    runs = [small_run("cosmo", seed=seed, eta=eta) for seed in (1, 2) for eta in (0.1, 0.2, 0.3)]
    assert Simulation(runs).draws.distinct == 2


def test_blocks_do_not_change_draws(monkeypatch):
    run = small_run("marina_type")
    whole = [Simulation([run]).draws.at(t).u.index.tolist() for t in range(8)]
    monkeypatch.setattr("zocosmo.rounds.draws.MOST_ROUNDS", 1)
    draws = DrawAhead(run.method, [run.world], [run.seed], np.dtype("f8"))
    assert [draws.at(t).u.index.tolist() for t in range(8)] == whole


def test_runs_of_different_shape_do_not_share_a_batch():
    with pytest.raises(InputError, match="one batch"):
        Simulation([small_run("cosmo", q=1), small_run("cosmo", q=2)])


def test_in_float32_only_seeds_may_differ():
    a, b = small_run("cosmo", eta=0.1), small_run("cosmo", eta=0.2)
    assert batch_key(a) == batch_key(b)
    assert batch_key(a, np.float32) != batch_key(b, np.float32)


def test_a_graph_that_does_not_fit_is_refused_before_the_first_round():
    with pytest.raises(InputError, match="alternating"):
        Simulation([Run(small("edge_local"), ring(5), rosenbrock(5, 1, d=6), 1, "alternating")])


@pytest.mark.parametrize(
    ("decay", "factors"),
    [
        (Drop(at=2, by=0.25), [1, 1, 0.25, 0.25]),
        (Cosine(rounds=2, to=0.0), [1, 0.5, 0, 0]),
        (InverseSqrt(), [1, 2**-0.5, 3**-0.5, 0.5]),
        (InverseSqrt(after=3), [1, 0.75**0.5, 0.6**0.5, 0.5**0.5]),
    ],
)
def test_steps_follow_their_schedule(decay, factors):
    method = Cosmo(q=1, eta=8.0, mu=1.0, decay=decay)
    assert [method.eta_at(t) for t in range(4)] == pytest.approx([8 * f for f in factors], abs=1e-15)


@pytest.mark.parametrize("kind", [Cosmo(q=2, eta=0.1, mu=0.1), EdgeLocal(q=2, eta=0.1, mu=0.1)])
def test_a_dropped_step_of_zero_stops_the_state(kind):
    """From round 3 on η = 0: x only mixes, so that its average stays where it is (dyadic weights)."""
    method = type(kind)(q=2, eta=2.0**-6, mu=2.0**-10, decay=Drop(at=3, by=0.0))
    simulation = advance(Simulation([Run(method, complete(4), rosenbrock(4, 1, d=6), 1)]), 3)
    average = simulation.states().mean(axis=1)
    assert np.abs(advance(simulation, 5).states().mean(axis=1) - average).max() < 1e-15


@pytest.mark.parametrize("build", [logistic, network])
def test_real_data_trains_and_reports_accuracy(build):
    problem = build(4, 0, split="dirichlet", alpha=1.0, batch=16)
    method = Flood(eta=0.02 if build is network else 0.05, mu=1e-3)
    simulation = Simulation([Run(method, ring(4), problem, 0)])
    before = simulation.checkpoint()
    after = advance(simulation, 150).checkpoint()
    assert after.objective[0] < before.objective[0]
    assert after.extra["accuracy"][0] > before.extra["accuracy"][0]


def test_stacked_real_data_runs_are_the_runs_alone():
    runs = [
        Run(small("cosmo", eta=1e-3), ring(4), logistic(4, seed, split="dirichlet", alpha=0.5, batch=8), seed)
        for seed in range(3)
    ]
    together = advance(Simulation(runs), 5).states()
    assert_array_equal(together, np.concatenate([advance(Simulation([run]), 5).states() for run in runs]))


def test_every_method_of_the_table_is_exported():
    assert all(kind.__module__ == f"zocosmo.methods.{name}" for name, kind in METHODS.items())


def test_a_restored_simulation_remembers_who_diverged_and_from_where():
    runs = [small_run("cosmo", problem=rosenbrock(4, 1, d=6), **change) for change in ({"eta": 1e-3}, LOST)]
    first, second = Simulation(runs, bound=3.0), Simulation(runs, bound=3.0)
    first.checkpoint()
    advance(first, 20).checkpoint()
    assert first.alive.tolist() == [True, False]
    second.restore({key: value.copy() for key, value in first.arrays().items()})
    for simulation in (first, second):
        advance(simulation, 20)
    a, b = first.checkpoint(), second.checkpoint()
    assert_array_equal(first.states(), second.states())
    assert a.alive.tolist() == b.alive.tolist() == [True, False]
    assert a.diverged.tolist() == b.diverged.tolist()


def test_the_bound_of_a_restored_simulation_is_that_of_its_start():
    """F(x̄_0) = 45: three times that is 135, which 100 times the later value is not."""
    run = small_run("cosmo", problem=rosenbrock(4, 1, d=6), eta=1e-3)
    first, second = Simulation([run], bound=3.0), Simulation([run], bound=3.0)
    first.checkpoint()
    second.restore(advance(first, 200).arrays())
    second.state.x[...] *= -2.5  # back up the valley, but below the bound
    assert not second.checkpoint().diverged.any()


class Falling(Rosenbrock):
    """Unbounded below."""

    def local(self, x):
        return -(x * x).sum(axis=-1)


def test_falling_without_end_is_divergence_too():
    shape = rosenbrock(4, 1, d=6)
    problem = Falling(shape.shifts, shape.alpha, shape.x0)
    simulation = Simulation([small_run("cosmo", problem=problem, eta=0.5)])
    simulation.checkpoint()
    assert advance(simulation, 60).checkpoint().diverged.all()


def test_schedules_on_one_graph_do_not_mix_up_their_draws():
    problem, method = rosenbrock(6, 1, d=6), small("edge_local", eta=1e-3)
    runs = [Run(method, ring(6), problem, 1, schedule) for schedule in ("alternating", "iid", "maximal")]
    together = advance(Simulation(runs), 6).states()
    assert_array_equal(together, np.concatenate([advance(Simulation([run]), 6).states() for run in runs]))


def test_a_flood_in_one_dimension_is_still_charged_as_a_flood():
    problem = quadratic(4, 1, d=1)
    simulation = advance(Simulation([Run(Flood(eta=0.1, mu=0.1), ring(4), problem, 1)]), 2)
    assert simulation.channel.ledger("seed_scalar").network().payload == 2 * 4 * 3 * 96


def test_one_node_alone_loses_nothing_on_any_wire():
    """Beyond what half precision holds: it sends nothing, so nothing may overflow."""
    problem = quadratic(1, 1, d=6)
    for wire in ("f16", "nominal_f32"):
        simulation = Simulation([Run(small("cosmo"), complete(1), problem, 1)], wire=wire)
        simulation.state = simulation.method.init(np.full((1, 1, 6), 1e6))
        assert np.isfinite(advance(simulation, 3).states()).all()


@dataclass(frozen=True, eq=False)
class LookingBack(EdgeLocalDraw):
    earlier: Any = None

    def with_past(self, earlier):
        return replace(self, earlier=earlier)


class Replayed(EdgeLocal):
    """Pairs, with access to the draws of earlier rounds."""

    def draw(self, world, tape, t):
        return LookingBack(**vars(super().draw(world, tape, t)))


def test_a_draw_gives_back_those_of_earlier_rounds():
    """Also once their block is gone: 200 rounds are several blocks."""
    runs = [small_run("edge_local", "ring", seed=seed) for seed in (3, 3, 4)]
    method, seeds = Replayed(**runs[0].method.settings), [run.seed for run in runs]
    ahead = DrawAhead(method, [run.world for run in runs], seeds, np.dtype("f8"))
    kept = {t: ahead.at(t) for t in range(200)}
    for t in (0, 5, 63, 64, 150, 198):
        again = ahead.at(199).earlier(t)
        assert_array_equal(again.u.index, kept[t].u.index)
        assert_array_equal(again.u.signs, kept[t].u.signs)
        assert_array_equal(again.partners, kept[t].partners)
    assert_array_equal(ahead.at(199).u.index, kept[199].u.index)
