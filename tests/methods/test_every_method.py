"""What holds for every method in the table, a toy one included."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import (
    ASKED,
    COMPLETE,
    GRAPHS,
    NAMES,
    OWN_BILLS,
    PLACES,
    TABLE,
    runs_alone,
    small,
    small_run,
    states,
)
from zocosmo.core.price import PRICES
from zocosmo.core.values import F32
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete
from zocosmo.methods import METHODS
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Simulation


@pytest.mark.parametrize(("name", "graph"), PLACES)
def test_a_run_in_company_is_the_run_alone(name, graph):
    """Seeds, steps, problems and graphs of the others change no bit."""
    sort = "complete" if name in COMPLETE else graph
    mine = small_run(name, sort, seed=5)
    others = [small_run(name, sort, seed=s, eta=eta, mu=2.0**-8) for s in (1, 5) for eta in (0.0, 0.125)]
    assert_array_equal(states([others[0], mine, *others[1:]], 7)[1], states([mine], 7)[0])


@pytest.mark.parametrize("name", [name for name in NAMES if (name, "ring") in PLACES])
def test_graphs_of_one_size_share_a_batch(name):
    runs = [small_run(name, graph, seed=2) for graph in ("complete", "ring")]
    alone = [states([run], 6)[0] for run in runs]
    assert_array_equal(states(runs, 6), np.stack(alone))


@pytest.mark.parametrize(("name", "graph"), PLACES)
def test_a_short_run_is_a_prefix_of_a_long_one(name, graph):
    run = small_run(name, graph)
    simulation, seen = Simulation([run]), []
    for _ in range(10):
        simulation.round()
        seen.append(simulation.states())
    for rounds in (1, 4, 7):
        assert_array_equal(states([run], rounds), seen[rounds - 1])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "graph"), PLACES)
def test_a_restored_run_goes_on_to_the_same_bits(name, graph, dtype):
    run = small_run(name, graph, beta=0.5)
    first, second = Simulation([run], dtype=dtype), Simulation([run], dtype=dtype)
    for _ in range(4):
        first.round()
    second.restore({key: value.copy() for key, value in first.arrays().items()})
    for _ in range(4):
        first.round()
        second.round()
    a, b = first.checkpoint(), second.checkpoint()
    assert_array_equal(first.states(), second.states())
    assert (a.queries == b.queries).all()
    assert all(np.array_equal(a.bits[c], b.bits[c]) for c in a.bits)


@pytest.mark.parametrize("name", NAMES)
def test_mixing_keeps_the_average(name):
    """Step 0, integer starts, weights 1/4: nothing rounds, so column sums are equal, not close."""
    x = np.arange(24.0).reshape(1, 4, 6) ** 2
    simulation = Simulation([small_run(name, eta=0.0, gamma=0.125)])
    simulation.state = simulation.method.init(x.copy())
    for _ in range(3):
        simulation.round()
        assert_array_equal(simulation.state.x.sum(axis=1), x.sum(axis=1))


@pytest.mark.parametrize("wire", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_lossy_wire_keeps_the_average(name, wire):
    """Step 0: each node's change is a sum of terms that its peers undo; only the last bits of sums remain.

    n = 4 nodes, at most 4 additions each of numbers below 2: errors below 4 · 4 · 2^-53 · 2 a round.
    """
    simulation = Simulation([small_run(name, eta=0.0, theta=3.0)], wire=wire)
    x = np.linspace(-1, 1, 24).reshape(1, 4, 6)
    simulation.state = simulation.method.init(x.copy())
    for _ in range(3):
        simulation.round()
    assert np.abs(simulation.state.x.sum(axis=1) - x.sum(axis=1)).max() <= 3 * 32 * 2.0**-53


@pytest.mark.parametrize(
    ("name", "codec"), [(name, codec) for name in NAMES for codec in small(name).codecs[1:]]
)
def test_another_codec_changes_the_bill_and_nothing_else(name, codec):
    """Same values, same messages: bits differ by the ratio of the codecs' prices, to the bit."""
    runs = [small_run(name, codec=c, d=64) for c in ("", codec)]
    assert_array_equal(states(runs[:1], 5), states(runs[1:], 5))
    if name in OWN_BILLS:
        return
    simulation = Simulation(runs[:1], codecs=small(name).codecs)
    for _ in range(5):
        simulation.round()
    bills = {c: simulation.channel.ledger(c).network() for c in simulation.codecs}
    dense = 2 * 12 * 64 * 32 if name == "marina_type" else 0  # two of its five rounds send all
    messages = [(bills[c].values - dense) / PRICES[c](64, 2, F32).values for c in simulation.codecs]
    assert len(set(messages)) == 1
    expected = {c: PRICES[c](64, 2, F32).times(int(messages[0])) for c in simulation.codecs}
    assert {c: b.payload - dense for c, b in bills.items()} == {c: b.payload for c, b in expected.items()}


@pytest.mark.parametrize(("name", "graph"), PLACES)
def test_two_queries_of_each_active_node_are_counted(name, graph):
    class Counting(Quadratic):
        asked = 0

        def __call__(self, x, t, *, active=None):
            Counting.asked += x.shape[1] if active is None else int(active.sum())
            return super().__call__(x, t)

    run = small_run(name, graph)
    own = run.problem
    problem = Counting(own.half, own.b, own.sigma, own.noise)
    simulation = Simulation([small_run(name, graph, problem=problem)])
    for _ in range(5):
        simulation.round()
    assert simulation.queries.tolist() == [Counting.asked]
    assert Counting.asked == ASKED.get(name, 10) * GRAPHS[graph].n or name == "edge_local"


@pytest.mark.parametrize("name", [name for name in NAMES if runs_alone(name)])
def test_one_node_alone_descends_and_pays_nothing(name):
    simulation = Simulation([small_run(name, complete(1), eta=2.0**-7)])
    before = simulation.checkpoint().objective
    for _ in range(60):
        simulation.round()
    after = simulation.checkpoint()
    assert after.objective < before
    paid = simulation.channel.ledger(simulation.codecs[0]).network().total
    assert (paid > 0) == TABLE[name].server  # a server is someone else


def test_matchings_refuse_one_node():
    assert not runs_alone("edge_local")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [{"eta": -1.0}, {"mu": 0.0}, {"eta": float("nan")}, {"codec": "morse"}])
def test_bad_parameters_are_refused_at_once(name, bad):
    with pytest.raises(InputError):
        small(name, **bad)


@pytest.mark.parametrize("name", NAMES)
def test_float32_states_stay_float32(name):
    assert states([small_run(name)], 3, dtype="float32", wire="f32").dtype == np.float32


def test_the_tables_keys_are_the_methods_own_names():
    assert {name: kind.kind for name, kind in METHODS.items()} == {name: name for name in METHODS}
