"""MEERKAT: q coordinates chosen once, and nothing else ever moves."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small_run
from zocosmo.core.normals import normals
from zocosmo.core.payload import Bits
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, erdos_renyi, ring
from zocosmo.methods import Meerkat
from zocosmo.problems.quadratic import Quadratic, quadratic
from zocosmo.sim.engine import Run, Simulation

WIRES = [("f64", "float64"), ("f32", "float64"), ("f16", "float64"), ("bf16", "float32")]


def meerkat(graph, *, d=6, seed=7, **changes):
    problem = quadratic(graph.n, 3, d=d, omega=0.5, zeta=1.0, sigma=0.5)
    given = {"eta": 0.011, "mu": 2.0**-10, "q": 2, "calibration": 5, **changes}
    return Run(Meerkat(**given), graph, problem, seed)


def taking_part(tape, t, n, count):
    """The `count` nodes with the smallest words, ascending; all of them where it is 0."""
    words = tape.coins("participants", t).words(n).tolist()
    return sorted(sorted(range(n), key=lambda i: (words[i], i))[: count or n])


class Node:
    """One node, that knows its loss, the tape and what it is told."""

    def __init__(self, run, i):
        self.i, self.m, self.problem, self.tape = i, run.method, run.problem, Tape(run.seed)
        self.x, self.support = run.problem.x0.copy(), None

    def slope(self, x, u, t):
        def f(point):
            return float(self.problem(np.broadcast_to(point, (self.problem.n, x.size)), t)[self.i])

        return (f(x + self.m.mu * u) - f(x - self.m.mu * u)) / (2 * self.m.mu)

    def direction(self, k, t):
        u = np.zeros_like(self.x)
        u[self.support] = normals(self.tape, "normal", t, k, size=self.m.q)
        return u

    def moved(self, x, k, scalar, t):
        return x - self.m.eta * scalar * self.direction(k, t)

    def calibrate(self):
        signs = [self.tape.coins("calibration", 0, k).signs(self.x.size) for k in range(self.m.calibration)]
        return [self.slope(self.x, u, 0) for u in signs]

    def local_scalars(self, t):
        y, scalars = self.x, []
        for k in range(self.m.local_steps):
            scalars.append(self.slope(y, self.direction(k, t), t))
            y = self.moved(y, k, scalars[-1], t)
        return scalars


def averaged(lists):
    return [sum(column[1:], start=column[0]) / len(lists) for column in zip(*lists, strict=True)]


def chosen_coordinates(scalars, tape, d, q):
    g = [0.0] * d
    for k, s in enumerate(scalars):
        for j, sign in enumerate(tape.coins("calibration", 0, k).signs(d).tolist()):
            g[j] += s * sign
    return sorted(sorted(range(d), key=lambda j: (-abs(g[j] / len(scalars)), j))[:q])


def literal(run, rounds):
    """x of all nodes after each round, written node by node from the description."""
    nodes, tape, m = [Node(run, i) for i in range(run.graph.n)], Tape(run.seed), run.method
    for t in range(rounds):
        there = [nodes[i] for i in taking_part(tape, t, run.graph.n, m.participants)]
        told = averaged([node.local_scalars(t) if t else node.calibrate() for node in there])
        for node in nodes:
            if t == 0:
                node.support = chosen_coordinates(told, tape, node.x.size, m.q)
            for k in range(m.local_steps if t else 0):
                node.x = node.moved(node.x, k, told[k], t)
        yield np.stack([node.x for node in nodes])


CASES = [
    (complete(4), 6, {}),
    (erdos_renyi(6, 0.5, 3), 9, {"q": 4, "local_steps": 3}),
    (ring(5), 6, {"participants": 2}),
    (ring(5), 9, {"participants": 3, "local_steps": 2, "q": 3}),
    (ring(3), 6, {"calibration": 1, "q": 3, "local_steps": 2}),  # as many numbers in round 0 as in the next
]


@pytest.mark.parametrize(("graph", "d", "changes"), CASES)
def test_states_are_those_of_the_description_node_by_node(graph, d, changes):
    run = meerkat(graph, d=d, **changes)
    simulation = Simulation([run])
    for expected in literal(run, 7):
        simulation.round()
        assert_array_equal(simulation.states()[0], expected)


@pytest.mark.parametrize(("wire", "dtype"), WIRES)
@pytest.mark.parametrize("participants", [0, 2])
def test_nothing_outside_the_support_ever_moves(wire, dtype, participants):
    runs = [meerkat(ring(4), d=20, q=3, seed=s, local_steps=2, participants=participants) for s in range(5)]
    simulation = Simulation(runs, wire=wire, dtype=dtype)
    start = simulation.states()
    for _ in range(9):
        simulation.round()
    moves = simulation.states() != start
    inside = np.zeros_like(moves)
    np.put_along_axis(inside, np.broadcast_to(simulation.state.support, (5, 4, 3)), True, axis=-1)
    assert_array_equal(moves, inside)


@pytest.mark.parametrize(("wire", "dtype"), WIRES)
def test_nodes_that_do_not_take_part_keep_up_to_the_bit(wire, dtype):
    simulation = Simulation([meerkat(ring(5), participants=2, local_steps=3)], wire=wire, dtype=dtype)
    for _ in range(12):
        simulation.round()
        x = simulation.states()[0]
        assert_array_equal(x, np.broadcast_to(x[0], x.shape))
        assert_array_equal(simulation.method.model(simulation.state), x[:1])


def test_round_zero_chooses_and_moves_nothing():
    simulation = Simulation([meerkat(ring(4))])
    start = simulation.states()
    simulation.round()
    assert_array_equal(simulation.states(), start)
    assert simulation.queries.tolist() == [4 * 2 * 5]


def test_coordinates_with_all_of_the_slope_are_chosen():
    """f = x_3 + x_5: the estimates there are 1 + m and elsewhere m′ + m″, where the m are means of C = 512
    products of signs. All is well while |m| < 1/3, and P(|m| ≥ 1/3) ≤ 2 exp(−512/18) < 10^-11."""
    b = np.zeros((4, 9))
    b[:, [3, 5]] = 1.0
    problem = Quadratic(np.zeros((4, 9)), b, 0.0, None)
    simulation = Simulation([small_run("meerkat", ring(4), problem=problem, calibration=512)])
    simulation.round()
    assert simulation.state.support.tolist() == [[[3, 5]]]


class Watched(Quadratic):
    """Notes where nodes ask, and what they are told."""

    def slopes(self, query, t):
        slope = super().slopes(query, t)
        self.notes = [*getattr(self, "notes", []), (t, query.x.copy(), slope)]
        return slope


def test_a_nodes_local_path_can_be_rebuilt_from_its_scalars():
    """The virtual path: coordinates, seeds and scalars give every point at which a node asked."""
    run = meerkat(ring(4), local_steps=3)
    own = run.problem
    watched = Watched(own.half, own.b, own.sigma, own.noise)
    simulation = Simulation([Run(run.method, run.graph, watched, run.seed)])
    for _ in range(2):
        simulation.round()
    asked = [(x[0], slope[0]) for t, x, slope in simulation.problem.notes if t == 1]
    for i in range(4):
        node = Node(run, i)
        node.support, path = simulation.state.support[0, 0], node.x
        for k, (x, slope) in enumerate(asked):
            assert_array_equal(x[i], path)
            path = node.moved(path, k, slope[i, 0], 1)


@pytest.mark.parametrize(("codec", "seed"), [("seed_scalar", 64), ("values", 0)])
@pytest.mark.parametrize(("participants", "local_steps"), [(0, 1), (2, 1), (3, 4)])
def test_bits_are_scalars_up_and_averages_down(codec, seed, participants, local_steps):
    """d = 100: a coordinate takes 7 bits. Seeds of round 0 come up with the scalars, later ones go down."""
    run = meerkat(ring(5), d=100, q=3, participants=participants, local_steps=local_steps)
    simulation, rounds = Simulation([run], codecs=[codec]), 8
    for _ in range(rounds):
        simulation.round()
    ledger = simulation.channel.ledger(codec)
    there = [taking_part(Tape(7), t, 5, participants) for t in range(rounds)]
    for i in range(5):
        first, later = 5 * (i in there[0]), local_steps * sum(i in who for who in there[1:])
        down, up = local_steps * (rounds - 1), ledger.link(i, 5)
        assert up._replace(framing=0) == Bits(values=32 * (first + later), control=seed * first)
        assert ledger.link(5, i)._replace(framing=0) == Bits(32 * down, indices=3 * 7, control=seed * down)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"q": 0}, "q must be 1 or more, got 0"),
        ({"calibration": 0}, "calibration must be 1 or more, got 0"),
        ({"local_steps": 0}, "local_steps must be 1 or more, got 0"),
        ({"participants": -1}, "participants must be 0 or more, got -1"),
        ({"participants": 5}, "participants = 5 of n = 4 nodes"),
        ({"q": 7}, "q = 7 coordinates of d = 6"),
    ],
)
def test_what_cannot_be_run_is_refused(bad, says):
    with pytest.raises(InputError, match=says):
        Simulation([meerkat(complete(4), **bad)])
