"""FeedSign: one bit each way, and everyone follows the majority."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small, small_run, states
from zocosmo.core.normals import normals
from zocosmo.core.payload import Bits
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, ring
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation


def linear(b):
    """Nodes whose slopes along z are b_iᵀz."""
    b = np.array(b, float)
    return Quadratic(np.zeros_like(b), b, 0.0, None)


def walked(problem, rounds, seed=1, eta=2.0**-6):
    """x of the nodes of a run after each round."""
    simulation = Simulation([Run(small("feedsign", eta=eta), complete(problem.n), problem, seed)])
    for _ in range(rounds):
        simulation.round()
        yield simulation.state.x[0].copy()


def plain(run, rounds):
    """FeedSign once more, node by node."""
    x, mu = [run.problem.x0] * run.problem.n, run.method.mu
    for t in range(rounds):
        z, ayes = normals(Tape(run.seed), "normal", t, size=run.problem.d), 0
        for i, own in enumerate(x):
            f = run.problem.at([i])
            ayes += bool(f((own + mu * z)[None], t)[0] >= f((own - mu * z)[None], t)[0])
        vote = 1.0 if 2 * ayes >= len(x) else -1.0
        x = [own - run.method.eta_at(t) * (vote * z) for own in x]
    return np.stack(x)


@pytest.mark.parametrize("n", [3, 6])
def test_it_is_the_method_written_node_by_node(n):
    run = small_run("feedsign", complete(n), seed=4)
    assert_array_equal(states([run], 25)[0], plain(run, 25))


@pytest.mark.parametrize("graph", [complete(5), ring(6)], ids=lambda g: g.name)
def test_a_round_is_one_bit_up_and_one_bit_down(graph):
    """Seven more fill the byte, and 256 are the frame."""
    simulation = Simulation([small_run("feedsign", graph)])
    for _ in range(9):
        simulation.round()
    ledger, n = simulation.channel.ledger("votes"), graph.n
    for i in range(n):
        assert ledger.link(i, n) == ledger.link(n, i) == Bits(values=9, framing=9 * (7 + 256))
    assert ledger.network().values == 2 * 9 * n


def test_every_step_is_the_direction_or_its_opposite():
    run, seen = small_run("feedsign", complete(3), seed=2), set()
    x = run.problem.x0
    for t, after in enumerate(walked(run.problem, 20, seed=2)):
        z = normals(Tape(2), "normal", t, size=6)
        vote = next(v for v in (1.0, -1.0) if (after[0] == x - 2.0**-6 * (v * z)).all())
        assert (after == after[0]).all()
        x, seen = after[0], seen | {vote}
    assert seen == {1.0, -1.0}


def test_two_of_three_decide():
    """The third is a thousand times steeper and has one vote."""
    many = list(walked(linear([[1, 2], [1, 2], [-1000, -2000]]), 10))
    alone = list(walked(linear([[1, 2]]), 10))
    assert all((a == b).all() for a, b in zip(many, alone, strict=True))


@pytest.mark.parametrize("b", [[[1, 2], [-1, -2]], [[0, 0], [0, 0], [0, 0]], [[0, 0], [1, 2]]])
def test_ties_and_flat_losses_count_as_up(b):
    x = np.full(2, 2.0**-0.5)
    for t, after in enumerate(walked(linear(b), 10)):
        x = x - 2.0**-6 * normals(Tape(1), "normal", t, size=2)
        assert (after == x).all()


@pytest.mark.parametrize("wire", ["f64", "f32", "f16", "bf16"])
def test_no_wire_loses_a_vote(wire):
    run = small_run("feedsign", complete(5))
    assert_array_equal(states([run], 20, wire=wire), states([run], 20))


def test_nodes_that_start_alike_stay_alike_in_float32():
    x = states([small_run("feedsign", complete(5))], 30, dtype="float32")
    assert (x == x[:, :1]).all()


def test_votes_are_its_only_price():
    with pytest.raises(InputError, match="codec of feedsign 'values' is not known; choose from votes"):
        small("feedsign", codec="values")
