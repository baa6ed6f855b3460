"""Any problem in a public subspace: batches, single runs, parts and resumed runs have the same bits."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import GRAPHS, NAMES, TABLE, small, states
from problems.drifting import drifting
from zocosmo.errors import InputError
from zocosmo.oracle import Problem, objective
from zocosmo.problems import PROBLEMS
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.problems.subspace import SubspaceProblem, in_subspace
from zocosmo.sim.engine import Run, Simulation, batch_key
from zocosmo.subspace import LiftedState

N = 4
INNER = [  # where m divides d, and where it does not
    ("quadratic", {"d": 24, "omega": 0.5, "zeta": 1.0, "sigma": 0.25}),
    ("rosenbrock", {"d": 26}),
    ("logistic", {"batch": 3}),
    ("network", {"hidden": 2, "batch": 4}),
    ("python", {"entry": "math:fsum", "d": 25}),
]
every_kind = pytest.mark.parametrize(("kind", "options"), INNER, ids=[kind for kind, _ in INNER])


def inside(kind="quadratic", options=INNER[0][1], seed=1, n=N, size=6):
    return in_subspace(PROBLEMS[kind](n, seed, **options), size, seed)


def run(name, seed=1, *, d=26, **changes):
    inner = quadratic(N, seed, d=d, omega=0.5, zeta=1.0, sigma=0.25)
    return Run(small(name, **changes), GRAPHS["complete"], in_subspace(inner, 6, seed), seed)


def points(*shape):
    return np.random.default_rng(4).normal(size=shape)


# Splitting and stacking


@every_kind
def test_every_problem_answers_and_measures_at_x(kind, options):
    problem, inner, z = inside(kind, options), PROBLEMS[kind](N, 1, **options), points(N, 6)
    x = problem.lifting.lift(z)
    assert (problem.n, problem.d, problem.size, problem.shapes) == (N, 6, inner.d, ())
    assert_array_equal(problem.x0, np.zeros(6))
    assert_array_equal(problem.lifting.lift_one(problem.x0), inner.x0)
    assert_array_equal(problem(z, 3), inner(x, 3))
    assert_array_equal(problem.local(z), inner.local(x))
    centre = problem.lifting.lift_one(z[0])
    for mine, its in ((problem.report(z[0]), inner.report(centre)), (problem.measures(z), inner.measures(x))):
        assert mine.keys() == its.keys()
        assert all((mine[name] == its[name]).all() for name in mine)
    assert objective(problem, z[0]) == objective(inner, centre)
    assert problem.norm(z[0]) == inner.norm(centre)
    assert_array_equal(problem.vectors(z), x)


@every_kind
def test_some_nodes_and_stacks_have_the_bits_of_the_whole(kind, options):
    whole, z = inside(kind, options), points(N, 6)
    some = whole.at([1, 3])
    assert_array_equal(some(z[[1, 3]], 2), whole(z, 2)[[1, 3]])
    trials = [inside(kind, options, seed) for seed in (1, 2)]
    both, zs = SubspaceProblem.stack(trials), points(2, N, 6)
    for k, trial in enumerate(trials):
        assert_array_equal(both(zs, 5)[k], trial(zs[k], 5))
        assert_array_equal(both.local(zs)[k], trial.local(zs[k]))
        assert_array_equal(both.vectors(zs)[k], trial.vectors(zs[k]))
    assert_array_equal(SubspaceProblem.stack([some])(z[None, [1, 3]], 2)[0], whole(z, 2)[[1, 3]])


def test_problems_that_differ_inside_share_no_batch():
    kinds = [inside(), inside(options={"d": 48}), inside("rosenbrock", {"d": 24}), inside(size=7)]
    assert len({batch_key(Run(small("cosmo"), GRAPHS["ring"], each, 1)) for each in kinds}) == 4
    assert batch_key(run("cosmo", 1)) == batch_key(run("cosmo", 2))


# Runs


@pytest.mark.parametrize("d", [24, 26])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_in_company_is_the_run_alone(name, d):
    runs = [run(name, seed, d=d, eta=eta) for seed in (1, 2) for eta in (2.0**-6, 2.0**-7)]
    together = states(runs, 6)
    assert together.shape == (4, N, d)
    for k, each in enumerate(runs):
        assert_array_equal(together[k], states([each], 6)[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name in NAMES if TABLE[name].on_supports])
def test_x_kept_beside_z_changes_no_bit(name, dtype):
    """The same run from z alone, which is lifted in full for every query."""
    about = {"dtype": dtype, "wire": "f32"}
    kept, plain = (Simulation([run(name, seed) for seed in (1, 2)], **about) for _ in range(2))
    plain.state = plain.method.init(np.zeros((2, N, 6), dtype))
    assert isinstance(kept.state.x, LiftedState)
    for _ in range(8):
        kept.round()
        plain.round()
        assert_array_equal(np.asarray(kept.state.x), plain.state.x)
    assert_array_equal(kept.states(), plain.states())


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_stopped_and_went_on_is_the_one_that_did_not(name):
    def begun():
        return Simulation([run(name, seed, beta=0.5) for seed in (1, 2)])

    straight, resumed = begun(), begun()
    for _ in range(5):
        straight.round()
    resumed.restore({key: array.copy() for key, array in straight.arrays().items()})
    for each in (straight, resumed):
        for _ in range(5):
            each.round()
    assert_array_equal(resumed.states(), straight.states())
    one, other = resumed.checkpoint(), straight.checkpoint()
    assert_array_equal(one.objective, other.objective)
    assert_array_equal(one.disagreement, other.disagreement)


def test_losses_with_a_memory_keep_it():
    def begun():
        problems = [in_subspace(drifting(seed=seed), 3, seed) for seed in (1, 2)]
        method = small("cosmo", eta=0.01)
        runs = [Run(method, GRAPHS["complete"], p, s) for p, s in zip(problems, (1, 2), strict=True)]
        return Simulation(runs)

    straight, resumed = begun(), begun()
    for _ in range(3):
        straight.round()
    resumed.restore({key: array.copy() for key, array in straight.arrays().items()})
    for _ in range(3):
        straight.round()
        resumed.round()
    assert_array_equal(resumed.states(), straight.states())


# Measurements


def test_columns_of_a_checkpoint_are_those_of_x():
    sim = Simulation([run("edge_local", seed, d=24) for seed in (1, 2)])
    for _ in range(20):
        sim.round()
    now, x = sim.checkpoint(), sim.states()
    centre = x.mean(axis=1)
    inner = quadratic(N, 1, d=24, omega=0.5, zeta=1.0, sigma=0.25)
    assert np.allclose(now.objective[0], objective(inner, centre[0]), rtol=1e-12)
    assert np.allclose(now.local[0], inner.local(x[0]).mean(), rtol=1e-12)
    assert np.allclose(now.disagreement, ((x - centre[:, None]) ** 2).sum(axis=-1).mean(axis=-1), rtol=1e-10)
    found = sim.problem.measure(sim.state.x, lambda: sim.method.model(sim.state))
    assert np.allclose(found.norm, np.sqrt((centre**2).sum(axis=-1)), rtol=1e-12)
    assert (found.disagreement > 0).all()


def test_a_diverged_run_is_frozen_as_vectors_too():
    sim = Simulation([run("cosmo", eta=1e6)], bound=10.0)
    sim.checkpoint()
    for _ in range(4):
        sim.round()
    assert sim.checkpoint().diverged.all()
    kept = sim.states()
    sim.round()
    assert_array_equal(sim.states(), kept)
    assert kept.shape == (1, N, 26)


def test_a_subspace_that_holds_the_optimum_reaches_it():
    """½‖x − x*‖² with x* = x0 + Pz*: in z it is ½‖z − z*‖², on which a round of cosmo with η = q/m, exact
    slopes and complete mixing is a contraction; 400 rounds of q = 2 of 6 leave nothing but rounding."""
    space = in_subspace(rosenbrock(N, 3, d=24), 6, 3)
    best = space.lifting.lift(np.broadcast_to(np.arange(1.0, 7.0), (N, 6)))[0]

    class Bowl(type(space.inner)):
        def local(self, x):
            return 0.5 * ((np.asarray(x) - best) ** 2).sum(axis=-1)

    inner = Bowl(space.inner.shifts, 1.0, space.inner.x0)
    method = small("cosmo", q=2, eta=1 / 6, mu=2.0**-8)
    sim = Simulation([Run(method, GRAPHS["complete"], in_subspace(inner, 6, 3), 3)], wire="f64")
    for _ in range(400):
        sim.round()
    assert np.abs(sim.states() - best).max() < 1e-9


# Refusals


@pytest.mark.parametrize("size", [24, 25, 0, -3])
def test_a_size_that_does_not_fit_is_refused(size):
    with pytest.raises(InputError, match=f"a subspace of size {size} does not fit d = 24"):
        inside(size=size)


def test_a_model_that_is_its_own_state_has_no_subspace():
    class InPlace(type(quadratic(2, 0, d=4))):
        in_place = True

    own = quadratic(2, 0, d=4)
    with pytest.raises(InputError, match="a subspace needs states that are vectors"):
        in_subspace(InPlace(own.half, own.b, 0.0, None), 2, 0)
    assert not Problem.in_place
