"""Bounds and scale: where queries go, and that the change of coordinates changes nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zocosmo import Optimizer, minimize, suggest
from zocosmo.blackbox.place import as_bounds, as_place, powers_of_two
from zocosmo.errors import InputError
from zocosmo.graphs import ring
from zocosmo.methods import METHODS, Cosmo

FINITE = st.floats(-1e6, 1e6)


@st.composite
def boxes(draw):
    """A box of up to four sides, some of them open or closed to a point, and a start in it."""
    lo, hi, x0 = [], [], []
    for _ in range(draw(st.integers(1, 4))):
        a, width = draw(FINITE), draw(st.sampled_from([0.0, 1e-6, 0.3, 7.0, 1e5, np.inf]))
        lo.append(a)
        hi.append(a + width)
        x0.append(a + draw(st.sampled_from([0.0, 0.4, 1.0])) * min(width, 1.0))
    return np.array(lo), np.array(hi), np.minimum(np.array(x0), hi)


class Watched:
    def __init__(self, lo, hi, pull):
        self.lo, self.hi, self.pull, self.asked = lo, hi, pull, 0

    def __call__(self, x):
        assert ((x >= self.lo) & (x <= self.hi)).all()
        self.asked += 1
        return float(np.sum((x / (1 + np.abs(self.lo)) - self.pull) ** 2))


@settings(max_examples=12, deadline=None)
@given(boxes(), st.floats(-5, 5), st.sampled_from(["rounds", "tol", "suggest", "ask", "subspace"]))
def test_no_query_is_outside_its_bounds(box, pull, way):
    lo, hi, x0 = box
    f, pairs = Watched(lo, hi, pull), np.stack([lo, hi], axis=1)
    if way == "rounds":
        minimize(f, x0, n=2, rounds=6, bounds=pairs)
    elif way == "tol":
        minimize(f, x0, tol=1e-2, rounds=20, bounds=pairs)
    elif way == "suggest":
        suggest(f, x0, bounds=pairs)
    else:
        more = {"subspace": 1} if way == "subspace" and len(x0) > 1 else {}
        run = Optimizer(x0, n=2, q=1, eta=0.7, mu=5e-7 / 4, bounds=pairs, **more)
        while run.t < 6:
            run.tell([[f(x) for x in side] for side in run.ask().points])
        f(run.mean)
    assert f.asked


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_stays_inside(name):
    more = {"rank": 2} if name in ("subcge", "subzero") else {}
    lo, hi = np.zeros(16), np.ones(16)
    f = Watched(lo, hi, 2.0)
    result = minimize(f, np.full(16, 0.9), n=3, rounds=12, method=name, bounds=(0, 1), **more)
    assert ((result.states >= 0) & (result.states <= 1)).all()


def bowl(x):
    return float(np.sum((x - np.arange(len(x))) ** 2))


@pytest.mark.parametrize("unit", [2.0**-7, 0.5, 2.0])
def test_a_scale_for_all_is_another_unit_of_eta_and_mu_to_the_bit(unit):
    """z = x/s: a shift of μ in z is s μ in x, and a step of η in z is s² η in x."""
    plain = minimize(bowl, [1.0, 2.0, 3.0], n=3, rounds=20, q=1, eta=0.1 * unit**2, mu=0.125 * unit)
    scaled = minimize(bowl, [1.0, 2.0, 3.0], n=3, rounds=20, q=1, eta=0.1, mu=0.125, scale=unit)
    assert (plain.states == scaled.states).all()
    assert (plain.fun, plain.bits, plain.nfev) == (scaled.fun, scaled.bits, scaled.nfev)


def test_bounds_that_are_never_met_change_no_bit():
    free = minimize(bowl, [1.0, 2.0, 3.0], n=3, rounds=20, q=1, eta=0.1, mu=0.125)
    boxed = minimize(bowl, [1.0, 2.0, 3.0], n=3, rounds=20, q=1, eta=0.1, mu=0.125, bounds=(-99, 99))
    assert (free.states == boxed.states).all()


def test_an_optimum_outside_is_met_on_the_bound_exactly():
    result = minimize(
        bowl, [0.5, 0.5, 0.5], rounds=200, q=1, eta=0.1, mu=0.1, bounds=[(0, 1), (0, 1), (0, 0.75)]
    )
    assert result.x.tolist()[1:] == [1.0, 0.75]
    assert abs(result.x[0]) < 1e-12


def test_a_query_at_a_bound_moves_its_centre_inside_and_keeps_its_width():
    """At x = 0 with bounds (0, 1) the points are 0 and 2μ."""
    run = Optimizer([0.0, 0.5], method=Cosmo(q=2, eta=0.1, mu=0.125), n=1, bounds=(0, 1))
    points = np.sort(run.ask().points[:, 0], axis=0)
    assert points.tolist() == [[0.0, 0.375], [0.25, 0.625]]


def test_a_closed_coordinate_stays_and_the_others_move():
    result = minimize(bowl, [5.0, 0.0], rounds=60, q=1, eta=0.2, mu=0.1, bounds=[(5, 5), (None, None)])
    assert result.x[0] == 5.0
    assert abs(result.x[1] - 1) < 1e-6


def test_a_start_with_two_units_is_probed_within_a_quarter_of_each():
    seen = []
    suggest(lambda x: seen.append(x) or float(((x / [2e5, 0.3] - 1.3) ** 2).sum()), [2e5, 0.3])
    assert (np.abs(np.array(seen) - [2e5, 0.3]).max(axis=0) <= [5e4, 0.075 * (1 + 1e-9)]).all()


def test_bounds_come_as_a_pair_as_pairs_and_from_scipy():
    from scipy.optimize import Bounds

    expected = ([0.0, 0.0], [1.0, np.inf])
    for given_ in ([(0, 1), (0, None)], Bounds([0, 0], [1, np.inf])):
        lo, hi = as_bounds(given_, 2)
        assert (lo.tolist(), hi.tolist()) == expected
    assert as_bounds((0, 1), 3)[1].tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds": (1, 0)}, "bounds of coordinate 0 must ascend"),
        ({"bounds": [(0, 1)]}, "a pair for each of 2 coordinates"),
        ({"bounds": 3}, "bounds must be one pair"),
        ({"bounds": (2, 3)}, "x0 has coordinate 0 at 1, outside its bounds [2, 3]; start inside"),
        ({"bounds": (0, 2), "mu": 1.5}, "mu = 1.5 does not fit between the bounds of coordinate 0, [0, 2]"),
        ({"scale": 0}, "scale must be positive"),
        ({"scale": [1, 2, 3]}, "one for each of 2 coordinates"),
        ({"tol": 1.0}, "tol must be a finite number at least 0 and below 1, got 1.0"),
        ({"tol": 0.1, "subspace": 1}, "tol polls every coordinate"),
    ],
)
def test_mistakes_are_refused_before_anything_is_asked(options, words):
    asked = []
    with pytest.raises(InputError) as caught:
        minimize(
            lambda x: asked.append(x) or 1.0,
            [1.0, 2.0],
            **{"rounds": 1, "q": 1, "eta": 0.1, "mu": 0.1, **options},
        )
    assert words in str(caught.value)
    assert asked == []


def test_scales_are_powers_of_two_so_that_coordinates_never_round():
    place = as_place(None, [0.3, 7.0, 1e9], np.ones(3), by_itself=True)
    x = np.random.default_rng(0).normal(size=(50, 3))
    assert (np.log2(place.scale) % 1 == 0).all()
    assert (place.to_x(place.to_z(x)) == x).all()
    assert powers_of_two(np.array([3.0, 0.7])).tolist() == [4.0, 0.5]


def test_a_snapshot_keeps_the_scale():
    given_ = {"n": 3, "bounds": (-4, 9), "seed": 2}
    half = minimize(bowl, [1.0, 2.0, 3.0], rounds=9, **given_)
    rest = minimize(bowl, [1.0, 2.0, 3.0], rounds=30, method=half.method, resume=half.snapshot, **given_)
    whole = minimize(bowl, [1.0, 2.0, 3.0], rounds=30, **given_)
    assert half.scale.tolist() == [4.0] * 3
    assert (rest.states == whole.states).all()
    with pytest.raises(InputError, match="bounds or a scale; pass the same"):
        Optimizer([1.0, 2.0, 3.0], graph=ring(3), method=half.method, seed=2).restore(half.snapshot)
