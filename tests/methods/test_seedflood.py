"""SeedFlood: one model everywhere, and a bill for all that a flood carries."""

import networkx as nx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small_run
from methods.forward import seen, slope
from zocosmo.core.normals import normals
from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import complete, erdos_renyi, grid, path, ring, star
from zocosmo.traffic import flood_hops

COUNTS = [  # messages of one round
    *((ring(n), n * n if n % 2 == 0 else n * (n + 1)) for n in (3, 4, 5, 8, 9)),
    *((complete(n), n * (n - 1) ** 2) for n in (2, 3, 5)),
    *((graph, graph.n * (graph.n - 1)) for graph in (path(2), path(7), star(6))),
]
FLOODS = ["seedflood", "subcge"]
WIDE = [ring(7), path(6), star(5), complete(4), grid(6), erdos_renyi(8, 0.5, 2)]


def passed_on(graph):
    """A flood played out message by message: how many cross each link, and after which stage all have all."""
    known, counts, depth = [{i: 0} for i in range(graph.n)], dict.fromkeys(graph.links, 0), 0
    fresh = {(i, i): set() for i in range(graph.n)}  # (holder, source): who brought it
    for stage in range(1, graph.n + 2):
        arriving = {}
        for (i, source), brought in fresh.items():
            for j in set(graph.neighbours[i]) - brought:
                counts[i, j] += 1
                arriving.setdefault((j, source), set()).add(i)
        fresh = {key: brought for key, brought in arriving.items() if key[1] not in known[key[0]]}
        for holder, source in fresh:
            known[holder][source] = stage
        depth = stage if fresh else depth
    assert all(len(each) == graph.n for each in known)
    return counts, depth


@pytest.mark.parametrize("wire", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("graph", [ring(5), star(6)], ids=lambda g: g.name)
@pytest.mark.parametrize("name", FLOODS)
def test_every_node_ends_each_round_with_the_same_model(name, graph, wire):
    x0 = small_run(name, graph).problem.x0
    for x in seen(small_run(name, graph), 8, wire=wire)[0]:
        assert_array_equal(x, np.tile(x[0], (graph.n, 1)))
        assert (x[0] != x0).any()


@pytest.mark.parametrize(("graph", "messages"), COUNTS, ids=lambda g: getattr(g, "name", None))
@pytest.mark.parametrize("name", FLOODS)
def test_a_round_costs_96_bits_for_each_message_of_the_flood(name, graph, messages):
    bits = seen(small_run(name, graph), 3)[1].channel.ledger("seed_scalar").network()
    assert (bits.values, bits.control, bits.indices) == (3 * messages * 32, 3 * messages * 64, 0)
    assert bits.payload == 3 * messages * 96
    assert messages >= graph.n * (graph.n - 1)


@pytest.mark.parametrize("graph", WIDE, ids=lambda g: g.name)
@pytest.mark.parametrize("name", FLOODS)
def test_every_link_pays_for_what_a_flood_played_out_sends_over_it(name, graph):
    simulation = seen(small_run(name, graph), 2)[1]
    ledger, (counts, depth) = simulation.channel.ledger("seed_scalar"), passed_on(graph)
    assert {link: ledger.link(*link).payload for link in ledger.links} == {
        link: 2 * 96 * count for link, count in counts.items()
    }
    assert simulation.checkpoint().stages.tolist() == [2 * depth]
    assert depth == nx.diameter(graph.to_networkx())
    assert depth <= len(list(flood_hops(graph))) <= depth + 1


@pytest.mark.parametrize("graph", WIDE, ids=lambda g: g.name)
def test_no_flood_is_cheaper_than_over_a_tree(graph):
    real, ideal = (
        seen(small_run(name, graph), 1)[1].channel.ledger("seed_scalar").network().payload
        for name in ("seedflood", "flood")
    )
    assert real == ideal if len(graph.edges) == graph.n - 1 else real > ideal


@pytest.mark.parametrize(("graph", "d"), [(ring(4), 6), (erdos_renyi(6, 0.5, 3), 9)], ids=["ring", "random"])
def test_every_round_is_the_published_step_node_by_node(graph, d):
    run = small_run("seedflood", graph, seed=4, d=d)
    x, n = np.tile(run.problem.x0, (graph.n, 1)), graph.n
    for t, found in enumerate(seen(run, 8)[0]):
        z = [normals(Tape(4), "normal", t, j, size=d) for j in range(n)]
        s = [slope(run.problem, j, x[j], z[j], run.method.mu, t) for j in range(n)]
        for i in range(n):
            total = s[0] * z[0]
            for j in range(1, n):
                total = total + s[j] * z[j]
            x[i] = x[i] - (run.method.eta / n) * total
        assert_array_equal(found, x)


def test_nodes_that_start_apart_stay_as_far_apart():
    """Every node takes the same step: only the last bits of x change their distance, 8 rounds of 2 sums."""
    x = np.random.default_rng(1).normal(size=(4, 6))
    after = seen(small_run("seedflood", "ring"), 8, x)[0][-1]
    assert np.abs((after - after[0]) - (x - x[0])).max() < 16 * 2.0**-52 * np.abs(after).max()
