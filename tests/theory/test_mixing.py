"""One round of pure mixing: every formula against all supports and matchings, in rationals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.graphs import GRAPHS, SCHEDULES
from zocosmo.graphs import expected_laplacian as our_laplacian
from zocosmo.graphs import metropolis as our_metropolis
from zocosmo.graphs import rho as our_rho
from zocosmo.theory import mixing
from zocosmo.theory.law import Law, complete_law, fixed_law, isotropic, ring_law
from zocosmo.theory.numbers import exact, share

HALF = Fraction(1, 2)
LISTED = [([(0, 1), (2, 3)], Fraction(1, 3)), ([(1, 2), (0, 3)], Fraction(1, 6)), ([(0, 2)], HALF)]
SQUARE = Law.of(4, LISTED)
STATES = np.array([[1, 0, 5], [3, -2, 0], [0, 7, 1], [2, 2, -4]])


def perfect_matchings(nodes):
    """All of them, as lists of pairs."""
    if not nodes:
        yield []
        return
    first, *rest = nodes
    for k, other in enumerate(rest):
        for more in perfect_matchings(rest[:k] + rest[k + 1 :]):
            yield [(first, other), *more]


def uniform(n):
    found = list(perfect_matchings(list(range(n))))
    return [(pairs, Fraction(1, len(found))) for pairs in found]


def support_draws(pairs, d, q, common):
    """A support for each pair, all equally likely draws."""
    subsets = list(itertools.combinations(range(d), q))
    if common:
        return [dict.fromkeys(map(tuple, pairs), S) for S in subsets]
    return [dict(zip(pairs, each, strict=True)) for each in itertools.product(subsets, repeat=len(pairs))]


def by_coordinate(n, d, labelled):
    """The law of the pairs that average each coordinate, from draws of a support for each pair."""
    return [
        Law.of(n, [([e for e, S in supports.items() if k in S], chance) for supports, chance in labelled])
        for k in range(d)
    ]


def per_scalar(n, d, labelled):
    return mixing.mixing_per_scalar(by_coordinate(n, d, labelled))


def labelled(law, d, q, common):
    """The law of matchings with uniform supports, draw by draw."""
    out = []
    for pairs, chance in law:
        draws = support_draws(pairs, d, q, common)
        out += [(draw, Fraction(chance) / len(draws)) for draw in draws]
    return out


def mixed(Y, supports):
    """x_i⁺ = x_j⁺ = (y_i + y_j)/2 on S_e, literally."""
    X = exact("states", Y).copy()
    for (i, j), S in supports.items():
        for k in S:
            X[i, k] = X[j, k] = (X[i, k] + X[j, k]) / 2
    return X


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_expected_energy_equals_the_mean_over_all_supports_and_matchings(q, common):
    mean = sum(chance * mixing.energy(mixed(STATES, S)) for S, chance in labelled(LISTED, 3, q, common))
    assert mixing.energy_after(STATES, SQUARE, q=q) == mean


def test_the_energy_drop_of_one_matching_is_half_p_times_squared_differences():
    """(q/2d) Σ ‖y_i − y_j‖² = (2/6) · ((4 + 4 + 25) + (4 + 25 + 25))"""
    drop = mixing.energy(STATES) - mixing.energy_after(STATES, fixed_law(4, [(0, 1), (2, 3)]), q=2)
    assert drop == Fraction(2, 6) * (33 + 54)


@given(st.lists(st.integers(-50, 50), min_size=12, max_size=12), st.integers(1, 3))
def test_no_state_keeps_more_than_the_spectral_bound(entries, q):
    Y = np.array(entries).reshape(4, 3)
    most = (1 - q * SQUARE.lambda2 / 6) * mixing.energy(Y)
    assert mixing.energy_after(Y, SQUARE, q=q) <= most + 1e-9


def test_the_spectral_bound_is_attained_by_the_slowest_eigenvector():
    L = SQUARE.laplacian.astype(float)
    Y = np.linalg.eigh(L)[1][:, [1]] * np.array([[1.0, 2.0, -1.0]])
    most = (1 - 2 * SQUARE.lambda2 / 6) * mixing.energy(Y)
    assert mixing.energy_after(Y, SQUARE, q=2) == pytest.approx(most, rel=1e-13)


@pytest.mark.parametrize(
    ("graph", "schedule", "law"),
    [
        ("ring", "iid", [([(0, 1), (2, 3), (4, 5)], HALF), ([(1, 2), (3, 4), (0, 5)], HALF)]),
        ("complete", "complete", uniform(6)),
    ],
)
def test_the_expected_laplacian_is_that_of_our_schedules(graph, schedule, law):
    ours = our_laplacian(SCHEDULES[schedule](GRAPHS[graph](6)))
    assert (Law.of(6, law).laplacian.astype(float) == pytest.approx(ours)) is True


def test_maximal_matchings_of_a_star_have_the_edge_law_of_our_schedule():
    law = Law.of(5, [([(0, i)], Fraction(1, 4)) for i in range(1, 5)])
    assert list(law.edges.values()) == SCHEDULES["maximal"](GRAPHS["star"](5)).edge_law()


@pytest.mark.parametrize("common", [True, False])
def test_labelled_laplacians_of_uniform_supports_are_p_times_the_expected_one(common):
    d, q = 3, 2
    for law in by_coordinate(4, d, labelled(LISTED, d, q, common)):
        assert (Fraction(q, d) * SQUARE.laplacian == law.laplacian).all()


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize(("n", "d", "q"), [(4, 3, 2), (2, 4, 1), (4, 2, 2)])
def test_uniform_perfect_matchings_attain_the_bound_exactly(n, d, q, common):
    found = per_scalar(n, d, labelled(uniform(n), d, q, common))
    assert found.attained
    assert (
        found.gamma == found.bound == Fraction(q * n, 2 * d * (n - 1)) == Fraction(n * q, d) / (2 * (n - 1))
    )
    assert found.C_dir == n * q


def test_a_law_that_favours_a_coordinate_misses_the_bound_there():
    """Coordinate 1 is sent half as often as 0, so it is where mixing is slowest."""
    law = [(S, c) for pairs, c in uniform(4) for S, c in [(dict.fromkeys(pairs, (0, 1)), c / 2)]]
    law += [(dict.fromkeys(pairs, (0,)), c / 2) for pairs, c in uniform(4)]
    found = per_scalar(4, 2, law)
    assert (found.coordinate, found.attained) == (1, False)
    assert found.gamma == Fraction(1, 3) < found.bound == HALF


def test_a_ring_misses_the_bound_because_it_is_not_isotropic():
    law = [([(0, 1), (2, 3)], HALF), ([(1, 2), (0, 3)], HALF)]
    found = per_scalar(4, 2, labelled(law, 2, 1, True))
    assert not found.attained
    assert found.gamma < found.bound


def laws_of_supports(draw):
    weights = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    matchings = [
        draw(st.sampled_from([[(0, 1), (2, 3)], [(1, 2)], [(0, 3), (1, 2)], [(0, 2), (1, 3)]]))
        for _ in weights
    ]
    subset = st.sets(st.integers(0, 2), max_size=3)
    return [
        ({e: tuple(draw(subset)) for e in pairs}, Fraction(w, sum(weights)))
        for w, pairs in zip(weights, matchings, strict=True)
    ]


@given(st.composite(laws_of_supports)())
def test_no_law_of_matchings_and_supports_beats_the_bound(law):
    found = per_scalar(4, 3, law)
    assert found.gamma <= found.bound + 1e-12
    assert found.attained == (abs(found.gamma - found.bound) < 1e-12)


@given(st.composite(laws_of_supports)())
def test_traces_of_labelled_laplacians_add_up_to_the_values_sent(law):
    """[eq:labeled_laplacian_trace_budget]"""
    laws = by_coordinate(4, 3, law)
    sent = 2 * sum(chance * sum(map(len, supports.values())) for supports, chance in law)
    assert sum(np.trace(each.laplacian) for each in laws) == mixing.mixing_per_scalar(laws).C_dir == sent


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_closed_forms_of_complete_graphs_equal_their_laplacians(n):
    listed = Law.of(n, uniform(n) if n % 2 == 0 else idle_one(n))
    law = complete_law(n)
    assert law.lambda2 == isotropic(law.laplacian) == listed.lambda2
    assert (law.laplacian == listed.laplacian).all()
    assert (law.is_perfect, law.pairs) == (listed.is_perfect, listed.pairs)


@pytest.mark.parametrize("n", [3, 4])
def test_the_energy_on_complete_graphs_needs_no_list(n):
    listed = Law.of(n, uniform(n) if n % 2 == 0 else idle_one(n))
    Y = STATES[:n]
    assert mixing.energy_after(Y, complete_law(n), q=2) == mixing.energy_after(Y, listed, q=2)


def idle_one(n):
    laws = [perfect_matchings([i for i in range(n) if i != idle]) for idle in range(n)]
    found = [pairs for each in laws for pairs in each]
    return [(pairs, Fraction(1, len(found))) for pairs in found]


@pytest.mark.parametrize("n", [4, 6, 8, 30])
def test_closed_forms_of_even_rings_equal_their_laplacians(n):
    phases = [[(i, i + 1) for i in range(0, n, 2)], [(i, (i + 1) % n) for i in range(1, n, 2)]]
    assert ring_law(n) == Law.of(n, [(pairs, HALF) for pairs in phases])
    assert ring_law(n).lambda2 == pytest.approx(1 - math.cos(2 * math.pi / n), rel=1e-12)


@pytest.mark.parametrize("kind", ["ring", "path", "star", "complete", "grid"])
def test_metropolis_weights_are_ours_to_rounding_and_sum_to_one_exactly(kind):
    graph = GRAPHS[kind](6)
    W = mixing.metropolis_weights(6, graph.edges)
    assert all(row.sum() == 1 for row in W)
    assert np.abs(W.astype(float) - our_metropolis(graph).matrix()).max() < 1e-15
    assert mixing.rho(W) == pytest.approx(our_rho(our_metropolis(graph)), rel=1e-12)


@pytest.mark.parametrize("q", [1, 2])
def test_masked_energy_equals_the_mean_over_all_supports(q):
    W, Y = mixing.metropolis_weights(4, GRAPHS["path"](4).edges), exact("states", STATES)
    total = Fraction(0)
    for S in itertools.combinations(range(3), q):
        X = Y.copy()
        X[:, S] = (W @ Y)[:, S]
        total += mixing.energy(X)
    assert mixing.masked_energy(STATES, W, q=q) == total / math.comb(3, q)


@pytest.mark.parametrize("kind", ["ring", "path", "grid"])
def test_the_witness_contracts_by_exactly_the_masked_factor(kind):
    """Rounding of an eigenvector of a 6 × 6 matrix: some units in the last place."""
    W = mixing.metropolis_weights(6, GRAPHS[kind](6).edges)
    Y = mixing.masked_witness(W, [1.0, -2.0, 3.0])
    kept = mixing.masked_energy(Y, W, q=1) / mixing.energy(Y)
    assert kept == pytest.approx(mixing.masked_factor(mixing.rho(W), q=1, d=3), rel=1e-13)
    assert np.abs(Y.sum(axis=0)).max() < 1e-13


@given(st.lists(st.integers(-9, 9), min_size=12, max_size=12), st.integers(1, 3))
def test_no_state_keeps_more_than_the_masked_factor(entries, q):
    Y, W = np.array(entries).reshape(4, 3), mixing.metropolis_weights(4, GRAPHS["ring"](4).edges)
    most = mixing.masked_factor(mixing.rho(W), q=q, d=3) * mixing.energy(Y)
    assert mixing.masked_energy(Y, W, q=q) <= most + 1e-9


def half_range(target, weights, supports, k, R):
    """Half the width of what coordinate k can be, given what is received: the best any decoder can do."""
    unknown = [w for j, w in weights.items() if k not in supports[j]]
    outcomes = {
        sum(w * y for w, y in zip(unknown, ys, strict=True))
        for ys in itertools.product((-R, 0, R), repeat=len(unknown))
    }
    return Fraction(max(outcomes) - min(outcomes), 2)


@given(
    st.sets(st.integers(0, 3), min_size=1),
    st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_the_one_hop_error_is_half_the_range_of_what_a_message_leaves_open(target, sent, R):
    weights = {j: Fraction(j + 1, 10) for j in range(len(sent))}
    found = mixing.one_hop(target, dict(enumerate(sent)), weights, R=R)
    open_width = {k: half_range(target, weights, sent, k, R) for k in sorted(target)}
    assert found.error == {k: width for k, width in open_width.items() if width}
    assert found.exact == all(target <= S for S in sent)


def test_a_peer_of_weight_zero_may_stay_silent():
    assert mixing.one_hop({0, 1}, {}, {7: 0}).exact


def test_one_missing_coordinate_costs_the_weight_times_the_radius():
    found = mixing.one_hop({2, 4}, {1: {2, 4}, 3: {2, 5}}, {1: HALF, 3: Fraction(1, 4)}, R=8)
    assert (found.missing, found.error) == ({3: (4,)}, {4: 2})


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ([([(0, 1), (1, 2)], 1)], "node 1 is in two"),
        ([([(0, 9)], 1)], "nodes are 0 … 3"),
        ([([(0, 1)], HALF)], "sum to 1, got 1/2"),
        ([([(0, 1)], 1.0)], "int or a Fraction"),
        ([([(0, 1)], 2), ([(2, 3)], -1)], "above 0, got -1"),
        ([([(0, 1)], 1), ([(1, 2)], 0)], "above 0, got 0"),
    ],
)
def test_what_is_no_law_of_matchings_is_refused(law, words):
    with pytest.raises(ValueError, match=words):
        Law.of(4, law)


@pytest.mark.parametrize(
    "call",
    [
        lambda: share(3, 4),
        lambda: mixing.energy([1, 2]),
        lambda: complete_law(1),
        lambda: mixing.one_hop({0}, {}, {1: -1}),
    ],
)
def test_impossible_sizes_are_refused(call):
    with pytest.raises(ValueError, match=r"got|must"):
        call()


def test_rationals_stay_rational_and_floats_stay_floats():
    assert isinstance(mixing.energy_after(STATES, SQUARE, q=1), Fraction)
    assert isinstance(mixing.energy_after(STATES.astype(float), SQUARE, q=1), float)
