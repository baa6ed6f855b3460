"""tree_mean as proposed: within both budgets, with the fewest bits that add little, and a run that agrees."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core.grid import GRID
from zocosmo.graphs.graph import complete, path, ring, star
from zocosmo.methods import TreeMean
from zocosmo.planner import Spending, propose_tree
from zocosmo.planner.tree import ADDED, MOST_HELD, wire_for
from zocosmo.problems.quadratic import quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.payload import tree_cost

SHAPE = {"lambda2": 0.3, "pairs": 4}
graphs = st.sampled_from([ring(8), ring(64), star(9), path(5), complete(2)])


@given(
    graphs,
    st.integers(1, 10**6),
    st.none() | st.integers(2000, 10**9),
    st.none() | st.integers(400, 10**6),
    st.sampled_from([1, 8]),
)
def test_both_budgets_are_kept_and_one_is_used_up(graph, d, bits, queries, batch):
    if bits is None and queries is None:
        return
    found = propose_tree(Spending(d=d, bits=bits, queries=queries, batch=batch, **SHAPE), graph)
    assert found is not None
    each = tree_cost(graph.n, found.message_bits)
    exchanges = Fraction(found.rounds, found.hold)
    assert bits is None or exchanges * each <= bits
    assert queries is None or found.rounds * found.queries <= queries
    short = queries is None or (found.rounds + found.hold) * found.queries > queries
    assert short or (bits is not None and (exchanges + 1) * each > bits)
    assert found.q <= d
    assert 1 <= found.hold <= MOST_HELD


@given(graphs, st.integers(1, 10**4))
def test_the_wire_is_the_narrowest_that_adds_little(graph, d):
    found = propose_tree(Spending(d=d, queries=3200, **SHAPE), graph)
    bits = GRID[found.wire].bits
    assert found.added == wire_for(graph, found.directions)[1]
    assert found.added <= ADDED or bits == 8
    assert found.message_bits == 8 + found.directions * bits


@pytest.mark.parametrize(
    ("d", "bits", "queries", "told"),
    [(1210, 25_000, 25_600, (128, 8, 8, "grid3")), (1210, 400_000, 25_600, (128, 8, 1, "grid3"))],
)
def test_the_digits_network_gets_about_what_the_field_chose(d, bits, queries, told):
    found = propose_tree(Spending(d=d, bits=bits, queries=queries, **SHAPE), ring(8))
    assert (found.q, found.directions, found.hold, found.wire) == told


@pytest.mark.parametrize("graph", [ring(8), star(5)], ids=lambda g: g.name)
def test_a_run_with_it_spends_what_the_proposal_says(graph):
    found = propose_tree(Spending(d=64, bits=2500, queries=400, **SHAPE), graph)
    method = TreeMean(
        q=found.q,
        directions=found.directions,
        signs="orthogonal",
        sides=found.sides,
        rule="balanced",
        hold=found.hold,
        wire=found.wire,
        eta=1e-3,
        mu=1e-3,
    )
    run = Run(method, graph, quadratic(graph.n, 1, d=64), 1)
    simulation = Simulation([run])
    for _ in range(found.rounds):
        simulation.round()
    assert simulation.queries.tolist() == [graph.n * found.rounds * found.queries]
    spent = Fraction(simulation.channel.ledger("scalars").network().payload, graph.n)
    assert spent == found.rounds // found.hold * tree_cost(graph.n, found.message_bits) <= 2500
    assert method.stages(run.world) == found.waits


@pytest.mark.parametrize("queries", [2, 3, 5, 90, 250, 3200])
def test_a_run_of_few_queries_has_fewer_directions_and_at_least_one_round(queries):
    found = propose_tree(Spending(d=32, queries=queries, **SHAPE), ring(8))
    assert found.rounds >= 1
    assert found.directions == max(K for K in (1, 2, 4, 8) if K == 1 or queries >= (K + 1) * 100)
    assert ("One number crosses" in found.line) == (found.directions == 1)


@pytest.mark.parametrize("bits", [1, 20, 27])
def test_a_budget_that_pays_for_no_exchange_gets_no_proposal(bits):
    assert propose_tree(Spending(d=32, bits=bits, queries=900, **SHAPE), ring(8)) is None


def test_a_batch_is_shared_out():
    found = propose_tree(Spending(d=4096, queries=800, batch=12, **SHAPE), ring(4))
    assert (found.directions, found.sides, found.queries, found.rounds) == (8, 2, 2, 400)


def test_the_line_can_be_put_into_a_config():
    line = propose_tree(Spending(d=32, bits=10_000, queries=3200, **SHAPE), ring(8)).line
    told = "q: 32, directions: 8, signs: orthogonal, sides: 1, rule: balanced, hold: 2, wire: grid3"
    assert f"{{kind: tree_mean, {told}}}" in line
    assert "wait for 8 messages in a row" in line
    assert "every 2 rounds, for 355 rounds" in line
