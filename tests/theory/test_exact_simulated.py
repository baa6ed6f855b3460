"""Exact expectations against a small simulation: K directions, one side, noisy queries, a wire with dither.

The simulation draws from NumPy, and rounds as a wire does; every message decodes. |z| < 4 of means over runs.
"""

import numpy as np
import pytest

from theory.many import hadamard
from zocosmo.theory.directions import Directions
from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import Global, ring_law, ring_phases

N, D, RUNS, ROUNDS = 6, 12, 1500, 25
RNG = np.random.default_rng(11)
H = 1 + 3 * RNG.random((N, D))
B = RNG.standard_normal((N, D))
B -= B.mean(axis=0)
W = np.eye(N) / 2 + (np.roll(np.eye(N), 1, 0) + np.roll(np.eye(N), -1, 0)) / 4


def signs_of(rng, runs, q, how):
    """(runs, K, q)"""
    if how.signs == "independent":
        return rng.choice([-1.0, 1.0], (runs, how.K, q))
    Q = 1 << (q - 1).bit_length()
    first = rng.choice([-1.0, 1.0], (runs, 1, q))
    rows = 1 + np.argsort(rng.random((runs, Q - 1)), axis=-1)[:, : how.K - 1]
    rows = np.concatenate([np.zeros((runs, 1), int), rows], axis=-1)
    return first * hadamard(Q)[rows][..., :q]


def directions(rng, q, how, *, support=None):
    """Supports (runs, q) and directions (runs, K, D)."""
    if support is None:
        support = np.sort(np.argsort(rng.random((RUNS, D)), axis=-1)[:, :q], axis=-1)
    u = np.zeros((RUNS, how.K, D))
    np.put_along_axis(u, np.broadcast_to(support[:, None], (RUNS, how.K, q)), signs_of(rng, RUNS, q, how), -1)
    return support, u


def slopes(rng, x, u, how):
    """Of states (runs, n, d) along directions (runs, n, K, d), by evaluations with noise: (runs, n, K)."""

    def f(z, size):
        value = (H[:, None] * z**2 / 2 + B[:, None] * z).sum(axis=-1)
        return value + float(how.omega) * rng.standard_normal((*value.shape[:2], size))

    here, mu = x[:, :, None], float(how.mu)
    if how.sides == 2:
        return (f(here + mu * u, how.K) - f(here - mu * u, how.K)) / (2 * mu)
    return (f(here + mu * u, how.K) - f(here, 1)) / mu


def rounded(rng, y, scale):
    r = (2 * rng.integers(0, 2**16, y.shape) + 1) / 2**17
    return scale * (np.floor(y / scale + r) - r + 0.5)


def simulate(coupling, q, how, eta, scale, seed):
    """Final states (runs, n, d)."""
    rng, x = np.random.default_rng(seed), np.ones((RUNS, N, D))
    both = np.empty((2, N), int)
    for row, pairs in zip(both, ring_phases(N), strict=True):
        for i, j in pairs:
            row[i], row[j] = j, i
    for _ in range(ROUNDS):
        partners = both[rng.integers(0, 2, RUNS)]
        lower = np.minimum(partners, np.arange(N))
        if coupling in ("G", None):
            u = np.broadcast_to(directions(rng, q, how)[1][:, None], (RUNS, N, how.K, D))
        else:
            support = directions(rng, q, how)[0] if coupling == "S" else None
            each = np.stack([directions(rng, q, how, support=support)[1] for _ in range(N)], axis=1)
            u = np.take_along_axis(each, lower[:, :, None, None], axis=1)
        g = D / q / how.K * (slopes(rng, x, u, how)[..., None] * u).sum(axis=2)
        y, on = x - eta * g, np.any(u != 0, axis=2)
        hat = rounded(rng, y, scale) if scale else y
        if coupling is None:
            moved = y + W @ hat - hat
        else:
            moved = y + (np.take_along_axis(hat, partners[:, :, None], axis=1) - hat) / 2
        x = np.where(on, moved, x)
    return x


CASES = [
    ("G", 4, Directions(K=4, signs="orthogonal", sides=1, mu=0.25), 0.1, 0.0),
    ("G", 5, Directions(K=3, signs="orthogonal", sides=1, mu=0.25, omega=0.1), 0.1, 0.25),
    ("S", 4, Directions(K=3, sides=2, mu=0.25, omega=0.2), 0.05, 0.125),
    ("I", 5, Directions(K=8, signs="orthogonal", sides=1, mu=0.5, omega=0.1), 0.1, 0.25),
    (None, 3, Directions(K=2, signs="orthogonal", sides=1, mu=0.5, omega=0.1), 0.05, 0.25),
]


def told(coupling, q, how, eta, scale):
    law = Global(W) if coupling is None else ring_law(N)
    given = {"coupling": coupling, "q": q, "eta": eta, "rounds": ROUNDS, "x0": np.ones(D)}
    found = expectation(Quadratics(H, B), law, **given, directions=how, scale=scale)
    return [column[-1] for column in found]


def measured(x):
    centre = x.mean(axis=1)
    F = (H.mean(axis=0) * centre**2 / 2 + B.mean(axis=0) * centre).sum(axis=-1)
    local = (H * x**2 / 2 + B * x).sum(axis=-1).mean(axis=-1)
    return F, ((x - centre[:, None]) ** 2).sum(axis=-1).mean(axis=-1), local


@pytest.mark.parametrize(("coupling", "q", "how", "eta", "scale"), CASES)
def test_simulated_means_agree(coupling, q, how, eta, scale):
    seen = measured(simulate(coupling, q, how, eta, scale, seed=q))
    for values, exact in zip(seen, told(coupling, q, how, eta, scale), strict=True):
        assert abs(values.mean() - exact) < 4 * values.std(ddof=1) / RUNS**0.5


@pytest.mark.parametrize(
    "lie", [{"K": 2}, {"signs": "independent"}, {"sides": 2, "omega": 0}, {"scale": 0.0}], ids=str
)
def test_a_wrong_law_would_be_noticed(lie):
    coupling, q, how, eta, scale = CASES[1]
    given = {"K": how.K, "signs": how.signs, "sides": how.sides, "mu": how.mu, "omega": how.omega, **lie}
    wrong = given.pop("scale", scale)
    seen = measured(simulate(coupling, q, how, eta, scale, seed=q))
    off = [
        abs(values.mean() - exact) / (values.std(ddof=1) / RUNS**0.5)
        for values, exact in zip(seen, told(coupling, q, Directions(**given), eta, wrong), strict=True)
    ]
    assert max(off) > 4
