"""Supports that are held for several rounds, and pairs that stay together for an epoch: node by node."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.by_node import ETA, MU, SEED, Nodes
from zocosmo.core.balanced import balanced_support, epoch_length
from zocosmo.core.support import draw_signs, draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import path, ring
from zocosmo.graphs.matching import Alternating, Maximal
from zocosmo.methods import EdgeLocal
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation

RULES = {"uniform": draw_support, "balanced": balanced_support}


def edge_local(q=2, **options):
    return EdgeLocal(**{"eta": ETA, "mu": MU, "q": q, **options})


def plain_rounds(nodes, schedule, q, rounds, hold, pairs, rule, coupling):
    """x of all nodes after each round: everyone steps on the support of the meeting, and mixes at its end."""
    x, epoch = np.stack(nodes.x), epoch_length(nodes.d, q) if pairs == "epoch" else 1
    for t in range(rounds):
        meeting, y = t // hold, x.copy()
        partners = schedule.partners(nodes.tape, meeting // epoch)
        for i in range(nodes.n):
            j = int(partners[i])
            if i == j:
                continue
            pair = (min(i, j), max(i, j)) if coupling == "I" else ()
            index = RULES[rule](nodes.tape, meeting, *pair, d=nodes.d, q=q).index
            u = np.zeros(nodes.d)
            u[index] = draw_signs(nodes.tape, t, *pair, q=index.size)
            y[i, index] -= ETA * (nodes.d / index.size * nodes.slope(i, x[i], u, t) * u[index])
        x = y
        if (t + 1) % hold == 0:
            for i in range(nodes.n):
                j = int(partners[i])
                pair = (min(i, j), max(i, j)) if coupling == "I" else ()
                if i < j:
                    index = RULES[rule](nodes.tape, meeting, *pair, d=nodes.d, q=q).index
                    x[i, index] = x[j, index] = (y[i, index] + y[j, index]) / 2
        yield x.copy()


@pytest.mark.parametrize(
    ("graph", "schedule"), [(ring(6), Alternating), (path(5), Maximal)], ids=["ring", "path"]
)
@pytest.mark.parametrize("coupling", ["G", "I"])
@pytest.mark.parametrize(
    ("hold", "pairs", "rule"),
    [(3, "round", "uniform"), (1, "epoch", "balanced"), (2, "epoch", "balanced"), (4, "round", "balanced")],
)
def test_it_is_what_nodes_do_one_by_one(graph, schedule, coupling, hold, pairs, rule):
    options = {"hold": hold, "pairs": pairs, "rule": rule, "coupling": coupling}
    nodes = Nodes(graph, 6)
    simulation = nodes.simulation(edge_local(**options))
    for expected in plain_rounds(Nodes(graph, 6), schedule(graph), 2, 14, **options):
        simulation.round()
        assert_array_equal(simulation.states()[0], expected)


def test_values_cross_once_in_a_hold_and_the_log_counts_the_waits():
    simulation = Nodes(ring(6), 6).simulation(edge_local(hold=4))
    seen = []
    for _ in range(9):
        simulation.round()
        now = simulation.checkpoint()
        seen.append((int(now.bits["values"][0, 0]), int(now.stages[0])))
    assert seen == [(6 * 2 * 32 * (t // 4), t // 4) for t in range(1, 10)]


@pytest.mark.parametrize("wire", ["mod3", "mod5"])
def test_a_message_is_read_against_what_the_receiver_had_before_the_hold(wire):
    """All start alike, so a first message must reach the sender's way of eight steps, and no more."""
    options = {"hold": 8, "wire": wire, "directions": 2, "signs": "orthogonal"}
    simulation = Nodes(ring(6), 6).simulation(edge_local(**options))
    for _ in range(8):
        simulation.round()
    now = simulation.checkpoint()
    assert now.extra["failures"][0] == 0
    assert now.extra["wide"][0] == 0


def test_a_snapshot_in_the_middle_of_a_hold_goes_on_with_the_same_bits():
    method = edge_local(hold=4, pairs="epoch", rule="balanced", wire="mod4", correction=0.25)
    whole, first, second = (Nodes(ring(6), 6).simulation(method) for _ in range(3))
    for _ in range(23):
        whole.round()
    for _ in range(10):
        first.round()
    second.restore({name: np.array(array) for name, array in first.arrays().items()})
    for _ in range(13):
        second.round()
    assert_array_equal(second.states()[0], whole.states()[0])


@pytest.mark.parametrize("coupling", ["G", "I"])
def test_pairs_of_an_epoch_meet_on_every_coordinate_exactly_once(coupling):
    method, d = edge_local(q=4, pairs="epoch", rule="balanced", coupling=coupling), 10
    world = Run(method, ring(6), Quadratic(np.ones((6, d)), np.zeros((6, d)), 0.0, None), SEED).world
    for epoch in range(4):
        draws = [method.draw(world, Tape(SEED), np.array(3 * epoch + k)) for k in range(3)]
        partners = np.stack([draw.partners for draw in draws])
        assert (partners == Alternating(ring(6)).partners(Tape(SEED), epoch)).all()
        index = [np.broadcast_to(draw.u.index, (6, draw.u.q)) for draw in draws]
        assert_array_equal(np.sort(np.concatenate(index, axis=-1)), np.tile(np.arange(d), (6, 1)))


def energy_left(epochs, **options):
    """E‖x − x̄‖² after some epochs without steps, from the slowest mode of a ring of eight, over 200 tapes."""
    d, n = 16, 8
    problem = Quadratic(np.ones((n, d)), np.zeros((n, d)), 0.0, None)
    method = edge_local(q=4, rule="balanced", **{**options, "eta": 0.0})
    simulation = Simulation([Run(method, ring(n), problem, seed) for seed in range(200)])
    mode = np.cos(2 * np.pi * (np.arange(n) - 0.5) / n)  # the slowest mode of alternating matchings
    x = np.broadcast_to(mode[:, None], (200, n, d)).copy()
    simulation.state = simulation.method.init(x.copy())
    for _ in range(4 * epochs):
        simulation.round()
    left = simulation.states() - simulation.states().mean(axis=1, keepdims=True)
    return (left**2).sum() / (x**2).sum()


def test_on_an_even_ring_every_meeting_of_an_epoch_halves_the_slowest_disagreement():
    """Two perfect matchings in turn keep cos²(2π/n) of the amplitude; a coin for each keeps (1 + cos(2π/n))/2
    of the energy: 1/2 and 0.854 of the energy at each meeting of a coordinate, n = 8."""
    kept = energy_left(4, pairs="epoch", coupling="G")
    assert abs(kept - (1 + np.cos(np.pi / 4)) / 2 * 0.5**3) < 1e-12
    assert energy_left(4, coupling="G") > 2 * kept


def test_a_batch_of_holds_is_each_run_alone():
    runs = [
        Run(edge_local(hold=3, eta=eta), ring(6), Nodes(ring(6), 6).problem, SEED) for eta in (ETA, ETA / 2)
    ]
    together, alone = Simulation(runs), [Simulation([run]) for run in runs]
    for _ in range(7):
        for each in (together, *alone):
            each.round()
    assert_array_equal(together.states(), np.concatenate([each.states() for each in alone]))


def test_an_epoch_needs_balanced_supports():
    with pytest.raises(InputError, match="set rule: balanced"):
        edge_local(pairs="epoch")


@pytest.mark.parametrize("options", [{"hold": 0}, {"pairs": "week"}])
def test_other_values_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        edge_local(**options)
