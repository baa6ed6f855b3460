"""Best laws of matchings: closed forms, certificates recomputed from scratch, runs that mix as they say."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from zocosmo.graphs import (
    SCHEDULES,
    Listed,
    complete,
    erdos_renyi,
    expected_laplacian,
    grid,
    hypercube,
    laplacian_gap,
    path,
    random_regular,
    ring,
    star,
    torus,
)
from zocosmo.methods import METHODS
from zocosmo.problems.quadratic import quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.law import Law, fixed_law
from zocosmo.theory.schedule import best_schedule, heaviest, mixing_efficiency, round_contraction

NEAR = 1e-8  # relative: what is asked of the certified gap everywhere below; most are under 1e-10

SMALL = [path(4), path(5), star(5), ring(5), ring(6), complete(5), complete(6), grid(6), erdos_renyi(6, 0.5)]
LARGE = [path(8), star(8), grid(16), random_regular(12, 3), random_regular(16, 3)]
LARGE += [pytest.param(random_regular(n, 3), marks=pytest.mark.slow) for n in (14, 18, 20)]
LARGE += [erdos_renyi(10, 0.4, seed=seed) for seed in range(1, 5)]

CLOSED = [(complete(n), n / (n - 1) if n % 2 == 0 else 1.0) for n in range(2, 13)]
CLOSED += [(ring(n), 1 - np.cos(2 * np.pi / n)) for n in (4, 6, 8, 10, 12, 20)]
CLOSED += [(ring(n), (1 - 1 / n) * (1 - np.cos(2 * np.pi / n))) for n in (5, 7, 9, 15)]
CLOSED += [(star(n), 1 / (n - 1)) for n in (4, 8)]
CLOSED += [(hypercube(8), 2 / 3), (hypercube(16), 2 / 4), (torus(9), 4 / 9 * 3 / 2)]


def best(graph, **options):
    return best_schedule(graph.n, graph.edges, **options)


def matchings(edges):
    """Every matching but the empty one, by trying all sets of edges."""
    for size in range(1, len(edges) + 1):
        for some in itertools.combinations(edges, size):
            ends = [node for pair in some for node in pair]
            if len(set(ends)) == len(ends):
                yield some


def laplacian(n, pairs, weights=None):
    L = np.zeros((n, n))
    for (i, j), c in zip(pairs, weights or [1.0] * len(pairs), strict=True):
        v = np.eye(n)[i] - np.eye(n)[j]
        L += float(c) * np.outer(v, v)
    return L


@pytest.mark.parametrize(("graph", "gap"), CLOSED, ids=str)
def test_the_best_gap_is_the_closed_form(graph, gap):
    """All edges look alike and λ₂ is concave, so equal marginals are best. Within 1e-8."""
    assert best(graph).lambda2 == pytest.approx(gap, rel=1e-8)


@pytest.mark.parametrize("n", [4, 6, 8, 10, 12])
def test_on_even_complete_graphs_every_edge_is_active_exactly_as_often(n):
    """L̄ = cΠ in rationals, where the bound on mixing per scalar is met   [eq:mixing_per_bit_converse]"""
    law = best(complete(n))
    assert set(law.edge_marginals) == {Fraction(1, n - 1)}
    assert mixing_efficiency(Fraction(n, n - 1), n=n, pairs=law.pairs) == 1


@pytest.mark.parametrize("graph", SMALL, ids=repr)
def test_no_law_on_all_matchings_beats_the_certificate(graph):
    """X ⪰ 0, X1 = 0, tr X = 1 and every matching weighs at most the bound: by listing all of them."""
    law = best(graph)
    X = law.certificate
    assert np.linalg.eigvalsh(X)[0] > -1e-14
    assert np.abs(X.sum(axis=0)).max() < 1e-13
    assert np.trace(X) == pytest.approx(1, abs=1e-13)
    heaviest = max(np.vdot(X, laplacian(graph.n, pairs)) for pairs in matchings(graph.edges))
    assert law.lambda2 <= heaviest + 1e-13
    assert heaviest <= law.upper_bound + 1e-13
    assert law.gap < NEAR


@pytest.mark.parametrize("graph", [graph for graph in SMALL if len(graph.edges) <= 10], ids=repr)
def test_cutting_planes_over_all_matchings_end_at_the_same_gap(graph):
    """Another method altogether: vᵀL̄v ≥ t for eigenvectors v, added until t is within 1e-7 of λ₂."""
    all_of_them = [laplacian(graph.n, pairs) for pairs in matchings(graph.edges)]
    cuts, top, value = [np.eye(graph.n)[0] - 1 / graph.n], 2.0, 0.0
    while top - value > 1e-7:
        rows = [[*(-(v @ L @ v) for L in all_of_them), v @ v] for v in cuts]
        once = [[*np.ones(len(all_of_them)), 0.0]]
        solved = linprog([*np.zeros(len(all_of_them)), -1], rows, [0] * len(rows), once, [1])
        top, L = solved.x[-1], sum(w * L for w, L in zip(solved.x, all_of_them, strict=False))
        values, vectors = np.linalg.eigh(L)
        value = max(value, values[1])
        cuts += list(vectors.T - vectors.T.mean(axis=1, keepdims=True))
    assert best(graph).lambda2 == pytest.approx(top, abs=1e-7)


@pytest.mark.parametrize("graph", LARGE, ids=repr)
def test_the_best_is_certified_and_no_worse_than_uniform_maximal_matchings(graph):
    law = best(graph)
    if graph.n <= 16:
        assert law.lambda2 >= laplacian_gap(expected_laplacian(SCHEDULES["maximal"](graph))) * (1 - NEAR)
    assert law.lambda2 >= laplacian_gap(expected_laplacian(SCHEDULES["round_robin"](graph))) * (1 - NEAR)
    X = law.certificate
    weights = np.array([X[i, i] - X[i, j] - X[j, i] + X[j, j] for i, j in graph.edges])  # ⟨X, L_e⟩
    assert heaviest(graph.edges, weights)[1] == pytest.approx(law.upper_bound, rel=1e-12)
    assert law.gap < NEAR


@settings(max_examples=15)
@given(n=st.integers(2, 8), seed=st.integers(0, 10**6), total=st.sampled_from([10**4, 2**40]))
def test_a_law_is_of_matchings_and_its_weights_are_whole_parts_of_one(n, seed, total):
    graph = erdos_renyi(n, 0.5, seed=seed)
    law = best(graph, total=total)
    assert sum(weight for _, weight in law.law.listed()) == 1
    assert len(law.law.listed()) <= len(graph.edges) + 1
    schedule = Listed(
        graph, [pairs for pairs, _ in law.law.listed()], law.whole_weights()
    )  # refuses what is no matching
    assert tuple(schedule.edge_law()) == law.edge_marginals
    assert law.law.lambda2 == pytest.approx(law.lambda2, rel=1e-12)


@settings(max_examples=15)
@given(n=st.integers(3, 6), seed=st.integers(0, 10**6), data=st.data())
def test_any_other_law_stays_below_the_bound(n, seed, data):
    graph = erdos_renyi(n, 0.5, seed=seed)
    some = data.draw(st.lists(st.sampled_from(list(matchings(graph.edges))), min_size=1, max_size=6))
    law = Law.of(n, [(pairs, Fraction(1, len(some))) for pairs in some])
    assert law.lambda2 <= best(graph).upper_bound + 1e-12


@pytest.mark.parametrize("graph", [star(5), ring(7), erdos_renyi(10, 0.4, seed=5)], ids=repr)
def test_no_matching_leaves_two_peers_idle(graph):
    for pairs, _ in best(graph).law.listed():
        busy = {node for pair in pairs for node in pair}
        assert all(busy & set(edge) for edge in graph.edges)


@pytest.mark.parametrize("n", range(3, 10))
def test_the_most_that_scalars_buy_on_a_path(n):
    """λ₂ with weights of sum 1 is 12 / (n (n² − 1)) at best: Fiedler's absolute algebraic connectivity."""
    assert best(path(n), per="scalar").value == pytest.approx(12 / (n * (n * n - 1)), rel=1e-8)


@pytest.mark.parametrize("graph", [path(6), grid(9), erdos_renyi(10, 0.4, seed=3)], ids=repr)
def test_the_best_per_scalar_is_worse_per_round_and_no_edge_buys_more(graph):
    law, quick = best(graph, per="scalar"), best(graph)
    assert law.value >= quick.lambda2 / float(quick.pairs) * (1 - NEAR)
    assert law.lambda2 <= quick.upper_bound
    assert (
        max(np.vdot(law.certificate, laplacian(graph.n, [e])) for e in graph.edges) <= law.upper_bound + 1e-13
    )
    assert law.gap < NEAR


def test_the_best_per_scalar_fills_the_round():
    """On a path, marginals can grow no more where two edges at a node fill all of its rounds."""
    law = best(path(6), per="scalar")
    assert max(a + b for a, b in itertools.pairwise(law.edge_marginals)) == pytest.approx(1, abs=1e-9)


def test_contraction_and_efficiency_are_exact_in_rationals():
    """The two sides of the bound: γ⋆ / (C_dir / (2d(N−1))) with C_dir = 2q E|M|."""
    n, q, d, pairs, gap = 6, 3, 20, Fraction(5, 2), Fraction(7, 9)
    bound = 2 * q * pairs / (2 * d * (n - 1))
    assert round_contraction(gap, d=d, q=q) / bound == mixing_efficiency(gap, n=n, pairs=pairs)


def measured(graph, law, Y, rounds, tapes, q):
    """‖ΠX‖² of every tape after each round of the method itself, with steps of size 0."""
    schedule = {"matchings": [pairs for pairs, _ in law.law.listed()], "weights": law.whole_weights()}
    method = METHODS["edge_local"](q=q, eta=0.0, mu=1e-3, coupling="G")
    problem = quadratic(graph.n, 0, d=Y.shape[1])
    run = Simulation([Run(method, graph, problem, seed, schedule) for seed in range(tapes)], wire="f64")
    run.state = run.method.init(np.tile(Y, (tapes, 1, 1)))
    for _ in range(rounds):
        run.round()
        X = run.states()
        yield ((X - X.mean(axis=1, keepdims=True)) ** 2).sum(axis=(1, 2))


def test_runs_contract_as_the_gap_says_and_as_expected_after_rounds():
    """From the eigenvector of λ₂ one round leaves 1 − pλ₂/2; then E[A M A] over the law; |z| < 4 in each."""
    graph, q, d, tapes = grid(16), 2, 8, 800
    law = best(graph)
    v = np.linalg.eigh(laplacian(16, graph.edges, law.edge_marginals))[1][:, 1]
    M, p = d * np.outer(v, v), q / d
    step = [(float(w), np.eye(16) - laplacian(16, pairs) / 2) for pairs, w in law.law.listed()]
    assert (1 - p) * d + p * sum(w * np.trace(A @ M @ A) for w, A in step) == pytest.approx(
        (1 - float(round_contraction(law.lambda2, q=q, d=d))) * d, rel=1e-8
    )
    for energy in measured(graph, law, np.tile(v[:, None], d), rounds=6, tapes=tapes, q=q):
        M = (1 - p) * M + p * sum(w * A @ M @ A for w, A in step)
        assert abs(energy.mean() - np.trace(M)) < 4 * energy.std() / tapes**0.5


@pytest.mark.parametrize(
    ("n", "edges", "options", "says"),
    [
        (4, [(0, 1), (2, 3)], {}, "no path from node 0 to node 2"),
        (3, [(0, 1), (1, 1), (1, 2)], {}, r"edge \(1, 1\) is a loop"),
        (2, [(0, 1), (1, 2)], {}, r"edge \(1, 2\) .* leaves the nodes 0 to 1"),
        (1, [], {}, "two nodes or more, got n = 1"),
        (2, [(0, 1)], {"per": "bit"}, "per must be 'round' or 'scalar', got 'bit'"),
        (2, [(0, 1)], {"tolerance": 0.0}, "tolerance 0.0"),
        (4, [(0, 1), (0, 2), (0, 3)], {"total": 2}, "whole parts of 2 leave λ₂ = 0; raise total"),
    ],
)
def test_what_has_no_best_law_is_refused(n, edges, options, says):
    with pytest.raises(ValueError, match=says):
        best_schedule(n, edges, **options)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: round_contraction(1.0, d=2, q=3), "q = 3 coordinates of d = 2"),
        (lambda: mixing_efficiency(1.0, n=4, pairs=0), r"E\|M\| = 0"),
    ],
)
def test_numbers_that_fit_no_schedule_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_search_cut_short_says_how_far_it_is_and_is_still_bounded():
    law = best(erdos_renyi(10, 0.4, seed=1), most=1)
    assert 1e-3 < law.gap < 1
    assert law.upper_bound >= best(erdos_renyi(10, 0.4, seed=1)).lambda2


def test_a_law_that_leaves_nodes_apart_has_no_gap():
    assert abs(fixed_law(4, [(0, 1), (2, 3)]).lambda2) < 1e-15
