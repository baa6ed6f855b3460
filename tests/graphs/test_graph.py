import networkx as nx
import numpy as np
import pytest

import reference
from zocosmo.errors import GraphError, InputError
from zocosmo.graphs import (
    GRAPHS,
    Graph,
    complete,
    erdos_renyi,
    grid,
    hypercube,
    path,
    random_regular,
    ring,
    small_world,
    star,
    torus,
)

SOME = [
    ring(2), ring(3), ring(8), path(1), path(5), star(6), complete(1), complete(6), grid(10), torus(12),
    hypercube(8), erdos_renyi(10, 0.4, seed=3), random_regular(10, 3, seed=1), small_world(12, 4, 0.3),
]  # fmt: skip


@pytest.mark.parametrize("graph", SOME, ids=repr)
def test_edges_are_ascending_pairs_in_lexicographic_order(graph):
    assert list(graph.edges) == sorted({(min(e), max(e)) for e in graph.edges})
    assert nx.is_connected(graph.to_networkx())


@pytest.mark.parametrize(
    ("graph", "edges", "degrees"),
    [
        (ring(8), 8, {2}),
        (ring(2), 1, {1}),
        (path(5), 4, {1, 2}),
        (star(6), 5, {1, 5}),
        (complete(6), 15, {5}),
        (hypercube(16), 32, {4}),
        (torus(16), 32, {4}),
        (random_regular(10, 3), 15, {3}),
        (grid(9), 12, {2, 3, 4}),
    ],
    ids=repr,
)
def test_known_graphs_have_their_edges(graph, edges, degrees):
    assert len(graph.edges) == edges
    assert set(graph.degrees.tolist()) == degrees


def test_the_papers_grid_of_ten_is_two_by_five():
    assert nx.is_isomorphic(grid(10).to_networkx(), nx.grid_2d_graph(2, 5))
    assert grid(10).degrees.mean() == 2.6


def test_nodes_of_a_grid_are_numbered_row_by_row():
    assert grid(6, rows=2).edges == ((0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5))


def test_a_hypercube_joins_numbers_that_differ_in_one_bit():
    assert nx.is_isomorphic(hypercube(8).to_networkx(), nx.hypercube_graph(3))


def test_links_are_both_directions_of_every_edge():
    assert set(ring(4).links) == {(i, j) for edge in ring(4).edges for i, j in (edge, edge[::-1])}


def test_erdos_renyi_follows_the_tape():
    """Word k of stream(graph, attempt) against ⌊p 2^64⌋, the first attempt that is connected."""
    n, p = 8, 0.3
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    for seed in range(10):
        for attempt in range(1000):
            stream = reference.Stream(reference.key(seed), "graph", (attempt,))
            edges = [pair for pair in pairs if stream.word() < int(p * 2**64)]
            if nx.is_connected(nx.Graph(edges)) and len({i for e in edges for i in e}) == n:
                break
        assert erdos_renyi(n, p, seed=seed).edges == tuple(edges)


def test_erdos_renyi_at_one_is_complete():
    assert erdos_renyi(5, 1.0).edges == complete(5).edges


def test_random_graphs_depend_on_the_seed_alone():
    for build in (
        lambda s: erdos_renyi(20, 0.3, seed=s),
        lambda s: random_regular(20, 3, seed=s),
        lambda s: small_world(20, 4, 0.5, seed=s),
    ):
        assert build(1) == build(1) != build(2)


def test_any_networkx_graph_and_any_edge_list_will_do():
    assert Graph.from_networkx(nx.Graph([("b", "a"), ("c", "b")])).edges == ((0, 1), (1, 2))
    assert Graph.of(3, [(2, 1), (1, 2), (0, 1)]).edges == ((0, 1), (1, 2))


def test_the_laplacian_is_networkx_s():
    for graph in SOME:
        theirs = nx.laplacian_matrix(graph.to_networkx(), nodelist=range(graph.n)).toarray()
        assert (graph.laplacian() == theirs).all()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Graph.of(5, [(0, 1), (2, 3), (3, 4), (2, 4)]), "no path from node 0 to node 2"),
        (lambda: Graph.of(4, [(0, 1), (2, 3)]), "4 nodes need at least 3 edges"),
        (lambda: Graph(3, ((1, 2), (0, 1))), "lexicographic"),
        (lambda: Graph(2, ((0, 1), (0, 1))), "must be distinct"),
        (lambda: Graph(2, ((1, 0),)), "descends"),
        (lambda: Graph.from_networkx(nx.DiGraph([(0, 1)])), "to_undirected"),
        (lambda: Graph.of(3, [(0, 1)]), "not connected"),
        (lambda: Graph.of(2, [(0, 2)]), "leaves the nodes 0 to 1"),
        (lambda: Graph.of(2, [(0, 0), (0, 1)]), "loop"),
        (lambda: Graph.of(0, []), "at least one node"),
        (lambda: ring(1), "at least 2 nodes, got 1"),
        (lambda: grid(7), "single row"),
        (lambda: grid(10, rows=3), "rows must divide"),
        (lambda: hypercube(6), "2, 4, 8, 16"),
        (lambda: random_regular(5, 3), "n · degree even"),
        (lambda: erdos_renyi(5, 0.0), "probability"),
        (lambda: erdos_renyi(60, 0.001), "none of 1000 .* is connected"),
        (lambda: small_world(5, 5, 0.1), "2 ≤ k < n"),
        (lambda: small_world(9, 3, 0.1), "even k"),
        (lambda: small_world(9, 4, 1.1), "0 ≤ p ≤ 1"),
    ],
)
def test_impossible_graphs_are_refused(build, words):
    with pytest.raises(GraphError, match=words):
        build()


def test_every_named_graph_can_be_built():
    extra = {"erdos_renyi": {"p": 0.5}, "random_regular": {"degree": 3}, "small_world": {"k": 4, "p": 0.2}}
    extra["rings"] = {"degree": 4}
    assert {name: GRAPHS[name](16, **extra.get(name, {})).n for name in GRAPHS} == dict.fromkeys(GRAPHS, 16)


def test_large_graphs_are_cheap():
    assert np.unique(ring(4096).degrees).tolist() == [2]


def test_nodes_are_whole_numbers():
    with pytest.raises(InputError, match=r"a node must be a whole number, got 1\.7"):
        Graph.of(3, [(0, 1.7), (1, 2)])
    assert hypercube(np.int64(4)).edges == hypercube(4).edges
