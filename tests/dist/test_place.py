import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.dist.place import Place
from zocosmo.errors import InputError
from zocosmo.graphs import complete, erdos_renyi, path, ring, star


@st.composite
def some_place(draw):
    n = draw(st.integers(2, 16))
    graph = draw(st.sampled_from([ring(n), path(n), star(n), complete(n), erdos_renyi(n, 0.5, n)]))
    return Place(graph, draw(st.integers(1, n)))


@given(some_place())
def test_every_node_lives_in_one_process_in_rows_as_even_as_can_be(place):
    sizes = [part.size for part in place.parts]
    assert np.concatenate(place.parts).tolist() == list(range(place.graph.n))
    assert max(sizes) - min(sizes) <= 1
    assert all((place.host[part] == rank).all() for rank, part in enumerate(place.parts))


@given(some_place())
def test_processes_are_joined_where_their_nodes_are(place):
    joined = {tuple(sorted((int(place.host[i]), int(place.host[j])))) for i, j in place.graph.edges}
    assert place.edges == sorted(pair for pair in joined if pair[0] != pair[1])


def test_with_a_process_for_each_node_the_processes_are_the_graph():
    graph = erdos_renyi(9, 0.4, 1)
    assert Place(graph, 9).edges == list(graph.edges)


def test_one_process_has_no_peers():
    place = Place(ring(5), 1)
    assert (place.edges, place.hop(0)) == ([], (None, (), {}))


@given(some_place())
def test_measurements_travel_along_links_that_are_there(place):
    parents = {rank: place.hop(rank).parent for rank in range(place.world)}
    ends = {(min(rank, up), max(rank, up)) for rank, up in parents.items() if up is not None}
    assert ends <= set(place.edges)
    assert [rank for rank, up in parents.items() if up is None] == [0]


@given(some_place())
def test_parents_and_children_know_each_other(place):
    hops = [place.hop(rank) for rank in range(place.world)]
    below = {(hop.parent, rank) for rank, hop in enumerate(hops) if hop.parent is not None}
    assert below == {(rank, child) for rank, hop in enumerate(hops) for child in hop.children}


@given(some_place())
def test_what_is_below_a_child_is_what_it_gathers(place):
    """Its own nodes and all below its children, ascending; at rank 0 everything."""
    hops = [place.hop(rank) for rank in range(place.world)]
    gathered = {
        rank: sorted(np.concatenate([place.parts[rank], *hop.below.values()]).tolist())
        for rank, hop in enumerate(hops)
    }
    assert gathered[0] == list(range(place.graph.n))
    assert all(nodes.tolist() == gathered[child] for hop in hops for child, nodes in hop.below.items())


@pytest.mark.parametrize(("n", "world"), [(2, 3), (4, 9)])
def test_more_processes_than_nodes_are_refused(n, world):
    with pytest.raises(InputError, match=f"{world} processes for {n} nodes"):
        Place(ring(n), world)
