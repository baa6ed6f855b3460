import hashlib
import itertools
import random
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import reference
from zocosmo.core import (
    Direction,
    Support,
    Tape,
    balanced_support,
    draw_direction,
    draw_signs,
    draw_support,
)
from zocosmo.errors import InputError

LORA, FULL = 2_523_136, 6_525_621_760
ALPHA = 1e-6  # level of every χ² test here; the draws are fixed, so a pass stays a pass


@pytest.mark.parametrize(
    ("d", "q", "ids", "expected"),
    [
        (20, 1, (0,), [2]),
        (20, 4, (7,), [3, 9, 15, 17]),
        (32, 4, (3, 1, 2), [9, 20, 27, 31]),
        (10, 8, (1,), [0, 1, 3, 4, 5, 6, 8, 9]),
        (
            FULL,
            8,
            (0,),
            [189764066, 204896080, 1450799706, 1595689009, 2299369932, 3191308922, 4042914422, 5487068658],
        ),
    ],
)
def test_supports_are_those_of_the_protocol(d, q, ids, expected):
    assert draw_support(Tape(0), *ids, d=d, q=q).index.tolist() == expected


def test_the_lora_support_is_that_of_the_protocol():
    index = draw_support(Tape(0), 42, d=LORA, q=8192).index
    digest = hashlib.blake2b(index.astype("<u8").tobytes(), digest_size=16).hexdigest()
    assert digest == "cf6f4b7c5e36ccdd570d94b2716978cc"
    assert [*index[:4], *index[-2:]] == [296, 315, 489, 529, 2522746, 2522874]


def random_cases(count):
    """(seed, d, q, ids): d log-uniform from 1 to 2^40, q up to 300, often near d/2 or d."""
    rng = random.Random(20261115)
    for _ in range(count):
        d = min(int(2 ** rng.uniform(0, 40.01)), 2**40)
        q = (
            rng.choice([1, d, max(1, d // 2), d // 2 + 1, rng.randint(1, d)])
            if d < 300
            else rng.randint(1, 300)
        )
        seed = rng.choice([rng.randrange(10**6), f"seed {rng.random()}", rng.randbytes(32)])
        yield seed, d, min(q, d), tuple(rng.randrange(2**64) for _ in range(rng.randint(1, 3)))


def test_ten_thousand_supports_equal_the_plain_implementation():
    for seed, d, q, ids in random_cases(10_000):
        u = draw_direction(Tape(seed), *ids, d=d, q=q)
        assert u.index.tolist() == reference.support(seed, d, q, ids)
        assert u.signs.tolist() == reference.signs(seed, q, ids)


@pytest.mark.parametrize("d", [2**63, 2**63 - 1, 2**62 + 2**61 + 1, 2**34, 2**34 + 1, 2**32, 2**32 + 1])
def test_edges_of_the_arithmetic_equal_the_plain_implementation(d):
    """Rejection is likeliest at d just above a power of two's third; 2^32 and 2^34 change the sort."""
    for t in range(200):
        assert draw_support(Tape(1), t, d=d, q=5).index.tolist() == reference.support(1, d, 5, (t,))


@pytest.mark.parametrize(
    ("d", "q"), [(1, 1), (2, 1), (20, 1), (32, 4), (33, 17), (50, 25), (2**63, 3), (10**6, 700)]
)
def test_a_batch_equals_its_draws_one_by_one(d, q):
    tapes, t = Tape.stack([3, 4]), np.arange(60)
    batch = draw_support(tapes[:, None], t, d=d, q=q).index
    assert batch.shape == (2, 60, q)
    for s, k in np.ndindex(2, 60):
        assert (batch[s, k] == draw_support(tapes[s], k, d=d, q=q).index).all()


def test_a_batch_larger_than_a_block_equals_its_parts():
    whole = draw_support(Tape(0), np.arange(6000), d=10**6, q=500).index
    assert (whole[5990:] == draw_support(Tape(0), np.arange(5990, 6000), d=10**6, q=500).index).all()


@pytest.mark.parametrize("q", [3, 15, 20])
def test_an_empty_batch_is_empty(q):
    assert draw_support(Tape(0), np.arange(0), d=20, q=q).index.shape == (0, q)


def test_numpy_numbers_are_numbers():
    ours = draw_support(Tape(0), np.int32(0), d=np.int64(FULL), q=np.int16(8))
    assert (ours.index == draw_support(Tape(0), 0, d=FULL, q=8).index).all()


@pytest.mark.parametrize(("d", "q"), [(6, 2), (6, 4), (7, 3), (5, 1), (5, 5)])
def test_supports_are_uniform(d, q):
    """χ² over all C(d, q) subsets, 60,000 draws: the statistic stays below its (1 − 1e-6) quantile."""
    draws = draw_support(Tape("uniform"), np.arange(60_000), d=d, q=q).index
    _, counts = np.unique(draws, axis=0, return_counts=True)
    assert len(counts) == comb(d, q)
    expected = 60_000 / comb(d, q)
    assert ((counts - expected) ** 2 / expected).sum() <= chi2.isf(ALPHA, max(1, len(counts) - 1))


def test_signs_are_uniform_and_independent():
    """χ² over the 2^8 patterns of eight signs."""
    signs = draw_signs(Tape("signs"), np.arange(100_000), q=8)
    counts = np.bincount((signs > 0) @ (1 << np.arange(8)), minlength=256)
    assert ((counts - 390.625) ** 2 / 390.625).sum() < chi2.isf(ALPHA, 255)


@pytest.mark.parametrize(("d", "q"), [(1, 1), (3, 2), (4, 2), (5, 3), (4, 4)])
def test_second_moment_of_a_direction_by_full_enumeration(d, q):
    """E[uuᵀ] = (q/d) I: every support and sign pattern, in integers   [eq:uut]"""
    total, count = np.zeros((d, d), int), 0
    for coordinates in itertools.combinations(range(d), q):
        for signs in itertools.product([-1, 1], repeat=q):
            u = Direction(np.array(coordinates), d, np.array(signs)).shift(np.zeros(d, int), 1)
            total, count = total + np.outer(u, u), count + 1
    assert [[Fraction(int(entry), count) for entry in row] for row in total] == [
        [Fraction(q, d) * (i == j) for j in range(d)] for i in range(d)
    ]


@given(st.integers(1, 40), st.data())
def test_restrict_and_lift_are_the_papers_operators(d, data):
    """Res Lift = I, Lift Res = P, and put = (I − P) x + Lift v   [eq:public_support_lift]"""
    q = data.draw(st.integers(1, d))
    support = draw_support(Tape(d), q, d=d, q=q)
    x, v = np.arange(d) + 1.0, np.arange(q) - 7.0
    P = np.diag(np.isin(np.arange(d), support.index).astype(float))
    assert (support.restrict(support.lift(v)) == v).all()
    assert (support.lift(support.restrict(x)) == P @ x).all()
    assert (support.put(x, v) == (np.eye(d) - P) @ x + support.lift(v)).all()


def test_leading_axes_are_a_batch_of_the_same_operators():
    """(runs, 1, q) supports against (runs, nodes, d) states, and (runs, nodes, q) against the same."""
    x = np.arange(2 * 3 * 9.0).reshape(2, 3, 9)
    for ids in (np.arange(2)[:, None], np.arange(6).reshape(2, 3)):
        batch = draw_support(Tape(5), ids, d=9, q=4)
        got, put = batch.restrict(x), batch.put(x, -np.ones(4))
        for run, node in np.ndindex(2, 3):
            one = Support(np.broadcast_to(batch.index, (2, 3, 4))[run, node], 9)
            assert (got[run, node] == one.restrict(x[run, node])).all()
            assert (put[run, node] == one.put(x[run, node], -np.ones(4))).all()


def test_put_writes_in_place_when_asked_and_only_then():
    support, x = draw_support(Tape(0), 7, d=20, q=4), np.zeros(20)
    assert support.put(x, np.ones(4)).sum() == 4
    assert x.sum() == 0
    assert support.put(x, np.ones(4), out=x) is x
    assert x.sum() == 4


def test_shift_moves_the_support_by_its_signs():
    u = draw_direction(Tape(0), 3, 1, 2, d=32, q=4)
    moved = u.shift(np.zeros(32), 0.5)
    assert (u.restrict(moved) == 0.5 * u.signs).all()
    assert np.count_nonzero(moved) == 4


def test_a_full_model_support_takes_little_memory():
    """O(q), not O(d): a set of 6.5e9 coordinates would not fit in any test."""
    tracemalloc.start()
    draw_support(Tape(0), 1, d=FULL, q=8192)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6


@pytest.mark.parametrize(("d", "q"), [(20, 0), (20, -1), (20, 21), (0, 1), (2**63 + 1, 1)])
def test_impossible_sizes_are_refused(d, q):
    with pytest.raises(InputError, match=r"[dq] = -?\d+"):
        draw_support(Tape(0), 0, d=d, q=q)


@pytest.mark.parametrize(("d", "q"), [(20.0, 1), ("20", 1), (20, None), (True, 1)])
def test_sizes_that_are_no_numbers_are_refused(d, q):
    with pytest.raises(InputError, match=r"[dq] must be"):
        draw_support(Tape(0), 0, d=d, q=q)


@pytest.mark.parametrize("index", [[-1, 2], [2, 2], [3, 1], [1, 4], [[0, 1], [2, 2]], [0.5, 1], [], 3])
def test_what_is_no_support_is_refused(index):
    with pytest.raises(InputError, match=r"support must be|must ascend"):
        Support(np.array(index), 4)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: s.restrict(np.arange(30.0)),
        lambda s: s.put(np.arange(30.0), np.ones(4)),
        lambda s: s.put(np.arange(20.0), np.ones(1)),
        lambda s: s.put(np.arange(20.0), np.array(1.0)),
        lambda s: s.put(np.arange(1.0), np.ones(4)),
        lambda s: s.put(np.arange(20), np.full(4, 0.7)),
        lambda s: s.lift(np.ones(3)),
    ],
)
def test_values_and_states_that_do_not_fit_are_refused(wrong):
    with pytest.raises(InputError, match=r"last axis|do not fit"):
        wrong(draw_support(Tape(0), 7, d=20, q=4))


def test_shifting_whole_numbers_by_a_fraction_is_refused():
    with pytest.raises(InputError, match="float64 values do not fit a state of int64"):
        draw_direction(Tape(0), 7, d=20, q=4).shift(np.zeros(20, np.int64), 0.5)


def test_put_into_another_array_copies_the_rest():
    support, x, other = draw_support(Tape(0), 7, d=20, q=4), np.arange(20.0), np.zeros(20)
    support.put(x, np.zeros(4), out=other)
    assert (other == support.put(x, np.zeros(4))).all()


def test_shift_in_place_touches_q_entries_and_keeps_the_dtype():
    u, x = draw_direction(Tape(0), 7, d=20, q=4), np.zeros(20, np.float32)
    assert u.shift(x, 0.5, out=x) is x
    assert np.count_nonzero(x) == 4
    assert u.shift(x, -0.5).dtype == np.float32


def test_a_direction_takes_any_rule():
    u = draw_direction(Tape(0), 3, d=10, q=3, rule=balanced_support)
    assert (u.index.tolist(), u.signs.shape) == ([6], (1,))


def test_directions_on_one_support_share_its_index_and_places():
    u = draw_direction(Tape(0), np.arange(3), d=20, q=4)
    x = np.arange(60.0).reshape(3, 20)
    values = u.restrict(x)
    v = u.with_entries(-u.signs)
    assert v.index is u.index
    assert v.places(x) is u.places(x) is u.pick(lambda rows: rows).places(x)
    assert np.array_equal(v.restrict(x), values)
    assert np.array_equal(v.shift(x, 1.0), u.shift(x, -1.0))


def test_places_follow_the_index_and_the_shape_of_the_state():
    u = draw_direction(Tape(0), np.arange(3), d=20, q=4)
    x = np.arange(60.0).reshape(3, 20)
    y = np.arange(120.0).reshape(2, 3, 20)
    other = replace(u, index=u.index[::-1].copy())
    for v, state in ((u, x), (u, y), (other, x), (u.pick(lambda rows: rows[1:]), x[1:])):
        rows = np.broadcast_to(v.index, (*state.shape[:-1], 4))
        assert np.array_equal(v.restrict(state), np.take_along_axis(state, rows, axis=-1))


@pytest.mark.parametrize("step", [1, 2], ids=["contiguous", "strided"])
@pytest.mark.parametrize("lead", [(), (1,), (1, 1), (2,)])
def test_every_shape_of_a_state_is_read_and_written_alike(lead, step):
    """One node, as in a process, or several: the same entries as by hand."""
    support, x = Support(np.array([1, 4, 6]), 8), np.arange(8.0 * 4 * step).reshape(-1, 8)[::step]
    x = x[0] if lead == () else x[: lead[0]].reshape(*lead, 8)
    values = -1.0 - np.arange(3.0 * np.prod(lead, dtype=int)).reshape(*lead, 3)
    expected = x.copy()
    expected[..., [1, 4, 6]] = values
    assert support.restrict(x).tolist() == x[..., [1, 4, 6]].tolist()
    assert support.put(x, values).tolist() == expected.tolist()
    assert support.put(x, values, out=x) is x
    assert x.tolist() == expected.tolist()
