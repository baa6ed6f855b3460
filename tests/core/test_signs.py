"""Several sign vectors on one support: their coins, their law by full enumeration, and what is refused."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import reference
from literal import some_of, sylvester
from zocosmo.core import Direction, Tape, draw_signs
from zocosmo.core.coupling import COUPLINGS
from zocosmo.core.signs import draw_sign_vectors, hadamard, most_directions, order
from zocosmo.errors import InputError
from zocosmo.oracle import along, estimate_all

IDS = {"round": (3,), "node": (3, 2), "edge": (3, 1, 2)}


@pytest.mark.parametrize("q", [1, 2, 3, 4, 7, 16, 33])
def test_rows_are_those_of_the_sylvester_matrix(q):
    assert hadamard(np.arange(order(q)), q).tolist() == [row[:q] for row in sylvester(q)]


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("signs", ["independent", "orthogonal"])
def test_the_first_vector_is_the_one_a_single_direction_has(ids, signs):
    drawn = draw_sign_vectors(Tape(5), *ids, q=12, directions=4, signs=signs)
    assert_array_equal(drawn[0], draw_signs(Tape(5), *ids, q=12))


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("q", [1, 5, 8, 12])
def test_independent_vectors_follow_each_other_in_the_stream_of_the_first(ids, q):
    drawn = draw_sign_vectors(Tape(5), *ids, q=q, directions=4, signs="independent")
    assert drawn.reshape(-1).tolist() == reference.signs(5, 4 * q, ids)
    fewer = draw_sign_vectors(Tape(5), *ids, q=q, directions=3, signs="independent")
    assert_array_equal(drawn[:3], fewer)


@given(st.integers(1, 40), st.integers(0, 50), st.data())
def test_orthogonal_vectors_are_the_first_times_rows_of_the_tape(q, seed, data):
    count = data.draw(st.integers(1, order(q)))
    drawn = draw_sign_vectors(Tape(seed), 3, 1, 2, q=q, directions=count, signs="orthogonal")
    rows = some_of(Tape(seed).coins("rows", 3, 1, 2), order(q) - 1, count - 1) if count > 1 else []
    matrix = sylvester(q)
    expected = [drawn[0], *(drawn[0] * np.array(matrix[r + 1][:q]) for r in rows)]
    assert_array_equal(drawn, np.stack(expected))
    assert len(np.unique(drawn[:, : order(q)], axis=0)) == count or q < order(q)


@pytest.mark.parametrize("signs", ["independent", "orthogonal"])
def test_many_streams_at_once_are_each_alone(signs):
    tape, t, node = Tape.stack([1, 2])[:, None, None], np.arange(5)[:, None], np.arange(3)
    many = draw_sign_vectors(tape, t, node, q=6, directions=5, signs=signs)
    assert many.shape == (2, 5, 3, 5, 6)
    for s, r, i in itertools.product(range(2), range(5), range(3)):
        alone = draw_sign_vectors(Tape(s + 1), r, i, q=6, directions=5, signs=signs)
        assert_array_equal(many[s, r, i], alone)


def test_all_rows_are_taken_when_there_are_as_many_directions():
    drawn = draw_sign_vectors(Tape(0), 1, q=8, directions=8, signs="orthogonal").astype(int)
    assert (drawn @ drawn.T == 8 * np.eye(8)).all()


def test_each_row_comes_equally_often():
    """3 of 7 rows in 7,000 rounds: each comes 3,000 times ± 41 (one σ); five σ decide."""
    drawn = draw_sign_vectors(Tape(1), np.arange(7000), q=8, directions=4, signs="orthogonal")
    rows = drawn[:, 1:] * drawn[:, :1]
    counts = [(rows == hadamard(np.array(r), 8)).all(axis=-1).sum() for r in range(1, 8)]
    assert np.abs(np.array(counts) - 3000).max() < 5 * (7000 * 3 / 7 * 4 / 7) ** 0.5


@pytest.mark.parametrize("q", [1, 2, 5, 8])
def test_more_orthogonal_directions_than_rows_are_refused(q):
    with pytest.raises(InputError, match=f"directions must be between 1 and {order(q)}, got {order(q) + 1}"):
        draw_sign_vectors(Tape(0), 0, q=q, directions=order(q) + 1, signs="orthogonal")
    assert most_directions("orthogonal", order(q) + 1, q) == order(q)
    assert most_directions("independent", 9, q) == 9


@pytest.mark.parametrize("name", ["G", "S", "I"])
@pytest.mark.parametrize("signs", ["independent", "orthogonal"])
def test_couplings_share_further_vectors_as_they_share_signs(name, signs):
    partners = np.array([1, 0, 3, 2, 4])
    u, more = COUPLINGS[name].several_by_node(
        Tape(0), np.array(7), partners, d=20, q=4, directions=3, signs=signs
    )
    wide = np.broadcast_to(more, (2, 5, 4))
    for i, j in ((0, 1), (2, 3)):
        own = () if name == "G" else (i, j)
        drawn = draw_sign_vectors(Tape(0), 7, *own, q=4, directions=3, signs=signs)
        assert_array_equal(wide[:, i], drawn[1:])
        assert_array_equal(wide[:, j], drawn[1:])
    assert more.shape[-2] == (1 if name == "G" else 5)
    assert_array_equal(u.signs, COUPLINGS[name].by_node(Tape(0), 7, partners, d=20, q=4).signs)


# The law, by full enumeration


def independent(q, count):
    for flat in itertools.product((1, -1), repeat=q * count):
        yield np.array(flat).reshape(count, q)


def orthogonal(q, count):
    """Every first vector with every choice of rows."""
    matrix = hadamard(np.arange(order(q)), q).astype(int)
    for first in itertools.product((1, -1), repeat=q):
        for rows in itertools.combinations(range(1, order(q)), count - 1):
            yield np.array(first) * matrix[[0, *rows]]


LAWS = {"independent": independent, "orthogonal": orthogonal}


def cross(signs, q):
    """E (g·ε_k)(g·ε_l)(ε_k·ε_l) / ‖g‖² for two of the vectors: what orthogonality takes away."""
    if signs == "independent":
        return Fraction(1)
    return Fraction(order(q) - q, order(q) - 1) if order(q) > 1 else Fraction(0)


def total(vectors, slopes):
    """Σ_k s_k ε_k by the engine's own function, on whole numbers."""
    index = np.arange(vectors.shape[-1])
    return along(Direction(index, len(index), vectors[0]), vectors[1:, None], np.array([slopes]))[0]


CASES = [("independent", 2, 1), ("independent", 3, 2), ("independent", 2, 3), ("independent", 4, 2)]
CASES += [("orthogonal", q, k) for q in (1, 2, 3, 4, 5, 6, 8) for k in (1, 2, 3, 4, 8) if k <= order(q)]


@pytest.mark.parametrize(("signs", "q", "count"), CASES)
def test_the_second_moment_of_the_estimate(signs, q, count):
    """E‖ĝ‖² = (d/q) [q + (K − 1) c]/K ‖g‖² on a linear loss: c = 1, or (Q − q)/(Q − 1) for orthogonal signs.

    On one support, and without the factors d/q and 1/K: E‖Σ s_k ε_k‖² = K [q + (K − 1) c] ‖g_S‖².
    """
    g = np.array([3, -1, 4, 1, -5, 9, 2, -6][:q])
    drawn = [total(eps, eps @ g) for eps in LAWS[signs](q, count)]
    moment = Fraction(sum(int(each @ each) for each in drawn), len(drawn))
    assert moment == count * (q + (count - 1) * cross(signs, q)) * int(g @ g)
    assert (np.sum(drawn, axis=0) == len(drawn) * count * g).all()


@pytest.mark.parametrize(("signs", "q", "count"), CASES)
def test_one_side_adds_the_curvature_along_each_direction(signs, q, count):
    """f = gᵀx + ½ xᵀHx: s_k = gᵀε_k + (μ/2) ε_kᵀHε_k. The second term is even in ε_k, so ĝ stays unbiased.

    With a diagonal H it is (μ/2) tr H_S for every k, and E‖Σ s_k ε_k‖² grows by its square times
    K [q + (K − 1) c], c = 0 for independent signs.
    """
    g, h, mu = np.array([3, -1, 4, 1, -5, 9, 2, -6][:q]), np.array([2, 4, 6, 2, 8, 2, 4, 2][:q]), 3

    def loss(x):
        return int(2 * (g @ x) + (h * x) @ x)  # twice f

    drawn = []
    for vectors in LAWS[signs](q, count):
        slopes = [(loss(mu * eps) - loss(0 * eps)) // 2 / mu for eps in vectors]
        drawn.append(total(vectors, np.array(slopes).astype(int)))
        assert all(s == g @ eps + mu * h.sum() // 2 for s, eps in zip(slopes, vectors, strict=True))
    moment = Fraction(sum(int(each @ each) for each in drawn), len(drawn))
    shared = cross(signs, q) if signs == "orthogonal" else 0
    bent = count * (q + (count - 1) * shared) * Fraction(mu * int(h.sum()), 2) ** 2
    assert moment == count * (q + (count - 1) * cross(signs, q)) * int(g @ g) + bent
    assert (np.sum(drawn, axis=0) == len(drawn) * count * g).all()


@pytest.mark.parametrize("q", [1, 2, 4, 8, 16])
def test_as_many_orthogonal_directions_as_coordinates_give_the_gradient(q):
    g = np.random.default_rng(q).integers(-99, 99, q) * 1.0
    vectors = draw_sign_vectors(Tape(q), 0, q=q, directions=q, signs="orthogonal")
    u, more = Direction(np.arange(q), 4 * q, vectors[0]), vectors[1:, None] if q > 1 else None
    assert_array_equal(estimate_all(u, more, (vectors @ g)[None])[0], 4 * g)
