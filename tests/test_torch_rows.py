"""States as rows of a tensor: the reads and writes of NumPy, to the bit, and runs that never notice."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from methods.cases import small  # noqa: E402
from zocosmo.core.support import Support  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.graphs.graph import complete, ring  # noqa: E402
from zocosmo.problems.rosenbrock import Rosenbrock, rosenbrock  # noqa: E402
from zocosmo.sim.engine import Run, Simulation  # noqa: E402
from zocosmo.state import zeros_like  # noqa: E402
from zocosmo.torch.aside import Aside  # noqa: E402
from zocosmo.torch.rows import Rows  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def odd_states(rng, shape):
    """Zeros of both signs, infinities, nan and the smallest number are among them."""
    x = rng.standard_normal(shape).astype(np.float32)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149], np.float32)
    return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), x)


@st.composite
def cases(draw):
    """States (runs, n, d), a support for all, for each run, or for each node, and values for it."""
    runs, n, d = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 9))
    q, rng = draw(st.integers(1, d)), np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (runs, n, d) if draw(st.booleans()) else (n, d)
    here = shape[:-1]
    leads = [(), (1,), (n,), (*here[:-1], 1), here]
    lead, of_values = draw(st.sampled_from(leads)), draw(st.sampled_from([(1,), here]))
    every = np.broadcast_to(np.arange(d), (*lead, d))
    support = Support(np.sort(rng.permuted(every, axis=-1)[..., :q], axis=-1), d)
    return odd_states(rng, shape), support, odd_states(rng, (*of_values, q))


@given(case=cases())
def test_rows_read_and_write_as_numpy_does(case):
    x, support, values = case
    rows, start = Rows(x, CPU), x.tobytes()
    assert support.restrict(rows).tobytes() == support.restrict(x).tobytes()
    assert support.restrict(rows).shape == (*x.shape[:-1], support.q)
    assert support.put(rows, values, out=rows) is rows
    assert np.asarray(rows).tobytes() == support.put(x, values).tobytes()
    assert support.restrict(rows).tobytes() == np.broadcast_to(values, (*x.shape[:-1], support.q)).tobytes()
    assert x.tobytes() == start  # rows are a copy


@given(case=cases())
def test_zeros_beside_rows_are_states_of_their_own(case):
    x, support, values = case
    rows = Rows(x, CPU)
    zeros = zeros_like(rows)
    assert np.asarray(zeros).tobytes() == np.zeros_like(x).tobytes()
    zeros.put(support, values)
    assert np.asarray(zeros).tobytes() == support.put(np.zeros_like(x), values).tobytes()
    assert np.asarray(rows).tobytes() == x.tobytes()


@given(case=cases())
def test_loaded_rows_have_all_entries_of_an_array_and_none_of_its_memory(case):
    x, support, values = case
    rows = zeros_like(Rows(x, CPU)).load(np.asfortranarray(x))
    assert np.asarray(rows).tobytes() == x.tobytes()
    before = x.tobytes()
    rows.load(x).put(support, values)
    assert x.tobytes() == before


def test_places_follow_the_support_that_is_given():
    """Two supports in turn: what is kept of the last must not serve the next."""
    rows = Rows(np.arange(8.0).reshape(2, 4), CPU)
    first, second = Support(np.array([0, 1]), 4), Support(np.array([[1, 3], [0, 2]]), 4)
    for _ in range(2):
        assert rows.restrict(first).tolist() == [[0, 1], [4, 5]]
        assert rows.restrict(second).tolist() == [[1, 3], [4, 6]]
    assert rows.places(second) is rows.zeros_like().places(second)  # shared with what lies beside


def test_an_array_of_rows_is_a_copy_where_one_was_asked_for():
    rows = Rows(np.ones((2, 3)), CPU)
    copy, double = np.array(rows), np.asarray(rows, np.float64)
    rows.load(np.zeros((2, 3)))
    assert copy.tolist() == np.ones((2, 3)).tolist()
    assert (double.dtype, double.tolist()) == (np.float64, np.ones((2, 3)).tolist())


def test_a_support_of_another_size_is_refused():
    with pytest.raises(InputError, match=r"states have 4 coordinates, got Support\(d=5, q=1"):
        Rows(np.zeros((2, 4)), CPU).restrict(Support(np.array([1]), 5))


# Whole runs


class OnDevice(Rosenbrock):
    """Keeps its states in rows, for methods that ask for no more."""

    def states(self, method, lead, dtype):
        x = super().states(method, lead, dtype)
        return Rows(x, CPU) if method.on_supports else x

    def __call__(self, x, t, *, active=None):
        return self.local(np.asarray(x))


def run_of(kind, rows, seed=1):
    graph = complete(4) if kind == "cosmo" else ring(5)  # an odd ring: some node idles in every round
    given = rosenbrock(graph.n, seed, d=6)
    problem = (OnDevice if rows else Rosenbrock)(given.shifts, given.alpha, given.x0)
    return Run(small(kind, eta=1e-3, beta=0.5, passes=2), graph, problem, seed)


def simulated(kind, rows):
    return Simulation([run_of(kind, rows, seed) for seed in (1, 2)], dtype="float32", bound=1e3)


def measured(simulation, rounds):
    for _ in range(rounds):
        simulation.round()
    now = simulation.checkpoint()
    arrays = {name: array.tobytes() for name, array in simulation.arrays().items()}
    return arrays, simulation.states().tobytes(), now.objective.tolist(), now.disagreement.tolist()


@pytest.mark.parametrize("kind", ["cosmo", "edge_local", "rand_k"])
def test_a_run_with_its_states_in_rows_is_the_run_with_arrays(kind):
    plain, ours = simulated(kind, rows=False), simulated(kind, rows=True)
    assert isinstance(ours.state.x, Rows)
    assert isinstance(ours.state.m, Rows)
    assert measured(plain, 7) == measured(ours, 7)
    assert measured(plain, 6) == measured(ours, 6)


def test_a_restored_run_in_rows_goes_on_to_the_same_bits():
    first, second = simulated("edge_local", rows=True), simulated("edge_local", rows=True)
    measured(first, 5)
    second.restore({name: array.copy() for name, array in first.arrays().items()})
    assert isinstance(second.state.x, Rows)
    assert measured(first, 4) == measured(second, 4)


def test_methods_that_touch_whole_states_get_arrays():
    problem = run_of("cosmo", rows=True).problem
    simulation = Simulation([Run(small("dense"), complete(4), problem, 1)], dtype="float32")
    assert isinstance(simulation.state.x, np.ndarray)


def test_states_that_were_taken_stay_as_they_were():
    simulation = simulated("cosmo", rows=True)
    before = simulation.states()
    kept = before.tobytes()
    measured(simulation, 3)
    assert before.tobytes() == kept != simulation.states().tobytes()


class Mark:
    """An event that says where it was recorded."""

    streams: ClassVar[list] = []

    def record(self, stream=None):
        self.streams.append(stream)

    def synchronize(self):
        pass


def test_a_copy_is_marked_on_the_stream_of_its_device_and_not_of_the_current_one(monkeypatch):
    monkeypatch.setattr(Mark, "streams", [])
    monkeypatch.setattr(torch.cuda, "Event", Mark)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: f"of {device}")
    aside = Aside(torch.device("cuda:1"))
    aside.memory = torch.zeros(2)  # there may be no such device here to read it
    aside.take(torch.ones(2))
    assert (aside.array().tolist(), Mark.streams) == ([1.0, 1.0], ["of cuda:1"])
