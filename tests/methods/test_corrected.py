"""Corrections: sums, fixed points, what they do for nodes that differ, and bad input."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import METHODS
from zocosmo.methods.decay import Cosine
from zocosmo.oracle import Problem
from zocosmo.sim.engine import Run, Simulation

N, D = 4, 24


class Apart(Problem):
    """F_i(x) = ½ ‖x − a_i‖²: with dyadic a_i, steps and weights nothing rounds."""

    def __init__(self, a):
        self.a = a
        self.n, self.d = a.shape[-2:]

    @property
    def x0(self):
        return np.zeros((*self.a.shape[:-2], self.d))

    def local(self, x):
        return 0.5 * ((x - self.a) ** 2).sum(axis=-1)

    def __call__(self, x, t, *, active=None):
        return self.local(x)

    def at(self, nodes):
        return type(self)(self.a[..., list(nodes), :])

    @classmethod
    def stack(cls, problems):
        return cls(np.stack([each.a for each in problems]))


class Slope(Apart):
    """F_i(x) = a_i · x, whose steps do not depend on x, so that sums of 24 rounds still fit a double."""

    def local(self, x):
        return (x * self.a).sum(axis=-1)


def apart(seed=0):
    a = np.random.default_rng(seed).integers(-8, 9, (N, D)) / 4
    return Apart(a)


def method(kind="edge_local", **given):
    about = {"eta": 2**-5, "mu": 2**-3, "q": 8, "directions": 8, "signs": "orthogonal"}
    return METHODS[kind](**{**about, **({"coupling": "G"} if kind == "edge_local" else {}), **given})


def play(rounds, *methods):
    runs = [Run(each, ring(N), apart(), seed) for seed, each in enumerate(methods)]
    simulation = Simulation(runs)
    for _ in range(rounds):
        simulation.round()
    return simulation


@pytest.mark.parametrize("wire", ["", "mod2", "mod4", "mod8"])
@pytest.mark.parametrize("kind", ["cosmo", "edge_local"])
def test_corrections_sum_to_zero_exactly_in_every_round_also_when_messages_are_lost(kind, wire):
    graph = complete(N) if kind == "cosmo" else ring(N)  # with weights ¼, or ½ in pairs
    lost = {t: [(0, 1)] if t % 3 else [(2, 3), (3, 2)] for t in range(12)} if wire else None
    run = Run(method(kind, wire=wire, correction=0.25), graph, Slope(apart().a), 0)
    simulation = Simulation([run], lost=lost)
    for _ in range(24):
        simulation.round()
        c = np.array(simulation.state.c[0])
        if wire:
            c -= 0.25 * simulation.channel.coarse.memory.debts(N, D)
        assert_array_equal(c.sum(axis=0), 0)
    assert np.abs(simulation.state.c).max() > 0
    if wire:
        assert simulation.channel.tally()["repairs"].sum() > 0


def test_nodes_that_differ_agree_on_the_minimum_of_the_average_at_a_constant_step():
    """Balanced supports of all coordinates in turn, so that nothing is random but the pairs."""
    best = apart().a.mean(axis=0)
    off = {}
    for gamma in (0.0, 0.5):
        x = np.asarray(play(1500, method(rule="balanced", correction=gamma)).state.x)[0]
        off[gamma] = np.abs(x - best).max()
    assert off[0.5] < 1e-9 < 1e-2 < off[0.0]


def test_a_point_where_the_average_gradient_is_zero_is_fixed():
    """q = d on a complete pair: y = x* at both ends, whatever η is."""
    problem = Apart(np.array([[-3.0], [1.0]]))
    one = METHODS["cosmo"](eta=0.25, mu=0.5, q=1, correction=0.5)
    simulation = Simulation([Run(one, complete(2), problem, 3)])
    pull = 0.25 * (-1.0 - problem.a)  # η ∇F_i(x*), x* = −1
    simulation.state = simulation.state._replace(x=np.full((1, 2, 1), -1.0), c=pull[None].copy())
    for _ in range(5):
        simulation.round()
        assert_array_equal(simulation.state.x, -1.0)
        assert_array_equal(simulation.state.c, pull[None])


def test_a_run_without_correction_is_the_same_beside_one_with_it():
    alone = play(30, method(wire="mod4"))
    beside = play(30, method(wire="mod4"), method(wire="mod4", correction=0.25))
    assert np.asarray(beside.state.x)[0].tobytes() == np.asarray(alone.state.x)[0].tobytes()
    assert_array_equal(beside.state.c[0], 0)
    corrected = Simulation([Run(method(wire="mod4", correction=0.25), ring(N), apart(), 1)])
    for _ in range(30):
        corrected.round()
    assert np.asarray(beside.state.x)[1].tobytes() == np.asarray(corrected.state.x)[0].tobytes()
    assert beside.state.c[1].tobytes() == corrected.state.c[0].tobytes()


def test_corrections_follow_the_length_of_steps():
    """A step that has decayed to nothing moves nobody, and the last round of a balanced epoch, which has 4
    coordinates in place of 10, takes steps 2.5 times as long."""
    stopped = play(40, method(correction=0.5, decay=Cosine(rounds=20)))
    x = np.array(stopped.state.x)
    assert np.abs(stopped.state.c).max() > 0
    stopped.round()
    assert_array_equal(np.asarray(stopped.state.x).sum(axis=-2), x.sum(axis=-2))
    one = METHODS["cosmo"](eta=0.0, mu=0.5, q=10, rule="balanced", correction=0.5)
    simulation = Simulation([Run(one, complete(N), apart(), 1)])
    c = np.array([[[1.0], [-1.0], [0.5], [-0.5]]]) * np.ones(D)
    for length in (1.0, 1.0, 2.5):
        simulation.state = simulation.state._replace(x=np.zeros((1, N, D)), c=c.copy())
        simulation.round()
        moved = np.asarray(simulation.state.c)[0] != c[0]
        assert_array_equal((c[0] - np.asarray(simulation.state.c)[0])[moved], 0.5 * length * c[0][moved])


def radius(w, a, gamma):
    """Of x⁺ = w (a x + c), c⁺ = c − γ (1 − w)(a x + c)."""
    return np.abs(np.linalg.eigvals([[w * a, w], [-gamma * (1 - w) * a, 1 - gamma * (1 - w)]])).max()


def test_alike_quadratics_are_stable_for_every_correction_up_to_one():
    """Jury's conditions in rationals, and the roots: w is an eigenvalue of W, a = 1 − ηh."""
    tenths = [Fraction(k, 10) for k in range(11)]
    for w in tenths[:-1]:
        for a in [sign * k for k in tenths[:-1] for sign in (1, -1)]:
            for gamma in tenths[1:]:
                trace, det = w * a + 1 - gamma * (1 - w), w * a
                assert abs(det) < 1
                assert 1 - trace + det == gamma * (1 - w) > 0
                assert 1 + trace + det >= 1 - w > 0
                assert radius(float(w), float(a), float(gamma)) < 1


@pytest.mark.parametrize("gamma", [-0.1, 1.5, float("nan")])
def test_a_correction_outside_its_range_is_refused(gamma):
    with pytest.raises(InputError, match="correction must be a finite number at least 0 and at most 1"):
        method(correction=gamma)
