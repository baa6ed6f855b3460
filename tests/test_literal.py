"""The reference itself: what it does by hand, what it keeps, and that its bytes are what it charges."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from literal import run_literal
from zocosmo.core import CODECS, FRAME_BITS, VALUE_TYPES
from zocosmo.core.payload import Bits
from zocosmo.errors import InputError
from zocosmo.graphs import complete, path, ring

STEP = {"eta": 2**-5, "mu": 2**-3}
SPARSE = {**STEP, "q": 2, "beta": 0.5}
METHODS = {
    "cosmo": {"kind": "cosmo", **SPARSE, "passes": 2, "balanced": False, "codec": "values"},
    "balanced": {"kind": "cosmo", **SPARSE, "passes": 1, "balanced": True, "codec": "delta"},
    "edge_local": {"kind": "edge_local", **SPARSE, "coupling": "S", "balanced": True, "codec": "indexed"},
    "rand_k": {"kind": "rand_k", **SPARSE, "codec": "plain"},
    "dense": {"kind": "dense", **STEP},
    "com_dszo": {"kind": "com_dszo", **STEP, "q": 2, "psi": 0.5, "gamma": 0.25, "codec": "delta"},
    "marina_type": {"kind": "marina_type", **SPARSE, "period": 3, "codec": "indexed"},
    "flood": {"kind": "flood", **STEP},
}


def bowl(node, x, t):
    """Σ_k (x_k − node)² / 2, tilted a little more every round"""
    return float(((x - node) ** 2).sum() / 2 + t * x[0])


def linear(node, x, t):
    return float(x @ ([1, 2], [3, -1])[node])


def run(name, *, graph=None, rounds=7, x0=None, seed=3, **options):
    """Seven rounds in d = 5, where balanced supports of q = 2 end in one of 1, on four nodes."""
    method = {**METHODS[name], **options.pop("change", {})}
    x0 = np.arange(5.0) if x0 is None else x0
    options = {"schedule": "maximal", **options}
    return run_literal(method, graph or complete(4), bowl, x0, seed=seed, rounds=rounds, **options)


BOTH = {"eta": 0.5, "mu": 0.5, "q": 1, "codec": "indexed"}


@pytest.mark.parametrize(
    ("method", "seed", "rounds", "by_hand"),
    [
        # S = {0}, ε = +: slopes 1, 3; ĝ = 2, 6; y = −1, −3
        ({"kind": "cosmo", "beta": 0.0}, 0, 1, [[-2, 0], [-2, 0]]),
        ({"kind": "cosmo", "beta": 0.5}, 0, 1, [[-1, 0], [-1, 0]]),
        # S = {1}, ε = +: slopes 2, −1; ĝ = 4, −2; y = −2, 1
        ({"kind": "edge_local", "coupling": "I", "beta": 0.0}, 0, 1, [[0, -0.5], [0, -0.5]]),
        # all coordinates; the round's signs are (+, −), the pair's (+, +): slopes −1, 4 or 3, 2
        ({"kind": "edge_local", "coupling": "G", "q": 2}, 10, 1, [[-0.75, 0.75], [-0.75, 0.75]]),
        ({"kind": "edge_local", "coupling": "S", "q": 2}, 10, 1, [[-1.25, -1.25], [-1.25, -1.25]]),
        # supports {1} and {0} do not meet: ĝ = 4 and 6, no mixing; with seed 1 both are {0}, y = −1, −3
        ({"kind": "rand_k", "beta": 0.0}, 0, 1, [[0, -2], [-3, 0]]),
        ({"kind": "rand_k", "beta": 0.0}, 1, 1, [[-2, 0], [-2, 0]]),
        # ε = (+, −) and (−, +): slopes −1, −4; ĝ = (−1, 1) and (4, −4)
        ({"kind": "dense"}, 0, 1, [[-0.75, 0.75], [-0.75, 0.75]]),
        ({"kind": "flood"}, 0, 1, [[-0.75, 0.75], [-0.75, 0.75]]),
        # then both supports are {0}, both signs −: ĝ = 2, 6; m = (−½)/2 + 1 and 2/2 + 3, together 4.75
        ({"kind": "marina_type", "beta": 0.5, "period": 2}, 0, 2, [[-1.5625, 0.375], [-1.5625, 0.375]]),
        # round 0 sends zeros: x = (½, −½), (−2, 2), ties to coordinate 0: Q = ½, −2; WQ = −¾; B = ±⅝;
        # round 1: ε = (−, −), (−, +): ĝ = (3, 3), (4, −4)
        ({"kind": "com_dszo", "psi": 0.5, "gamma": 0.5}, 0, 2, [[-1.3125, -2], [-3.6875, 4]]),
    ],
)
def test_two_nodes_in_two_dimensions_do_what_a_pencil_does(method, seed, rounds, by_hand):
    done = run_literal(
        {**BOTH, **method}, path(2), linear, np.zeros(2), seed=seed, rounds=rounds, schedule="round_robin"
    )
    assert done.states[-1].tolist() == by_hand
    assert done.queries == [2 * rounds] * 2


@pytest.mark.parametrize("wire", ["f64", "f32", "f16"])
@pytest.mark.parametrize("name", ["cosmo", "edge_local", "dense", "rand_k"])
@given(x0=st.lists(st.lists(st.integers(-8, 8), min_size=5, max_size=5), min_size=4, max_size=4))
def test_mixing_keeps_the_average(name, wire, x0):
    """η = 0, small integers, weights 1/4 or 1/2: two rounds of two mixes need 8 more bits, and f16 has 11.

    A wire that must round does so alike at both ends, so that nothing is lost even then.
    """
    done = run(name, x0=np.array(x0, float), rounds=2, wire=wire, change={"eta": 0.0})
    assert (done.states[-1].sum(axis=0) == np.sum(x0, axis=0)).all()


def test_dense_mixing_with_equal_weights_gives_everyone_the_average():
    x0 = np.arange(20.0).reshape(4, 5) ** 2
    done = run("dense", x0=x0, rounds=1, change={"eta": 0.0})
    assert (done.states[0] == x0.mean(axis=0)).all()


def test_two_passes_of_a_round_mix_as_two_rounds_of_one():
    x0, still = np.arange(20.0).reshape(4, 5) ** 2, {"eta": 0.0, "q": 5}
    once = run("cosmo", graph=ring(4), x0=x0, rounds=2, change={**still, "passes": 1})
    twice = run("cosmo", graph=ring(4), x0=x0, rounds=1, change={**still, "passes": 2})
    assert (once.states[-1] == twice.states[-1]).all()
    assert [message[1:] for message in once.messages] == [message[1:] for message in twice.messages]


@pytest.mark.parametrize("coupling", "GSI")
def test_both_ends_of_a_pair_agree_on_their_support_and_move_nowhere_else(coupling):
    x0 = np.arange(20.0).reshape(4, 5) ** 2
    change = {"coupling": coupling, "balanced": False}
    x = run("edge_local", graph=complete(4), x0=x0, rounds=1, schedule="complete", change=change).states[0]
    for i, j in reference.matching_complete(3, 4, 0):
        S = reference.support(3, 5, 2, (0, i, j) if coupling == "I" else (0,))
        rest = [k for k in range(5) if k not in S]
        assert (x[i, S] == x[j, S]).all()
        assert (x[[i, j]][:, rest] == x0[[i, j]][:, rest]).all()


def test_an_unmatched_node_asks_nothing_sends_nothing_and_stays():
    done = run("edge_local", graph=path(3), rounds=1)
    ((i, j),) = reference.matching_greedy(3, [(0, 1), (1, 2)], 0)
    idle = 3 - i - j
    assert (done.states[0][idle] == np.arange(5.0)).all()
    assert sum(done.queries) - done.queries[idle] == sum(done.queries) == 4
    assert {message[1:3] for message in done.messages} == {(i, j), (j, i)}


@pytest.mark.parametrize("wire", VALUE_TYPES)
@pytest.mark.parametrize("name", METHODS)
def test_the_bytes_on_each_link_are_the_bits_charged(name, wire):
    done, crossed = run(name, wire=wire), defaultdict(int)
    for _, sender, receiver, data in done.messages:
        crossed[sender, receiver] += 8 * len(data) + FRAME_BITS.framing
    assert {link: bits.total for link, bits in done.bits.items() if bits.total} == crossed
    assert set(done.bits) == set(complete(4).links)


@pytest.mark.parametrize("name", METHODS)
def test_a_nominal_wire_carries_doubles_and_charges_half(name):
    exact, nominal = run(name, wire="f64"), run(name, wire="nominal_f32")
    assert nominal.messages == exact.messages
    assert np.array_equal(nominal.states, exact.states)
    halved = {link: bits._replace(values=bits.values // 2) for link, bits in exact.bits.items()}
    assert nominal.bits == halved


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_the_beginning_of_a_longer_one(name, dtype):
    short, long = (run(name, rounds=rounds, wire="f32", dtype=dtype) for rounds in (4, 8))
    assert np.array_equal(long.states[:4], short.states)
    assert [message for message in long.messages if message[0] < 4] == short.messages
    assert {state.dtype for state in long.states} == {np.dtype(dtype)}
    assert not np.array_equal(long.states[3], long.states[7])


@pytest.mark.parametrize("name", ["cosmo", "edge_local", "rand_k", "marina_type"])
def test_coordinates_on_the_wire_change_the_price_and_nothing_else(name):
    """Receivers of `indexed` use the coordinates they read; of `values`, those they rebuild."""
    indexed, values = (run(name, graph=complete(4), change={"codec": c}) for c in ("indexed", "values"))
    assert np.array_equal(indexed.states, values.states)
    assert all(values.bits[link].indices == 0 < indexed.bits[link].indices for link in values.bits)


@pytest.mark.parametrize("name", ["cosmo", "edge_local", "dense", "rand_k"])
def test_a_lossy_wire_rounds_what_crosses_and_not_the_state(name):
    """1 + 2⁻¹² lies between 1 and the next f16, 1 + 2⁻¹⁰: it crosses as 1, and peers that agree stay."""
    x0, change = np.full(5, 1 + 2.0**-12), {"eta": 0.0, "codec": "values", "balanced": False}
    done = run(name, x0=x0, rounds=1, wire="f16", change=change)
    ones = np.ones(5 if name == "dense" else 2, np.float16)
    assert {data for *_, data in done.messages} == {VALUE_TYPES["f16"].pack(ones)}
    assert (done.states[0] == x0).all()


@pytest.mark.parametrize("name", ["marina_type", "flood"])
@pytest.mark.parametrize("wire", VALUE_TYPES)
def test_nodes_that_apply_everyones_update_stay_together(name, wire):
    """Also over a lossy wire: a sender applies its own update as rounded."""
    last = run(name, wire=wire).states[-1]
    assert (last == last[0]).all()


def test_a_flooded_message_crosses_every_tree_edge_once_away_from_its_source():
    """The breadth-first tree of node 0 in a ring of 5 lacks the edge (2, 3)."""
    messages = run("flood", graph=ring(5), rounds=1).messages
    crossed = Counter((int.from_bytes(data[:8], "little"), i, j) for _, i, j, data in messages)
    away_from_4 = {(4, 4, 0), (4, 4, 3), (4, 0, 1), (4, 1, 2)}
    assert {key for key in crossed if key[0] == 4} == away_from_4
    assert set(crossed.values()) == {1}
    assert len(crossed) == 5 * 4


def test_a_flooded_link_is_charged_for_every_source_behind_it():
    """From 0 to 1 come the messages of 0, 3 and 4; off the tree comes none."""
    bits = run("flood", graph=ring(5), rounds=1, wire="f32").bits
    assert bits[0, 1] == Bits(values=32, control=64, framing=256).times(3)
    assert bits[2, 3] == Bits()


def test_the_first_innovation_is_zero_on_the_lowest_coordinates():
    *_, data = run("com_dszo", rounds=1).messages[0]
    message = CODECS["delta"].decode(data, d=5, q=2, value=VALUE_TYPES["f64"])
    assert message.index.tolist() == [0, 1]
    assert message.values.tolist() == [0, 0]


@pytest.mark.parametrize("wire", ["f64", "bf16"])
def test_com_dszo_is_its_recursion_in_matrix_form(wire):
    """Integer slopes, dyadic weights: six rounds fit into 53 bits, so that any order gives the same."""
    a, W = np.array([[1, 2, 4], [3, -1, 0], [0, 5, 1], [2, 2, -6]]), np.full((4, 4), 0.25)
    X = X_hat = B = Q = np.zeros((4, 3))
    for t in range(6):
        eps = np.array([reference.signs(3, 3, (t, i)) for i in range(4)])
        X_hat, B = X_hat + 0.5 * Q, B + 0.5 * (Q - W @ Q)
        X = X - 0.25 * B - 2**-5 * (a * eps).sum(axis=1, keepdims=True) * eps
        gap = X - X_hat
        Q = VALUE_TYPES[wire].round(gap * (np.arange(3) == np.abs(gap).argmax(axis=1)[:, None])).astype(float)
    method = {**METHODS["com_dszo"], "q": 1}
    done = run_literal(
        method, complete(4), lambda i, x, t: x @ a[i], np.zeros(3), seed=3, rounds=6, wire=wire
    )
    assert (done.states[-1] == X).all()


def test_a_slope_is_divided_in_double_and_then_rounded():
    """A step function from 0: whatever the sign, one step of η = 1 ends at −1/2μ."""
    method = {"kind": "dense", "eta": 1.0, "mu": 0.001}
    done = run_literal(method, complete(1), lambda i, x, t: x[0] > 0, [0], seed=3, rounds=1, dtype=np.float32)
    assert done.states[0] == np.float32(-1 / 0.002)


def test_a_run_that_diverges_ends_without_a_warning():
    """η = 10⁴ passes the largest f16, 65504, at once."""
    done = run("dense", wire="f16", dtype=np.float16, change={"eta": 1e4})
    assert not np.isfinite(done.states[-1]).any()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("marina_type", {"graph": ring(4)}),
        ("com_dszo", {"change": {"codec": "values"}}),
        ("edge_local", {"schedule": None}),
        ("cosmo", {"wire": "f8"}),
        ("cosmo", {"change": {"kind": "none"}}),
    ],
)
def test_what_cannot_be_run_is_refused(name, options):
    with pytest.raises(InputError):
        run(name, **options)
