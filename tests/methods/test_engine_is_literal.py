"""The batched engine against the literal one, message by message, with `==`."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from literal import run_literal
from methods.cases import COMPLETE, GRAPHS, METHODS, small
from zocosmo.graphs.graph import complete, grid, ring, star
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.sim.engine import Run, Simulation

PLACES = {**GRAPHS, "star": star(5), "grid": grid(6), "two": complete(2), "ring of 6": ring(6)}
CASES = [
    ("cosmo", {}),
    ("cosmo", {"beta": 0.75, "passes": 2}),
    ("cosmo", {"rule": "balanced", "q": 4}),
    ("edge_local", {"coupling": "G"}),
    ("edge_local", {"coupling": "S", "beta": 0.9}),
    ("edge_local", {"coupling": "I", "rule": "balanced", "q": 4}),
    ("rand_k", {"beta": 0.5}),
    ("rand_k", {"codec": "values", "q": 3}),
    ("dense", {}),
    ("com_dszo", {}),
    ("com_dszo", {"codec": "delta", "q": 3}),
    ("marina_type", {"beta": 0.5}),
    ("rand_k_average", {"beta": 0.5}),
    ("rand_k_average", {"codec": "values", "q": 3}),
    ("flood", {}),
    ("tree_sum", {}),
    ("tree_sum", {"bits": 3, "perturbations": 3}),
    ("tree_sum", {"bits": 32, "perturbations": 2, "sides": 1}),
    ("tree_mean", {}),
    ("tree_mean", {"hold": 3, "q": 4, "directions": 3, "rule": "balanced"}),
    ("tree_mean", {"hold": 2, "q": 3, "directions": 4, "signs": "orthogonal", "sides": 1}),
    ("tree_mean", {"q": 4, "directions": 4, "signs": "orthogonal", "sides": 1, "rule": "balanced"}),
    ("moniqua", {"theta": 0.01, "gamma": 0.75}),
    ("moniqua", {"theta": 0.5, "bits": 1}),
    ("moniqua", {"theta": 1.5, "bits": 8}),
    ("fzoo", {}),
    ("fzoo", {"directions": 3}),
]
SEVERAL = [
    ("cosmo", {"directions": 3, "q": 4}),
    ("cosmo", {"directions": 4, "q": 4, "signs": "orthogonal", "sides": 1}),
    ("cosmo", {"directions": 4, "q": 4, "signs": "orthogonal", "rule": "balanced", "beta": 0.5, "passes": 2}),
    ("cosmo", {"directions": 2, "step_rule": "normalised", "beta": 0.5, "sides": 1}),
    ("cosmo", {"step_rule": "normalised_local"}),
    ("edge_local", {"coupling": "G", "directions": 3, "q": 3, "signs": "orthogonal"}),
    ("edge_local", {"coupling": "S", "directions": 5, "sides": 1, "beta": 0.9}),
    ("edge_local", {"coupling": "I", "directions": 4, "q": 3, "signs": "orthogonal", "sides": 1}),
    ("edge_local", {"coupling": "I", "directions": 3, "rule": "balanced", "q": 4, "step_rule": "normalised"}),
    ("edge_local", {"coupling": "S", "step_rule": "normalised", "beta": 0.5}),
    ("rand_k", {"directions": 3, "q": 3, "signs": "orthogonal", "beta": 0.5}),
    ("rand_k", {"directions": 2, "sides": 1, "codec": "values", "step_rule": "normalised"}),
    ("dense", {"directions": 2, "sides": 1}),
    ("dense", {"directions": 6, "signs": "orthogonal", "step_rule": "normalised"}),
]
CASES += SEVERAL


def compare(name, changes, graph, *, wire, dtype, problem, rounds=8):
    method = small(name, **changes)
    run = Run(method, graph, problem, 7)
    simulation = Simulation([run], wire=wire, dtype=dtype)
    fields = {
        key: getattr(method, key) for key in method.__dataclass_fields__ if key not in ("decay", "rule")
    }
    given = {"kind": name, "balanced": getattr(method, "rule", "") == "balanced", **fields}

    def query(node, x, t):
        everywhere = np.broadcast_to(x, (graph.n, problem.d)).astype(dtype)
        return float(problem(everywhere, t)[node])

    schedule = run.world.schedule_name if name == "edge_local" else None
    x0 = problem.x0.astype(dtype)
    told = run_literal(
        given, graph, query, x0, seed=7, rounds=rounds, wire=wire, dtype=np.dtype(dtype), schedule=schedule
    )
    for expected in told.states:
        simulation.round()
        assert_array_equal(simulation.states()[0], expected)
    ledger = simulation.channel.ledger(method.codec)
    assert {link: ledger.link(*link) for link in ledger.links} == told.bits
    assert simulation.queries.tolist() == [sum(told.queries)]


@pytest.mark.parametrize(
    ("name", "changes", "graph"),
    [
        (name, changes, graph)
        for name, changes in CASES
        for graph in PLACES
        if name not in COMPLETE or graph in ("complete", "two")  # they refuse all others
    ],
)
def test_states_bits_and_queries_are_those_of_the_literal_run(name, changes, graph):
    graph = PLACES[graph]
    problem = quadratic(graph.n, 3, d=6, omega=0.5, zeta=1.0, sigma=0.5)
    compare(name, changes, graph, wire="f64", dtype="float64", problem=problem)


@pytest.mark.parametrize(
    ("wire", "dtype"),
    [("nominal_f32", "float64"), ("f32", "float64"), ("f16", "float64"), ("bf16", "float64"),
     ("f32", "float32"), ("f16", "float32"), ("bf16", "float32"), ("nominal_f32", "float32")],
)  # fmt: skip
@pytest.mark.parametrize(("name", "changes"), CASES)
def test_every_wire_and_state_type_gives_the_literal_bits(name, changes, wire, dtype):
    graph = complete(4) if name in COMPLETE else GRAPHS["random"]
    problem = rosenbrock(graph.n, 3, d=7, shift=0.3)
    compare(name, {**changes, "eta": 2.5e-3}, graph, wire=wire, dtype=dtype, problem=problem)


def test_every_method_has_a_literal_twin():
    """Here, or in a test file of its own that writes it a second time."""
    own = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert set(METHODS) <= {name for name, _ in CASES} | own
