"""Expectations on quadratics: against every draw there is, against identities, against the simulator."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.enumeration import PROBLEM, X0, enumerated
from zocosmo.graphs import metropolis
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import Cosmo, EdgeLocal
from zocosmo.problems.quadratic import Quadratic, quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import Global, Law, complete_law, fixed_law, ring_law, ring_phases

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
STEPS = [QUARTER, HALF * QUARTER]
COUPLINGS = ["G", "S", "I"]
PHASES = [[(0, 1), (2, 3)], [(1, 2), (0, 3)]]
DYADIC = np.array([[2, 1, 0, 1], [1, 2, 1, 0], [0, 1, 2, 1], [1, 0, 1, 2]]) * QUARTER
MECHANISM = {"d": 32, "kappa": 4.0, "omega": 0.6, "zeta": 2.0}
FAST = [  # graph, coupling, sigma, beta, eta
    ("complete", "G", 0.5, 0.0, 0.004),
    ("complete", "S", 0.0, 0.0, 0.004),
    ("complete", "I", 0.5, 0.9, 0.02),
    ("complete", "G", 0.0, 0.9, 0.01),
    ("ring", "G", 0.5, 0.9, 0.02),
    ("ring", "S", 0.5, 0.0, 0.004),
    ("ring", "I", 0.5, 0.0, 0.004),
    ("ring", "S", 0.5, 0.9, 0.04),
]


def small(law, coupling, beta=0, rounds=2, problem=PROBLEM, x0=X0, eta=STEPS, q=2):
    return expectation(problem, law, coupling=coupling, q=q, eta=eta, beta=beta, rounds=rounds, x0=x0)


@pytest.mark.parametrize("beta", [0, HALF])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_two_given_matchings_equal_all_their_draws(coupling, beta):
    """n = 4, d = 3, q = 2: every support, sign and noise of two rounds, in rationals."""
    found = small([fixed_law(4, pairs) for pairs in PHASES], coupling, beta)
    laws = [[(pairs, Fraction(1))] for pairs in PHASES]
    assert (found.F[2], found.disagreement[2], found.local[2]) == enumerated(laws, coupling, STEPS, beta)


@pytest.mark.parametrize("beta", [0, HALF])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_a_law_with_idle_nodes_equals_all_its_draws(coupling, beta):
    """One pair, two pairs or none; without noise, which the test above has."""
    law = [(PHASES[0], QUARTER), ([(1, 3)], HALF), ([], QUARTER)]
    quiet = Quadratics(PROBLEM.H, PROBLEM.b)
    found = small(Law.of(4, law), coupling, beta, problem=quiet)
    told = enumerated([law, law], coupling, STEPS, beta, problem=quiet)
    assert (found.F[2], found.disagreement[2], found.local[2]) == told


@pytest.mark.parametrize("beta", [0, HALF])
def test_global_support_equals_all_its_draws(beta):
    found = small(Global(DYADIC), None, beta)
    told = enumerated([DYADIC] * 2, "G", STEPS, beta)
    assert (found.F[2], found.disagreement[2], found.local[2]) == told


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_a_law_is_the_mean_over_its_sequences(coupling):
    """Two fair phases: four sequences of two matchings."""
    each = [small([fixed_law(4, pairs) for pairs in two], coupling) for two in product(PHASES, repeat=2)]
    whole = small(ring_law(4), coupling)
    assert (sum(found.F for found in each) / 4 == whole.F).all()
    assert (whole.disagreement == sum(found.disagreement for found in each) / 4).all()


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_floats_say_what_rationals_say(coupling):
    """Some hundred operations a round, each off by 1e-16 of its size, and two rounds."""
    floats = Quadratics(PROBLEM.H.astype(float), PROBLEM.b.astype(float), float(PROBLEM.sigma))
    found, exact = (small(ring_law(4), coupling, HALF, problem=each) for each in (floats, PROBLEM))
    assert found.F.dtype == np.float64
    np.testing.assert_allclose(found.F, exact.F.astype(float), rtol=1e-13)
    np.testing.assert_allclose(found.disagreement, exact.disagreement.astype(float), rtol=1e-13)


def perfect(nodes):
    """All matchings of a list of nodes that leave one out at most."""
    if len(nodes) < 2:
        return [[]]
    first, rest = nodes[0], nodes[1:]
    found = [[(first, j), *more] for j in rest for more in perfect([k for k in rest if k != j])]
    return found if len(nodes) % 2 == 0 else found + perfect(rest)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
def test_complete_graphs_by_formula_and_by_list(n):
    every = [pairs for pairs in perfect(list(range(n))) if len(pairs) == n // 2]
    law, listed = complete_law(n), Law.of(n, [(pairs, Fraction(1, len(every))) for pairs in every])
    assert law.edges == listed.edges
    assert list(law.edge_pairs()) == list(listed.edge_pairs())


def test_ring_phases_visit_every_edge_once():
    edges = [tuple(sorted(e)) for phase in ring_phases(6) for e in phase]
    assert sorted(edges) == sorted(ring(6).edges)


def shared(b, h=(1, 2, 5)):
    return Quadratics([list(h)] * 4, b)


@pytest.mark.parametrize("beta", [0, HALF])
def test_with_one_curvature_G_sees_neither_graph_nor_linear_terms(beta):
    """They cancel in the average   [eq:corr_cancellation]"""
    pulls = [[3, -1, 0], [-3, 2, 1], [1, 1, -4], [-1, -2, 3]]
    plain = small(complete_law(4), "G", beta, rounds=3, problem=shared([[0] * 3] * 4), eta=QUARTER)
    pulled = small(ring_law(4), "G", beta, rounds=3, problem=shared(pulls), eta=QUARTER)
    assert (plain.F == pulled.F).all()
    assert (plain.disagreement != pulled.disagreement).any()


@pytest.mark.parametrize(("coupling", "tau"), [("G", 0), ("S", Fraction(3, 4)), ("I", 1)])
def test_one_step_from_the_consensus_optimum(coupling, tau):
    """E‖x̄⁺‖² = η² τ E H², τ = 0, (d − d/q)/m, (d − 1)/m with d = 3, q = 2, m = 2   [prop:corr_quadratic]"""
    pulls = [[3, -1, 0], [-3, 2, 1], [1, 1, -4], [-1, -2, 3]]
    found = small(fixed_law(4, PHASES[0]), coupling, rounds=1, problem=shared(pulls, (2, 2, 2)), x0=[0, 0, 0])
    a_e = np.array([[0, 1, 1], [0, -1, -1]]) * HALF
    assert found.F[1] == QUARTER**2 * tau * (a_e * a_e).sum() / 2


def test_one_coordinate_has_no_cross_signs_so_G_is_S():
    assert (small(ring_law(4), "G", HALF, q=1).F == small(ring_law(4), "S", HALF, q=1).F).all()


def test_with_all_coordinates_supports_agree_so_S_is_I():
    assert (small(ring_law(4), "S", HALF, q=3).F == small(ring_law(4), "I", HALF, q=3).F).all()


def test_a_single_pair_has_nothing_to_share():
    pair = Quadratics(PROBLEM.H[:2], PROBLEM.b[:2], 1)
    G, S, I = (small(complete_law(2), c, HALF, problem=pair, x0=[1, 2, 3]).F.tolist() for c in COUPLINGS)  # noqa: E741
    assert G == S == I


@given(order=st.permutations(range(4)), seed=st.integers(0, 99), coupling=st.sampled_from(COUPLINGS))
@settings(max_examples=6)
def test_names_of_nodes_play_no_part(order, seed, coupling):
    H, b = (
        np.array([[(seed * (k + 3) + j * j + i) % 7 for j in range(3)] for i in range(4)]) for k in (0, 5)
    )
    law = [(PHASES[0], HALF), ([(1, 2)], HALF)]
    place = [order.index(i) for i in range(4)]
    moved = [([(place[i], place[j]) for i, j in pairs], chance) for pairs, chance in law]
    here = small(Law.of(4, law), coupling, HALF, problem=Quadratics(H, b, 1), x0=[1, -1, 2])
    there = small(Law.of(4, moved), coupling, HALF, problem=Quadratics(H[order], b[order], 1), x0=[1, -1, 2])
    assert here.F.tolist() == there.F.tolist()
    assert here.disagreement.tolist() == there.disagreement.tolist()


def test_averages_that_are_dropped_are_made_again(monkeypatch):
    laws = [fixed_law(4, pairs) for pairs in PHASES] * 2
    kept = small(laws, "I", rounds=4, eta=QUARTER)
    monkeypatch.setattr("zocosmo.theory.exact.KEPT", 1)
    assert (small(laws, "I", rounds=4, eta=QUARTER).F == kept.F).all()


def test_a_step_may_be_a_number_a_list_or_a_function():
    by_list, by_rule = (small(ring_law(4), "I", eta=eta) for eta in (STEPS, lambda t: STEPS[t]))
    assert (by_list.F == by_rule.F).all()
    assert small(ring_law(4), "I", eta=QUARTER).F[1] == by_list.F[1]
    assert small(ring_law(4), "I", eta=QUARTER).F[2] != by_list.F[2]


def scores(graph, method, law, schedule, sigma, tapes, rounds, coupling=None):
    """z of F, disagreement and local over tapes; one problem, that of seed 0. `coupling` tells a lie."""
    base = quadratic(8, 0, **MECHANISM, sigma=sigma)
    runs = []
    for seed in (f"expectation {k}" for k in range(tapes)):
        noise = quadratic(8, seed, **MECHANISM, sigma=sigma).noise
        runs.append(Run(method, graph, Quadratic(base.half, base.b, sigma, noise), seed, schedule))
    simulation = Simulation(runs)
    for _ in range(rounds):
        simulation.round()
    now, problem = simulation.checkpoint(), Quadratics(2 * base.half, base.b, sigma)
    how = {"q": method.q, "eta": method.eta, "beta": method.beta, "rounds": rounds, "x0": base.x0}
    told = expectation(problem, law, coupling=coupling or getattr(method, "coupling", None), **how)
    seen = zip((now.objective, now.disagreement, now.local), told, strict=True)
    return [(v.mean() - exact[-1]) / (v.std(ddof=1) / len(v) ** 0.5) for v, exact in seen]


def edge_local_scores(graph, coupling, sigma, beta, eta, **size):
    place = {"complete": (complete(8), complete_law(8)), "ring": (ring(8), ring_law(8))}
    on, law = place[graph]
    method = EdgeLocal(coupling=coupling, q=4, eta=eta, mu=1e-3, beta=beta)
    return scores(on, method, law, {"complete": "complete", "ring": "iid"}[graph], sigma, **size)


@pytest.mark.parametrize(("graph", "coupling", "sigma", "beta", "eta"), FAST)
def test_simulated_means_agree(graph, coupling, sigma, beta, eta):
    """160 tapes, 60 rounds: log F has a standard deviation of ¼ at most by then and F a skewness of ½, so the
    mean over tapes is nearly normal. After 1,600 rounds of an unstable G they are 1 and 6."""
    z = edge_local_scores(graph, coupling, sigma, beta, eta, tapes=160, rounds=60)
    assert max(map(abs, z)) < 4


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "coupling", "sigma", "beta", "eta"), FAST)
def test_simulated_means_agree_over_many_tapes(graph, coupling, sigma, beta, eta):
    z = edge_local_scores(graph, coupling, sigma, beta, eta, tapes=2000, rounds=200)
    assert max(map(abs, z)) < 4


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_simulated_means_of_global_support_agree(beta):
    graph, law = ring(8), Global(metropolis(ring(8)).matrix())
    method = Cosmo(q=4, eta=0.01, mu=1e-3, beta=beta)
    z = scores(graph, method, law, "auto", 0.5, tapes=160, rounds=40)
    assert max(map(abs, z)) < 4


def test_a_wrong_coupling_would_be_noticed():
    """G against what I expects: E F differs by a factor, which 160 tapes cannot miss."""
    method = EdgeLocal(coupling="G", q=4, eta=0.02, mu=1e-3)
    z = scores(complete(8), method, complete_law(8), "complete", 0.0, tapes=160, rounds=60, coupling="I")
    assert abs(z[0]) > 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": 4}, "q = 4 coordinates of d = 3"),
        ({"beta": 1}, "beta = 1 must be"),
        ({"coupling": "X"}, "got 'X'"),
        ({"coupling": None}, "need a coupling"),
        ({"law": complete_law(3)}, "law is of 3 nodes and the problem of 4"),
        ({"law": []}, "empty list"),
        ({"law": Global(DYADIC)}, "leave out coupling = 'I'"),
        ({"eta": [QUARTER]}, "1 entries, too few for round 1"),
        ({"x0": [0, 0]}, r"got shape \(2,\)"),
        ({"rounds": -1}, "got -1"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    given = {"law": ring_law(4), "coupling": "I", **change}
    with pytest.raises(ValueError, match=words):
        small(**given)


@pytest.mark.parametrize("n", [1, 5])
def test_a_ring_without_phases_is_refused(n):
    with pytest.raises(ValueError, match=f"{n}"):
        ring_law(n)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (([[1, 2]], [[0]]), "H have shape"),
        (([[1.0, np.nan]], [[0, 0]]), "finite, got nan"),
        (([1, 2], [0, 0]), "2 axes"),
        (([[1]], [[0]], -1), "sigma = -1"),
    ],
)
def test_problems_that_are_none_are_refused(problem, words):
    with pytest.raises(ValueError, match=words):
        Quadratics(*problem)
