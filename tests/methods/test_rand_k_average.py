"""Averaged sparse updates: identical nodes, and ZO-MARINA-type without its dense rounds."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small, small_run, states
from zocosmo.errors import GraphError
from zocosmo.graphs.graph import ring
from zocosmo.methods import World
from zocosmo.sim.engine import Simulation


def test_nodes_stay_identical_though_supports_and_momenta_differ():
    simulation = Simulation([small_run("rand_k_average", beta=0.5)])
    for _ in range(6):
        simulation.round()
    x, m = simulation.state.x[0], simulation.state.m[0]
    assert (x == x[0]).all()
    assert (m != m[0]).any()


def test_it_is_the_sparse_round_of_marina_type():
    """From round 1 on, until the next dense one: the same draws, updates and bills."""
    twins = [small_run("rand_k_average"), small_run("marina_type", period=9)]
    runs = [Simulation([run]) for run in twins]
    for each in runs:
        each.round()
    runs[1].state = runs[1].state._replace(x=runs[0].state.x.copy())
    for _ in range(4):
        before = [each.channel.ledger("indexed").network() for each in runs]
        for each in runs:
            each.round()
        assert_array_equal(runs[0].states(), runs[1].states())
        after = [each.channel.ledger("indexed").network() for each in runs]
        assert after[0].payload - before[0].payload == after[1].payload - before[1].payload


def test_it_is_not_the_overlap_mix():
    averaged, mixed = (states([small_run(name)], 3)[0] for name in ("rand_k_average", "rand_k"))
    assert np.abs(averaged - mixed).max() > 1e-6


def test_other_graphs_are_refused():
    with pytest.raises(GraphError, match="rand_k_average needs a complete graph"):
        small("rand_k_average").check(World(ring(4), 6))
