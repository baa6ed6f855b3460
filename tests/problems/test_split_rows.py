"""Directions on rows: each direction has its own block of the batch, and the log counts examples."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dist.plans import case, config, graphs
from dist.test_equal import compare
from methods.cases import states
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.core.tape import Tape
from zocosmo.errors import ConfigError, InputError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.graphs import complete, ring
from zocosmo.methods import Cosmo, EdgeLocal, World
from zocosmo.oracle import Query
from zocosmo.problems import logistic, network
from zocosmo.problems.data import example_losses
from zocosmo.sim.engine import Run, Simulation

STEP = {"q": 8, "eta": 0.01, "mu": 2.0**-6}
MAKE = {"logistic": logistic, "network": lambda *given, **more: network(*given, hidden=2, **more)}


def asked(problem, x, t, count):
    """The query of a round with several directions."""
    draw = Cosmo(**STEP, directions=count).draw(World(ring(problem.n), problem.d), Tape(3), np.array(t))
    return Query(x, draw.directions, 2.0**-6)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_direction_k_sees_the_kth_block_on_both_sides(make, count):
    problem = make(3, 1, batch=8, rows="split")
    x = np.random.default_rng(0).normal(size=(3, problem.d))
    query = asked(problem, x, 4, count)
    found = problem.slopes(query, 4)
    features, labels = problem._examples(4)
    for k, one in enumerate(query.each()):
        block = slice(k * 8 // count, (k + 1) * 8 // count)
        losses = [
            example_losses(problem.scores(features[:, block], there), labels[:, block]).mean(axis=-1)
            + problem._ridge(there)
            for there in one.points()
        ]
        assert_array_equal(found[:, k : k + 1], one.slope(*losses))


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_one_direction_sees_the_whole_batch_however_rows_are_shared(make):
    method = Cosmo(**STEP)
    ends = [
        states([Run(method, ring(3), make(3, 1, batch=8, rows=rows), 1)], 5)
        for rows in (None, "shared", "split")
    ]
    assert_array_equal(ends[0], ends[1])
    assert_array_equal(ends[0], ends[2])


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_a_run_in_company_is_the_run_alone(make):
    runs = [
        Run(EdgeLocal(**STEP, directions=5), complete(4), make(4, seed, batch=8, rows="split"), seed)
        for seed in (1, 2, 3)
    ]
    assert_array_equal(states(runs, 6), np.concatenate([states([run], 6) for run in runs]))


def test_examples_are_counted_beside_queries():
    """K = 4, batch 8, 3 rounds: split 2 · 8 examples a round, shared 8 · 8, and one side 5 · 8."""
    counted = []
    for rows, sides in (("split", 2), ("shared", 2), ("shared", 1)):
        run = Run(Cosmo(**STEP, directions=4, sides=sides), ring(3), logistic(3, 1, batch=8, rows=rows), 1)
        simulation = Simulation([run])
        for _ in range(3):
            simulation.round()
        now = simulation.checkpoint()
        counted.append((now.extra["examples"].tolist(), now.queries.tolist()))
    assert counted == [([3 * 16.0], [3 * 3 * 8]), ([3 * 64.0], [3 * 3 * 8]), ([3 * 40.0], [3 * 3 * 5])]


def test_idle_nodes_evaluate_no_examples():
    run = Run(EdgeLocal(**STEP), ring(3), logistic(3, 1, batch=8, rows="shared"), 1)
    simulation = Simulation([run])
    simulation.round()
    assert simulation.checkpoint().extra["examples"].tolist() == [16 * 2 / 3]


def test_without_a_batch_all_examples_of_a_node_count():
    problem = logistic(3, 1, rows="shared")
    simulation = Simulation([Run(Cosmo(**STEP), ring(3), problem, 1)])
    simulation.round()
    assert simulation.checkpoint().extra["examples"].tolist() == [2 * 569 / 3]


def test_a_restored_run_counts_on():
    run = Run(Cosmo(**STEP, directions=2), ring(3), logistic(3, 1, batch=8, rows="split"), 1)
    first, second = Simulation([run]), Simulation([run])
    first.round()
    second.restore(first.arrays())
    second.round()
    assert second.checkpoint().extra["examples"].tolist() == [32.0]


def test_the_log_has_examples_only_where_rows_are_set():
    def columns(**more):
        text = config(
            [{"kind": "cosmo", **STEP}], graphs(3, ["ring"]), problem={"kind": "logistic", "batch": 8, **more}
        )
        return run_plan(read_plan(Config(text, "case.yaml"), "case")).rows.columns

    assert "examples" not in columns()
    assert "examples" in columns(rows="shared")


def test_advancing_an_optimizer_splits_rows_as_the_simulator_does():
    problem, method = logistic(3, 1, batch=8, rows="split"), Cosmo(**STEP, directions=3)
    simulation = Simulation([Run(method, ring(3), problem, 1)], wire="f64")
    run = Optimizer(problem.x0, graph=ring(3), method=method, seed=1)
    for _ in range(5):
        simulation.round()
        run.advance(problem)
    assert_array_equal(run.x, simulation.states()[0])


REFUSED = {
    "more directions than rows": ({"directions": 9}, "9 directions cannot split a batch of 8"),
    "one side": ({"directions": 2, "sides": 1}, "use sides 2, not 1"),
}


@pytest.mark.parametrize(("given", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_split_is_refused_before_work_starts(given, says):
    problem = {"kind": "logistic", "batch": 8, "rows": "split"}
    text = config([{"kind": "cosmo", **STEP, **given}], graphs(3, ["ring"]), problem=problem)
    with pytest.raises(ConfigError, match=says):
        read_plan(Config(text, "case.yaml"), "case")


def test_splitting_needs_a_batch():
    with pytest.raises(InputError, match="set batch"):
        logistic(3, 1, rows="split")
    with pytest.raises(InputError, match="rows"):
        logistic(3, 1, batch=8, rows="halved")


@pytest.mark.slow
def test_processes_split_rows_as_the_simulator_does(tmp_path):
    methods = [{"kind": kind, **STEP, "directions": 5} for kind in ("cosmo", "edge_local")]
    problem = {"kind": "logistic", "batch": 8, "rows": "split"}
    text = config(methods, graphs(3, ["ring"]), problem=problem)
    compare(tmp_path, 2, [case("split", tmp_path, text)])
