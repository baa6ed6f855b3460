"""From z to x: the formula, entry by entry; queries along Pu; x beside z never depends on the past."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zocosmo.core import Direction, Support, Tape
from zocosmo.core.subspace import Subspace
from zocosmo.core.support import draw_direction
from zocosmo.errors import InputError
from zocosmo.oracle import Query, both_sides, estimate
from zocosmo.state import lend, zeros_like
from zocosmo.subspace import LiftedState, Lifting, lifting_of

SIZES = [(12, 4), (13, 4), (13, 12), (16, 1), (1100, 7)]
TYPES = ["float64", "float32"]
sized = pytest.mark.parametrize(("d", "m"), SIZES)
typed = pytest.mark.parametrize("dtype", TYPES)


def start(d, runs=()):
    return np.random.default_rng(d).normal(size=(*runs, d))


def lifting(d, m, seeds=None):
    tape = Tape(0) if seeds is None else Tape.stack(seeds)
    return Lifting(Subspace(tape, d=d, m=m), start(d, tape.shape))


def literal(of, z, k=()):
    """x0[c] + (σ_c √(m/d)) z[h(c)] of one run, a number at a time."""
    space, kind = of.space, z.dtype.type
    x = np.empty((len(z), space.d), z.dtype)
    for i, c in np.ndindex(x.shape):
        entry = kind(float(space.signs[k][c]) * np.sqrt(space.m / space.d))
        x[i, c] = kind(start(space.d, space.lead)[k][c]) + entry * z[i, space.column[k][c]]
    return x


@sized
@typed
def test_lift_is_the_formula_to_the_bit(d, m, dtype):
    z = np.random.default_rng(1).normal(size=(3, m)).astype(dtype)
    assert (lifting(d, m).lift(z) == literal(lifting(d, m), z)).all()
    many, zs = lifting(d, m, ["a", "b"]), np.stack([z, -z])
    assert (many.lift(zs) == np.stack([literal(many, zs[k], k) for k in range(2)])).all()
    assert (many.lift_one(zs[:, 0]) == many.lift(zs)[:, 0]).all()
    assert many.lift(zs).dtype == dtype


@sized
@typed
@pytest.mark.parametrize("q", [1, 2, 3, 4])
def test_a_query_along_u_is_one_along_pu(d, m, dtype, q):
    """Entries σ_c √(m/d) ε on all coordinates of the support's columns, and 0 or nothing elsewhere."""
    q, of, rng = min(q, m), lifting(d, m, ["a", "b"]), np.random.default_rng(q)
    tape = Tape.stack(["u", "v"])
    for ids in ((0,), (0, np.arange(3))):  # one direction for all nodes, or one for each
        u = draw_direction(tape[:, None], *ids, d=m, q=q)
        z = rng.normal(size=(2, 3, m)).astype(dtype)
        asked = of.query(Query(z, (u,), 0.25))
        x, dense = of.lift(z), np.broadcast_to(u.lift(u.entries), (2, 3, m)).astype(dtype)
        P = np.stack([literal(of, np.eye(m, dtype=dtype), k) for k in range(2)])
        P -= start(d, (2,)).astype(dtype)[:, None]
        entries = (of.space.signs * of.space.scale).astype(dtype)
        along = np.stack([entries[k] * dense[k][:, of.space.column[k]] for k in range(2)])
        full = np.broadcast_to(asked.u.lift(asked.u.entries), x.shape)
        assert (full == along).all()
        assert np.allclose(full, np.einsum("knj,kjc->knc", dense, P), atol=1e-6)
        plus, minus = both_sides(asked, np.array)
        shifts = (np.asarray(0.25, dtype) * along.astype(dtype)).astype(dtype)
        assert (plus == x + shifts).all()
        assert (minus == x - shifts).all()
        assert (asked.x == x).all()  # put back


def test_more_directions_on_one_support_keep_their_order():
    of, index = lifting(12, 4), np.array([[0, 2]])
    us = tuple(Direction(index, 4, np.array([signs], np.int8)) for signs in product((1, -1), repeat=2))
    asked = of.query(Query(np.zeros((3, 4)), us, 0.5, np.array([True, False, True])))
    assert (asked.mu, asked.active.tolist(), len(asked.directions)) == (0.5, [True, False, True], 4)
    for u, lifted in zip(us, asked.directions, strict=True):
        assert (of.direction(u, np.dtype(float)).lift(lifted.entries) == lifted.lift(lifted.entries)).all()
        ones = lifted.entries / (of.space.signs * of.space.scale)[lifted.index[0]]
        assert (ones == u.lift(u.entries)[0, of.space.column[lifted.index[0]]]).all()


def test_the_estimate_is_unbiased_for_the_gradient_along_the_subspace():
    """All supports and signs of q = 2 of m = 4, d = 16: √(m/d) = ½, so slopes of a linear loss are exact.

    E ĝ = Pᵀg, and E‖ĝ‖² = m ‖Pᵀg‖²; ‖Pĝ‖ = ‖ĝ‖ as 4 divides 16.
    """
    of = Lifting(Subspace(Tape(5), d=16, m=4), np.zeros(16))
    g = np.arange(1.0, 17.0)
    inside = [Fraction(0)] * 4
    for c in range(16):
        inside[of.space.column[c]] += Fraction(int(of.space.signs[c]), 2) * int(g[c])
    found, squares, count = [Fraction(0)] * 4, Fraction(0), 0
    for index, signs in product(combinations(range(4), 2), product((1, -1), repeat=2)):
        u = Direction(np.array(index), 4, np.array(signs, np.int8))
        asked = of.query(Query(np.zeros((1, 4)), (u,), 0.5))
        slope = asked.slope(*both_sides(asked, lambda x: x @ g))
        step = u.lift(estimate(u, slope)[0])
        moved = of.lift(step[None])[0]
        assert (moved * moved).sum() == (step * step).sum()
        found = [total + Fraction(entry) for total, entry in zip(found, step.tolist(), strict=True)]
        squares, count = squares + Fraction(float((step * step).sum())), count + 1
    assert [total / count for total in found] == inside
    assert squares / count == 4 * sum(entry * entry for entry in inside)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SIZES),
    st.sampled_from(TYPES),
    st.lists(st.tuples(st.integers(0, 99), st.booleans(), st.booleans()), min_size=1, max_size=6),
)
def test_x_beside_z_is_always_that_of_z_alone(sizes, dtype, steps):
    d, m = sizes
    of = lifting(d, m, ["a", "b"])
    state, plain = of.start(3, dtype, beside=True), of.start(3, dtype, beside=False)
    rng, tape = np.random.default_rng(0), Tape.stack(["u", "v"])
    for t, by_node, probe in steps:
        ids = (t, np.arange(3)) if by_node else (t,)
        u = draw_direction(tape[:, None], *ids, d=m, q=1 + t % m)
        values = rng.normal(size=(2, 3, u.q)).astype(dtype)
        if probe:
            loan = lend(state, u)
            loan.put(values)
            loan.put_back()
        else:
            state.put(u, values)
            u.put(plain, values, out=plain)
        assert (np.asarray(state) == plain).all()
        assert (state.x == of.lift(plain)).all()
        assert (state.restrict(u) == u.restrict(plain)).all()
    fresh = of.start(3, dtype, beside=True).load(np.asarray(state))
    assert (fresh.x == state.x).all()
    assert (zeros_like(state) == 0).all()
    assert zeros_like(state).shape == state.shape == (2, 3, m)


def test_a_zero_start_of_either_sign_is_the_same_after_a_restart():
    of = Lifting(Subspace(Tape(0), d=4, m=2), np.array([-0.0, 0.0, -0.0, 1.0]))
    state = of.start(1, float, beside=True)
    again = of.start(1, float, beside=True).load(np.asarray(state))
    assert state.x.tobytes() == again.x.tobytes()


def test_a_step_writes_only_the_coordinates_of_its_support():
    d, m, q = 1000, 50, 2
    of = lifting(d, m)
    state = of.start(3, float, beside=True)
    before = state.x.copy()
    state.put(Support(np.array([[3, 30]]), m), np.ones((3, q)))
    assert (state.x != before).sum() == 3 * q * d // m
    assert of.spread(Support(np.array([[4, 8]]), m)).at.q == q * d // m


def test_a_draw_is_spread_once():
    of = lifting(12, 4)
    u = draw_direction(Tape(0), 0, d=4, q=2)
    assert of.spread(u) is of.spread(u.with_entries(-u.entries))
    assert of.direction(u, np.dtype(float)) is of.direction(u, np.dtype(float))
    keyed = u.keyed((1, 2))
    assert of.direction(keyed, np.dtype(float)).key == (1, 2)


@sized
def test_distances_are_those_of_x(d, m):
    """Rounding apart: sums of d and of m squares, each term good to a few units in the last place."""
    of, z = lifting(d, m, ["a", "b"]), np.random.default_rng(2).normal(size=(2, 5, m))
    x, centre = of.lift(z), z.mean(axis=-2)
    by_hand = ((x - of.lift_one(centre)[:, None]) ** 2).sum(axis=-1).mean(axis=-1)
    assert np.allclose(of.apart(z, centre), by_hand, rtol=1e-11)
    if d % m == 0:
        plain = ((z - centre[:, None]) ** 2).sum(axis=-1).mean(axis=-1)
        assert (of.apart(z, centre) == plain).all()


def test_nodes_must_share_the_origin():
    assert lifting_of(np.ones((3, 6)), 2, 0).lift(np.zeros((3, 2))).tolist() == np.ones((3, 6)).tolist()
    with pytest.raises(InputError, match="nodes of a subspace share its origin; give one x0"):
        lifting_of(np.arange(12.0).reshape(2, 6), 2, 0)


def test_x_in_rows_of_a_tensor_is_x_in_an_array():
    torch = pytest.importorskip("torch")
    from zocosmo.torch.rows import Rows

    of = Lifting(Subspace(Tape.stack([1, 2]), d=13, m=5), start(13))
    z = np.zeros((2, 3, 5), np.float32)
    rows = LiftedState(of, z.copy(), Rows(np.zeros((2, 3, 13), np.float32), torch.device("cpu")))
    array = LiftedState(of, z.copy(), z)
    for t in range(5):
        u = draw_direction(Tape.stack([1, 2])[:, None], t, np.arange(3), d=5, q=2)
        values = np.random.default_rng(t).normal(size=(2, 3, 2)).astype(np.float32)
        assert (np.asarray(rows.put(u, values).x) == array.put(u, values).x).all()
    assert (np.asarray(rows.load(z).x) == array.load(z).x).all()
