"""A simulation that is stopped and resumed has the bits of one that never stopped, whatever it asks."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small_run
from problems.drifting import drifting
from zocosmo.errors import InputError
from zocosmo.sim.engine import Simulation


def simulation(**options):
    runs = [small_run("cosmo", problem=drifting(seed=seed), seed=seed, eta=0.01) for seed in (1, 2)]
    return Simulation(runs, **options)


def advance(sim, rounds):
    for _ in range(rounds):
        sim.round()
    return sim


def saved(sim):
    """What a file would hold."""
    return {name: array.copy() for name, array in sim.arrays().items()}


def test_losses_with_a_memory_go_on_where_they_were():
    straight, resumed = advance(simulation(), 7), simulation()
    resumed.restore(saved(straight))
    assert_array_equal(advance(resumed, 5).states(), advance(straight, 5).states())
    assert_array_equal(resumed.checkpoint().objective, straight.checkpoint().objective)


def test_a_round_undone_by_a_restore_is_run_again_to_the_same_bits():
    sim = advance(simulation(), 3)
    kept = saved(sim)
    first = advance(sim, 4).states()
    sim.restore(kept)
    assert_array_equal(advance(sim, 4).states(), first)


def test_each_run_of_a_batch_has_a_memory_of_its_own():
    """Before the snapshot only nodes of run 1 are asked."""
    straight = simulation()
    straight.problem.oracles[1](np.zeros((4, 6)), 0)
    kept, resumed = saved(straight), simulation()
    resumed.restore(kept)
    asked = [[loss.call.asked for loss in oracle.funs] for oracle in resumed.problem.oracles]
    assert asked == [[0] * 4, [1] * 4]


def test_a_snapshot_without_the_memory_of_losses_is_refused():
    kept = {name: array for name, array in saved(simulation()).items() if not name.startswith("problem.")}
    with pytest.raises(InputError, match="the snapshot lacks node 0"):
        simulation().restore(kept)


def test_memory_matters_here():
    """Or the tests above would prove nothing: the same states with losses that start anew go elsewhere."""
    straight, forgetful = advance(simulation(), 7), simulation()
    new = forgetful.arrays()
    new |= {name: array for name, array in saved(straight).items() if not name.startswith("problem.")}
    forgetful.restore(new)
    assert (advance(forgetful, 5).states() != advance(straight, 5).states()).any()
