"""The columns of a public subspace: the documented rule, a partition of the coordinates, PᵀP in rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from zocosmo.core import Tape
from zocosmo.core import subspace as module
from zocosmo.core.balanced import permute
from zocosmo.core.subspace import Subspace, check_subspace
from zocosmo.errors import InputError

SIZES = st.integers(2, 3000).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d - 1)))


def plain_columns(seed, d, m):
    """h(c) in plain Python, from the specification."""
    if d <= 1024:
        return [x % m for x in reference.permutation(seed, d, "subspace", ())]
    key16 = reference.Stream(reference.key(seed), "subspace", ()).take(16)
    return [reference.balanced_pi(key16, d, c) % m for c in range(d)]


def plain_signs(seed, d):
    data = reference.Stream(reference.key(seed), "subspace sign", ()).take((d + 7) // 8)
    return [1 if data[c // 8] >> (c % 8) & 1 else -1 for c in range(d)]


@settings(max_examples=25, deadline=None)
@given(SIZES, st.integers(0, 5))
def test_columns_and_signs_are_those_of_the_plain_implementation(sizes, seed):
    d, m = sizes
    space = Subspace(Tape(seed), d=d, m=m)
    assert space.column.tolist() == plain_columns(seed, d, m)
    assert space.signs.tolist() == plain_signs(seed, d)


@given(SIZES)
def test_columns_are_a_partition_in_parts_that_differ_by_one_at_most(sizes):
    d, m = sizes
    space = Subspace(Tape("parts"), d=d, m=m)
    assert np.bincount(space.column, minlength=m).tolist() == space.sizes.tolist()
    assert set(space.sizes.tolist()) <= {d // m, -(-d // m)}
    assert space.members.shape == (m, -(-d // m))
    for j, size in enumerate(space.sizes.tolist()):
        own = np.flatnonzero(space.column == j).tolist()
        assert space.members[j].tolist() == own + [own[-1]] * (space.wide - size)


@pytest.mark.parametrize(("d", "m"), [(6, 3), (12, 4), (12, 1), (8, 7), (7, 3), (30, 9), (1030, 515)])
def test_the_columns_are_orthogonal_and_of_length_one_where_m_divides_d(d, m):
    """With A = P √(d/m), whose entries are signs: AᵀA = diag(sizes), so PᵀP = diag(sizes · m/d)."""
    space = Subspace(Tape(3), d=d, m=m)
    A = np.zeros((d, m), np.int64)
    A[np.arange(d), space.column] = space.signs
    found = (A.T @ A).tolist()
    squares = [[Fraction(entry) * Fraction(m, d) for entry in row] for row in found]
    lengths = [Fraction(size * m, d) for size in space.sizes.tolist()]
    assert squares == [[lengths[j] if i == j else 0 for j in range(m)] for i in range(m)]
    assert (d % m == 0) == (lengths == [1] * m)
    assert space.weights.tolist() == [float(length) for length in lengths]


def test_columns_that_are_drawn_in_blocks_are_those_drawn_at_once(monkeypatch):
    d, m, tape = 5000, 7, Tape("blocks")
    whole = permute(np.arange(d, dtype=np.uint64), tape.coins("subspace").words(2), d) % np.uint64(m)
    monkeypatch.setattr(module, "BLOCK", 999)
    assert (Subspace(tape, d=d, m=m).column == whole).all()


@pytest.mark.parametrize("d", [50, 1300])
def test_a_stack_is_each_alone(d):
    seeds = ["a", "b", "a"]
    drawn = Subspace(Tape.stack(seeds), d=d, m=11)
    joined = Subspace.stack([Subspace(Tape(seed), d=d, m=11) for seed in seeds])
    for k, seed in enumerate(seeds):
        alone = Subspace(Tape(seed), d=d, m=11)
        for space in (drawn, joined):
            assert (space.column[k] == alone.column).all()
            assert (space.signs[k] == alone.signs).all()
            assert (space.members[k] == alone.members).all()
    assert (drawn.column[0] != drawn.column[1]).any()
    assert drawn.lead == joined.lead == (3,)


@pytest.mark.parametrize(("d", "m"), [(4, 4), (4, 5), (4, 0), (4, -1), (1, 1)])
def test_a_size_outside_1_to_d_minus_1_is_refused(d, m):
    with pytest.raises(InputError, match=rf"a subspace of size {m} does not fit d = {d}; .* from 1 to d − 1"):
        Subspace(Tape(0), d=d, m=m)


@pytest.mark.parametrize("m", [2.0, "2", True, None])
def test_a_size_that_is_no_whole_number_is_refused(m):
    with pytest.raises(InputError, match="the size of a subspace must be"):
        check_subspace(4, m)
