"""What other methods would have cost: equal to whole runs of them, and to the formulas of their messages."""

import numpy as np
import pytest

pytest.importorskip("torch")

from zocosmo.graphs.graph import complete, ring, star
from zocosmo.llm.rivals import SMALL, Level, rivals, spent
from zocosmo.methods import METHODS
from zocosmo.problems.quadratic import quadratic
from zocosmo.sim.engine import Run, Simulation

STEP = {"eta": 1e-3, "mu": 1e-3}


def whole(method, graph, rounds, d):
    """Bits per node of a real run on a quadratic."""
    simulation = Simulation([Run(method, graph, quadratic(graph.n, 1, d=d), 3)], wire="f32", dtype=np.float32)
    for _ in range(rounds):
        simulation.round()
    return simulation.channel.ledger(method.codec).counts[..., :3].sum() / graph.n


@pytest.mark.parametrize("graph", [ring(4), ring(7), star(5), complete(4)], ids=lambda graph: graph.name)
@pytest.mark.parametrize("kind", ["decomfl", "seedflood", "dense"])
@pytest.mark.parametrize("rounds", [1, 3, 11])
def test_the_bill_is_that_of_a_whole_run(graph, kind, rounds):
    method = METHODS[kind](**STEP)
    d = SMALL if kind == "dense" else 9  # scalars cost the same whatever d is
    assert spent(method, graph, rounds) == whole(method, graph, rounds, d)


def test_the_bills_of_a_ring_of_four_in_numbers():
    """400 rounds, one direction: 192 and 384 bits a node and round (docs/field.md), and 2 · 32 d."""
    by_name = {each.name: each for each in rivals(ring(4), 400, d=460_800, directions=1)}
    assert by_name["DeComFL"].bits == 400 * 192 - 96  # nothing to replay in the first round
    assert by_name["SeedFlood"].bits == whole(METHODS["seedflood"](**STEP), ring(4), 400, 9)
    assert by_name["sending gradients"].bits == 400 * 2 * 32 * 460_800
    assert by_name["DeComFL"].needs == "a server"


@pytest.mark.parametrize("directions", [1, 4])
def test_several_directions_are_as_many_scalars(directions):
    found = rivals(ring(4), 6, d=50, directions=directions)
    alone = whole(METHODS["seedflood"](**STEP), ring(4), 6, 9)
    several = whole(METHODS["decomfl"](**STEP, perturbations=directions), ring(4), 6, 9)
    assert [each.bits for each in found[:2]] == [several, directions * alone]


def test_no_round_costs_nothing():
    assert [each.bits for each in rivals(ring(4), 0, d=50, directions=2)] == [0, 0, 0]
    assert Level(3).at([1]).n == 1
