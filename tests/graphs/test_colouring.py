import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.graphs import complete, path, ring, star
from zocosmo.graphs.colouring import edge_colours

EDGES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)).filter(lambda e: e[0] != e[1]), max_size=60
)


def by_node(colours):
    """Colours at each node, one for each of its edges."""
    found = {}
    for (i, j), colour in colours.items():
        found.setdefault(i, []).append(colour)
        found.setdefault(j, []).append(colour)
    return found


def finishes(colours):
    """Whether nodes that go through their edges by colour, both ends at once, all come to the end."""
    left = {node: sorted(at) for node, at in by_node(colours).items()}
    waiting = dict(colours)
    while waiting:
        met = [e for e, colour in waiting.items() if all(left[node][0] == colour for node in e)]
        if not met:
            return False
        for edge in met:
            del waiting[edge]
            for node in edge:
                left[node].pop(0)
    return True


@given(EDGES)
def test_no_node_has_a_colour_twice(edges):
    assert all(len(set(at)) == len(at) for at in by_node(edge_colours(edges)).values())


@given(EDGES)
def test_every_edge_has_one_colour_whichever_way_it_is_written(edges):
    assert set(edge_colours(edges)) == {(min(e), max(e)) for e in edges}
    assert edge_colours(edges) == edge_colours([(j, i) for i, j in reversed(edges)])


@given(EDGES.filter(bool))
def test_there_are_fewer_colours_than_twice_the_largest_degree(edges):
    colours = edge_colours(edges)
    largest = max(map(len, by_node(colours).values()))
    assert largest <= len(set(colours.values())) <= 2 * largest - 1
    assert set(colours.values()) == set(range(max(colours.values()) + 1))


@given(EDGES)
def test_nobody_waits_in_a_circle(edges):
    assert finishes(edge_colours(edges))


@pytest.mark.parametrize(
    ("graph", "count"), [(path(5), 2), (ring(6), 2), (ring(5), 3), (star(5), 4), (complete(4), 3)]
)
def test_known_graphs_have_as_many_colours_as_they_need(graph, count):
    assert len(set(edge_colours(graph.edges).values())) == count


def test_a_graph_without_edges_needs_no_colours():
    assert edge_colours([]) == {}
