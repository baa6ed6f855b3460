"""DeComFL: nodes that slept have the server's model to the bit, and the bill is the published one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import reference
from methods.cases import small_run, states
from zocosmo.core.normals import normals
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import World
from zocosmo.methods.decay import DECAYS
from zocosmo.methods.server import average, participants
from zocosmo.problems.quadratic import quadratic
from zocosmo.rounds.guard import Guard
from zocosmo.sim.engine import Run, Simulation

WIRES = [
    ("float64", "nominal_f32"),
    ("float64", "f32"),
    ("float64", "f16"),
    ("float32", "bf16"),
    ("float32", "f32"),
]


def partial_run(seed=1, n=6, taking=2, steps=2, directions=3, **changes):
    """Two of six nodes, two local steps of three directions each."""
    parts = {"participants": taking, "local_steps": steps, "perturbations": directions}
    return small_run("decomfl", complete(n), seed=seed, **parts, **changes)


def taking_part(seed, t, n, count):
    return sorted(reference.permutation(seed, n, "participants", (t,))[: count or n])


def last_and_times(seed, rounds, n, count):
    """For each node the last round it took part in (0 where there was none), and in how many it did."""
    rows = [taking_part(seed, t, n, count) for t in range(rounds)]
    seen = [[t for t in range(rounds) if i in rows[t]] for i in range(n)]
    return [max(own, default=0) for own in seen], [len(own) for own in seen]


@pytest.mark.parametrize(("dtype", "wire"), WIRES)
def test_a_node_that_wakes_has_the_servers_model_to_the_bit(dtype, wire):
    decay = DECAYS["cosine"](rounds=60)
    simulation = Simulation([partial_run(seed, decay=decay) for seed in (1, 2, 7)], dtype=dtype, wire=wire)
    slept = 0
    for t in range(60):
        w, last = simulation.state.w.copy(), simulation.state.last
        simulation.round()
        woken = simulation.draws.at(t).active
        assert_array_equal(simulation.state.x[woken], np.broadcast_to(w, simulation.state.x.shape)[woken])
        slept = max(slept, (t - last[woken]).max())
    assert slept >= 10
    assert (simulation.state.w != w).any(axis=-1).all()


def test_a_step_that_dropped_meanwhile_is_replayed_as_it_was():
    """A guard halves η between two rounds; nodes that sleep through it must not replay with the new one."""
    simulation = Simulation([partial_run()], guard=Guard())
    for t in range(40):
        w = simulation.state.w.copy()
        if t % 10 == 9:
            simulation.guarded.set(simulation.guarded.scale / 2)
        simulation.round()
        woken = simulation.draws.at(t).active[0]
        assert (simulation.state.x[0, woken] == w[0]).all()


def test_those_who_sleep_keep_everything_and_are_asked_nothing():
    simulation = Simulation([partial_run()])
    for t in range(20):
        x, last = simulation.state.x.copy(), simulation.state.last
        simulation.round()
        asleep = ~simulation.draws.at(t).active
        assert_array_equal(simulation.state.x[asleep], x[asleep])
        assert_array_equal(simulation.state.last[asleep], last[asleep])
    assert simulation.queries.tolist() == [20 * 2 * 2 * 2 * 3]  # rounds · nodes · queries · K · P


def test_the_server_keeps_no_more_than_some_node_lacks():
    simulation = Simulation([partial_run(seed) for seed in (3, 4)])
    for t in range(30):
        simulation.round()
        assert simulation.state.history.shape == (2, t + 1 - simulation.state.last.min(), 6)


@pytest.mark.parametrize("taking", [0, 2])
@pytest.mark.parametrize(("codec", "seed_bits"), [("seed_scalar", 64), ("values", 0)])
def test_every_link_carries_the_published_bits(codec, seed_bits, taking):
    """Up: KP scalars. Down: for each missed round KP scalars with their seeds, and KP seeds of the round."""
    simulation, KP = Simulation([partial_run(5, taking=taking)], codecs=("seed_scalar", "values")), 6
    for _ in range(25):
        simulation.round()
    ledger = simulation.channel.ledger(codec)
    for i, (last, times) in enumerate(zip(*last_and_times(5, 25, 6, taking), strict=True)):
        up, down = ledger.link(i, 6), ledger.link(6, i)
        assert up[:3] == (32 * KP * times, 0, 0)
        assert down[:3] == (32 * KP * last, 0, seed_bits * KP * (last + times))


def test_everyone_every_round_pays_two_scalars_a_direction_and_round():
    """All n in each of T rounds under values: nKP scalars up in each, and down in all but the first."""
    simulation = Simulation([partial_run(taking=0, codec="values")], codecs=("values",))
    for _ in range(12):
        simulation.round()
    assert simulation.checkpoint().served["values"].tolist() == [[12 * 36 * 32, 11 * 36 * 32]]


def plain(run, rounds):
    """DeComFL once more, node by node and scalar by scalar."""
    method, n, d, tape = run.method, run.problem.n, run.problem.d, Tape(run.seed)
    K, P = method.local_steps, method.perturbations
    z = [[normals(tape, "normal", t, j, size=d) for j in range(K * P)] for t in range(rounds)]

    def moved(x, t, k, scalars):
        total = 0.0
        for p in range(P):
            total = total + scalars[k * P + p] * z[t][k * P + p]
        return x - method.eta_at(t) / P * total

    def replayed(x, t):
        for k in range(K):
            x = moved(x, t, k, means[t])
        return x

    server, models, last, means = run.problem.x0, [run.problem.x0] * n, [0] * n, []
    for t in range(rounds):
        told = []
        for i in taking_part(run.seed, t, n, method.participants):
            for tau in range(last[i], t):
                models[i] = replayed(models[i], tau)
            y, own, last[i] = models[i], [], t
            for k in range(K):
                own += [slope(run.problem.at([i]), y, z[t][k * P + p], method.mu, t) for p in range(P)]
                y = moved(y, t, k, own)
            told.append(own)
        means.append([sum(column) / len(told) for column in zip(*told, strict=True)])
        server = replayed(server, t)
    return server, np.stack(models)


def slope(problem, y, z, mu, t):
    f_plus, f_minus = (problem((y + shift)[None], t)[0] for shift in (mu * z, -(mu * z)))
    return (f_plus - f_minus) / (2 * mu)


@pytest.mark.parametrize(("n", "taking", "steps", "directions"), [(6, 2, 2, 3), (4, 0, 3, 1), (5, 1, 1, 2)])
def test_it_is_the_method_written_node_by_node(n, taking, steps, directions):
    run = partial_run(9, n, taking, steps, directions, decay=DECAYS["cosine"](rounds=14))
    simulation = Simulation([run])
    for _ in range(14):
        simulation.round()
    server, models = plain(run, 14)
    assert_array_equal(simulation.state.w[0, 0], server)
    assert_array_equal(simulation.method.model(simulation.state)[0], server)
    assert_array_equal(simulation.state.x[0], models)


def test_sleepers_in_company_are_sleepers_alone():
    """Others sleep longer, and so keep a longer history."""
    runs = [partial_run(seed, taking=1, eta=eta) for seed in (1, 2, 3) for eta in (2.0**-6, 2.0**-8)]
    assert_array_equal(states(runs, 30), np.concatenate([states([run], 30) for run in runs]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sleepers_wake_alike_after_a_restart(dtype):
    first, second = (Simulation([partial_run(taking=1)], dtype=dtype) for _ in range(2))
    for _ in range(15):
        first.round()
    second.restore({name: array.copy() for name, array in first.arrays().items()})
    for simulation in (first, second):
        for _ in range(15):
            simulation.round()
    assert all((a == b).all() for a, b in zip(first.state, second.state, strict=True))
    assert first.channel.ledger("seed_scalar").network() == second.channel.ledger("seed_scalar").network()


def test_more_scalars_than_coordinates_have_a_price():
    simulation = Simulation([partial_run(taking=0, steps=4, d=3)])
    simulation.round()
    assert simulation.channel.ledger("seed_scalar").link(0, 6).values == 12 * 32


@given(st.integers(0, 99), st.integers(1, 9), st.data())
@settings(max_examples=30)
def test_participants_are_the_first_of_a_public_order(seed, n, data):
    count = data.draw(st.integers(1, n))
    taking = participants(Tape(seed), np.arange(5), n, count)
    assert [np.flatnonzero(row).tolist() for row in taking] == [
        taking_part(seed, t, n, count) for t in range(5)
    ]


def test_with_none_named_all_take_part():
    assert participants(Tape(0), np.arange(5), 4, 0) is None


def test_an_average_leaves_out_what_sleepers_have_in_their_place():
    heard, active = np.array([[1.0], [np.nan], [4.0]]), np.array([True, False, True])
    assert average(heard, active).tolist() == [[2.5]]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"directions": 0}, "perturbations must be 1 or more, got 0"),
        ({"steps": 0}, "local_steps must be 1 or more, got 0"),
        ({"taking": -1}, "participants must be 0 or more, got -1"),
        ({"steps": 1.5}, "local_steps must be a whole number, got 1.5"),
    ],
)
def test_bad_counts_are_refused(bad, said):
    with pytest.raises(InputError, match=said):
        partial_run(**bad)


def test_more_participants_than_nodes_are_refused():
    run = Run(partial_run(taking=5).method, ring(4), quadratic(4, 1, d=6), 1)
    with pytest.raises(InputError, match="participants = 5 of n = 4 nodes cannot take part; 0 means all"):
        run.method.check(World(run.graph, 6))
