import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from zocosmo.channel import MemoryChannel
from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.message import CODECS
from zocosmo.core.payload import Bits
from zocosmo.core.tape import Tape
from zocosmo.core.values import F64
from zocosmo.core.wires import WIRES
from zocosmo.errors import GraphError, InputError
from zocosmo.graphs.graph import complete, erdos_renyi, grid, path, ring, star
from zocosmo.graphs.weights import metropolis
from zocosmo.traffic import distances, flood_hops, flood_messages, tree_messages


def channel(*graphs, d=20, wire="f64", codecs=("values",), dtype="float64", **options):
    return MemoryChannel(graphs, d=d, wire=wire, codecs=codecs, dtype=dtype, **options)


@given(st.integers(2, 9), st.floats(0.3, 1.0), st.integers(0, 99))
def test_mixing_is_the_weight_matrix(n, p, seed):
    """To rounding: n additions of numbers up to about 5."""
    graph = erdos_renyi(n, p, seed)
    y = np.random.default_rng(seed).normal(size=(n, 3))
    assert np.abs(channel(graph).mix(y) - metropolis(graph).matrix() @ y).max() < 1e-13


@pytest.mark.parametrize("wire", [name for name, wire in WIRES.items() if not wire.linked])
def test_every_wire_keeps_the_average_when_mixing(wire):
    y = np.random.default_rng(1).normal(size=(6, 5))
    mixed = channel(star(6), wire=wire, tape=Tape(1)).mix(y)
    assert np.abs(mixed.mean(axis=0) - y.mean(axis=0)).max() < 1e-15


@pytest.mark.parametrize("wire", ["f16", "bf16", "f32"])
def test_a_lossy_wire_loses_something(wire):
    y = np.random.default_rng(1).normal(size=(6, 5))
    assert (channel(ring(6), wire=wire).mix(y) != channel(ring(6)).mix(y)).any()


def test_graphs_side_by_side_mix_as_each_alone():
    graphs = [ring(6), star(6), erdos_renyi(6, 0.5, 1)]
    y = np.random.default_rng(2).normal(size=(3, 6, 4))
    alone = [channel(graph).mix(each) for graph, each in zip(graphs, y, strict=True)]
    assert_array_equal(channel(*graphs).mix(y), np.stack(alone))


def test_pairs_get_their_mean_and_the_idle_get_themselves():
    y = np.array([[1.0], [3.0], [10.0]])
    assert channel(path(3)).mix_pairs(y, np.array([1, 0, 2])).tolist() == [[2.0], [2.0], [10.0]]


def test_only_links_that_carried_something_are_charged():
    wire = channel(path(3), codecs=("values", "indexed"))
    wire.mix_pairs(np.ones((3, 4)), np.array([1, 0, 2]))
    price = CODECS["indexed"].bits(20, 4, F64).plus(FRAME_BITS)
    ledger = wire.ledger("indexed")
    assert (ledger.link(0, 1), ledger.link(1, 0)) == (price, price)
    assert ledger.link(1, 2).total == ledger.link(2, 1).total == 0


def test_runs_are_charged_for_the_links_of_their_own_graph():
    wire = channel(ring(6), complete(6))
    wire.mix(np.ones((2, 6, 4)))
    assert wire.ledger("values").counts.sum(axis=(1, 2)).tolist() == [
        12 * (4 * 64 + 256),
        30 * (4 * 64 + 256),
    ]


def test_reading_the_bill_twice_charges_once():
    wire = channel(ring(6))
    wire.mix(np.ones((6, 4)))
    assert wire.ledger("values").network() == wire.ledger("values").network()


def test_a_nominal_wire_charges_32_bits_and_loses_nothing():
    y = np.random.default_rng(3).normal(size=(4, 2))
    wire = channel(ring(4), wire="nominal_f32")
    assert_array_equal(wire.mix(y), channel(ring(4)).mix(y))
    assert wire.ledger("values").network() == Bits(values=8 * 2 * 32, framing=8 * 256)


def test_a_message_of_all_coordinates_names_none():
    wire = channel(ring(4), d=3, codecs=("indexed",))
    wire.mix(np.ones((4, 3)))
    assert wire.ledger("indexed").network().indices == 0


@pytest.mark.parametrize("graph", [path(7), star(7), ring(7), grid(6), complete(5)], ids=lambda g: g.name)
def test_a_flood_crosses_n_times_n_minus_one_links_of_the_graph(graph):
    counts = tree_messages(graph)
    assert sum(counts.values()) == graph.n * (graph.n - 1)
    assert set(counts) <= set(graph.links)
    assert len(counts) == 2 * (graph.n - 1)


def test_a_wide_wire_under_narrow_states_is_refused():
    with pytest.raises(InputError, match="use wire f32"):
        channel(ring(4), wire="f64", dtype="float32")


def test_sending_to_all_needs_a_complete_graph():
    with pytest.raises(GraphError, match="complete"):
        channel(ring(4)).everyone(np.ones((4, 2)), over="links")


def test_large_graphs_find_their_links_without_a_table():
    """1,100² pairs are past the table: the search must charge the same links."""
    wire, partners = channel(ring(1100)), np.arange(1100) ^ 1
    wire.mix_pairs(np.ones((1100, 1)), partners)
    ledger = wire.ledger("values")
    assert (ledger.link(0, 1).values, ledger.link(1, 2).values) == (64, 0)
    assert ledger.network().values == 1100 * 64


def test_many_rounds_unread_are_counted_all_the_same():
    """More rounds than are kept waiting, of two sizes."""
    wire, partners = channel(ring(6)), np.arange(6) ^ 1
    for t in range(150):
        wire.mix_pairs(np.ones((6, 1 + t % 2)), partners)
    assert wire.ledger("values").link(0, 1).values == 75 * 64 + 75 * 2 * 64
    assert sum(map(len, wire.traffic._paired.values())) == 0


# A server: node n, with a link to it and one from it


def test_up_and_down_are_charged_on_links_of_their_own():
    wire = channel(path(3), wire="f32", codecs=("values", "seed_scalar"), server=True)
    wire.up(np.ones((1, 3, 2)), np.array([[True, False, True]]))
    wire.charge(4, up=False, times=np.array([[0, 5, 1]]))
    assert [wire.ledger("values").link(i, 3).payload for i in range(3)] == [64, 0, 64]
    assert [wire.ledger("values").link(3, i).payload for i in range(3)] == [0, 5 * 128, 128]
    assert wire.ledger("seed_scalar").link(0, 3).payload == 2 * 96  # a message for each value
    assert wire.ledger("values").link(0, 1).total == 0


def test_a_message_may_have_a_price_of_its_own():
    wire = channel(path(3), wire="f32", server=True)
    wire.up(np.ones((1, 3, 1)), price="votes")
    wire.down(np.ones((1, 1, 4)), price="indexed", of=1000)
    assert wire.ledger("values").link(1, 3) == Bits(values=1, framing=7).plus(FRAME_BITS)
    assert wire.ledger("values").link(3, 1).indices == 4 * 10


def test_runs_of_a_batch_have_bills_of_their_own():
    wire = channel(path(2), path(2), wire="f32", server=True)
    wire.up(np.ones((2, 2, 1)), np.array([[True, True], [False, True]]))
    assert wire.ledger("values").counts.sum(axis=(-2, -1)).tolist() == [2 * (32 + 256), 32 + 256]


@pytest.mark.parametrize("send", ["up", "down"])
def test_without_a_server_there_is_nobody_to_send_to(send):
    with pytest.raises(GraphError, match="no server"):
        getattr(channel(path(3)), send)(np.ones((1, 3, 1)))


# Floods


@given(st.integers(2, 9), st.floats(0.2, 1.0), st.integers(0, 99))
def test_every_message_of_a_flood_reaches_everyone_in_as_many_stages_as_it_is_far(n, p, seed):
    graph = erdos_renyi(n, p, seed)
    heard, counted = [{i} for i in range(n)], dict.fromkeys(graph.links, 0)
    for stage, hops in enumerate(flood_hops(graph), start=1):
        known = [set(each) for each in heard]
        for (i, j), source in hops:
            assert source in known[i]  # it was there before this stage
            heard[j].add(source)
            counted[i, j] += 1
        assert all(heard[j] == {k for k in range(n) if distances(graph)[k, j] <= stage} for j in range(n))
    assert all(len(each) == n for each in heard)
    assert counted == flood_messages(graph)
    assert sum(counted.values()) >= n * (n - 1)


@pytest.mark.parametrize(
    ("graph", "messages"), [(path(6), 30), (star(7), 42), (ring(6), 36), (complete(4), 36)]
)
def test_a_tree_has_no_message_twice_and_other_graphs_do(graph, messages):
    """Of each source: N − 1 in a tree, N in an even ring; if complete N − 1, and (N − 1)(N − 2) again."""
    wire = channel(graph, wire="f32", codecs=("seed_scalar",))
    values = np.arange(float(graph.n))[None, :, None]
    assert_array_equal(wire.everyone(values, over="flood"), values)
    assert wire.ledger("seed_scalar").network().payload == 96 * messages
