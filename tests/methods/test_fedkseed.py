"""FedKSeed: K sums along K fixed directions are the whole model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from zocosmo.core.normals import normals
from zocosmo.core.payload import Bits
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, erdos_renyi, ring
from zocosmo.methods import FedKSeed, fedkseed
from zocosmo.problems.quadratic import Quadratic, quadratic
from zocosmo.sim.engine import Run, Simulation


def run_of(graph, *, d=6, seed=7, **changes):
    problem = quadratic(graph.n, 3, d=d, omega=0.5, zeta=1.0, sigma=0.5)
    return Run(FedKSeed(**{"eta": 0.011, "mu": 2.0**-10, "candidates": 5, **changes}), graph, problem, seed)


def taking_part(tape, t, n, count):
    """The `count` nodes with the smallest words, ascending; all of them where it is 0."""
    words = tape.coins("participants", t).words(n).tolist()
    return sorted(sorted(range(n), key=lambda i: (words[i], i))[: count or n])


def rebuilt(x0, a, z):
    walk = a[0] * z[0]
    for a_j, z_j in zip(a[1:], z[1:], strict=True):
        walk = walk + a_j * z_j
    return x0 - walk


def literal(run, rounds):
    """(x of all nodes, the server's model) after each round, node by node from the description."""
    m, tape, problem, n = run.method, Tape(run.seed), run.problem, run.graph.n
    z = [normals(tape, "candidate", j, size=problem.d) for j in range(m.candidates)]
    a, x0, x = [0.0] * m.candidates, problem.x0, [problem.x0] * n

    def f(i, point, t):
        return float(problem(np.broadcast_to(point, (n, problem.d)), t)[i])

    for t in range(rounds):
        there, total = taking_part(tape, t, n, m.participants), [0.0] * m.candidates
        for i in there:
            y = rebuilt(x0, a, z)
            for word in tape.coins("choice", t, i).words(m.local_steps).tolist():
                c = word % m.candidates
                s = (f(i, y + m.mu * z[c], t) - f(i, y - m.mu * z[c], t)) / (2 * m.mu)
                y, total[c] = y - m.eta * s * z[c], total[c] + s
            x[i] = y
        a = [old + m.eta * (new / len(there)) for old, new in zip(a, total, strict=True)]
        yield np.stack(x), rebuilt(x0, a, z)


CASES = [
    (complete(4), 6, {}),
    (erdos_renyi(6, 0.5, 3), 9, {"local_steps": 4}),
    (ring(5), 6, {"participants": 3, "candidates": 64}),
    (ring(5), 9, {"participants": 3, "local_steps": 3, "candidates": 3}),
    (ring(3), 1, {"candidates": 1}),
]


@pytest.mark.parametrize(("graph", "d", "changes"), CASES)
def test_states_and_model_are_those_of_the_description_node_by_node(graph, d, changes):
    run = run_of(graph, d=d, **changes)
    simulation = Simulation([run])
    for x, model in literal(run, 7):
        simulation.round()
        assert_array_equal(simulation.states()[0], x)
        assert_array_equal(simulation.method.model(simulation.state)[0], model)


@pytest.mark.parametrize("wire", ["f64", "f32", "f16", "bf16"])
def test_the_sums_that_cross_the_wire_give_the_servers_model_to_the_bit(wire):
    simulation = Simulation([run_of(ring(4), participants=2, local_steps=2)], wire=wire)
    z = [normals(Tape(7), "candidate", j, size=6) for j in range(5)]
    for _ in range(20):
        simulation.round()
    sums = simulation.channel.as_read(simulation.state.a)[0, 0]
    x0 = simulation.problem.x0[0]
    assert_array_equal(simulation.method.model(simulation.state)[0], rebuilt(x0, sums, z))


class Watched(Quadratic):
    """Notes where nodes ask."""

    def slopes(self, query, t):
        self.notes = [*getattr(self, "notes", []), (query.x[0].copy(), query.active)]
        return super().slopes(query, t)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_whoever_takes_part_begins_at_the_servers_model(dtype):
    """However long they have been away."""
    run = run_of(ring(6), participants=2)
    own = run.problem
    watched = Watched(own.half, own.b, own.sigma, own.noise)
    simulation = Simulation([Run(run.method, run.graph, watched, 7)], dtype=dtype)
    for _ in range(15):
        model = simulation.method.model(simulation.state)
        simulation.round()
        x, active = simulation.problem.notes[-1]
        assert_array_equal(x[active[0]], np.broadcast_to(model, (2, 6)))


def test_whoever_does_not_take_part_stands_still_and_asks_nothing():
    simulation = Simulation([run_of(ring(6), participants=2, local_steps=3)])
    for t in range(10):
        before = simulation.states()[0]
        simulation.round()
        moved = (simulation.states()[0] != before).any(axis=-1)
        assert np.flatnonzero(moved).tolist() == taking_part(Tape(7), t, 6, 2)
    assert simulation.queries.tolist() == [10 * 2 * 3 * 2]


@pytest.mark.parametrize(("codec", "index"), [("indexed", 3), ("plain", 32)])
@pytest.mark.parametrize(
    ("participants", "local_steps", "d"), [(0, 1, 6), (2, 1, 6), (3, 4, 6), (0, 5, 5), (0, 3, 3)]
)
def test_bits_are_pairs_up_and_sums_down(codec, index, participants, local_steps, d):
    """⌈log₂ 5⌉ = 3 bits name a candidate, whatever d is."""
    run = run_of(ring(5), d=d, participants=participants, local_steps=local_steps)
    simulation, rounds = Simulation([run], codecs=[codec]), 8
    for _ in range(rounds):
        simulation.round()
    ledger = simulation.channel.ledger(codec)
    for i in range(5):
        times = sum(i in taking_part(Tape(7), t, 5, participants) for t in range(rounds))
        pairs = local_steps * times
        assert ledger.link(i, 5)._replace(framing=0) == Bits(32 * pairs, indices=index * pairs)
        assert ledger.link(5, i)._replace(framing=0) == Bits(values=32 * 5 * times)


def test_a_round_of_the_published_size_takes_less_than_18_kilobytes():
    """4096 sums of 4 bytes down, 200 pairs of 8 bytes up; 12 bits would name a candidate, and 1,100 do."""
    run = run_of(complete(1), d=2, candidates=4096, local_steps=200)
    simulation = Simulation([run], codecs=["plain", "indexed"])
    simulation.round()
    plain, indexed = (simulation.channel.ledger(c) for c in simulation.codecs)
    assert plain.link(1, 0).payload == indexed.link(1, 0).payload == 8 * 16 * 1024
    assert (plain.link(0, 1).payload, indexed.link(0, 1).payload) == (8 * 1600, 8 * 1100)
    assert plain.network().payload == 8 * 17_984 < 8 * 18_000


def test_candidates_are_drawn_once_for_a_run(monkeypatch):
    drawn = []
    monkeypatch.setattr(fedkseed, "normals", lambda *a, **k: drawn.append(a) or normals(*a, **k))
    fedkseed.table.cache_clear()
    simulation = Simulation([run_of(ring(3), seed=11)])
    for _ in range(200):
        simulation.round()
    assert len(drawn) == 1


def test_candidates_are_chosen_uniformly():
    """40,000 choices among 5: each count has σ = 80, and 6σ is left in less than 10^-8 of cases."""
    run = run_of(ring(5), local_steps=5)
    choice = run.method.draw(run.world, Tape(3)[None], np.arange(1600)).choice
    assert choice.shape == (1600, 5, 5)
    assert np.abs(np.bincount(choice.reshape(-1)) - 8000).max() < 6 * 80


@given(st.data())
def test_sums_by_candidate_add_nodes_in_ascending_order(data):
    runs, n, tau, K = (data.draw(st.integers(1, most)) for most in (3, 4, 4, 5))
    numbers = st.floats(-1e6, 1e6, width=64)
    slopes = np.array(data.draw(st.lists(numbers, min_size=runs * n * tau, max_size=runs * n * tau)))
    choice = np.array(data.draw(st.lists(st.integers(0, K - 1), min_size=slopes.size, max_size=slopes.size)))
    slopes, choice = slopes.reshape(runs, n, tau), choice.reshape(runs, n, tau)
    expected = np.zeros((runs, 1, K))
    for run, i, k in np.ndindex(runs, n, tau):
        expected[run, 0, choice[run, i, k]] += slopes[run, i, k]
    assert_array_equal(fedkseed.by_candidate(slopes, choice, K), expected)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"candidates": 0}, "candidates must be 1 or more, got 0"),
        ({"local_steps": 0}, "between 1 and 5, got 0"),
        ({"local_steps": 6}, "at most its candidates.* between 1 and 5, got 6"),
        ({"participants": -1}, "participants must be 0 or more, got -1"),
        ({"participants": 5}, "participants = 5 of n = 4 nodes"),
    ],
)
def test_what_cannot_be_run_is_refused(bad, says):
    with pytest.raises(InputError, match=says):
        Simulation([run_of(complete(4), **bad)])
