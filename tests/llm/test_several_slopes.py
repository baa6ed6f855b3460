"""A language model asked along several directions on one support."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from zocosmo.errors import InputError  # noqa: E402
from zocosmo.graphs.graph import complete  # noqa: E402
from zocosmo.methods import Cosmo, Fzoo  # noqa: E402
from zocosmo.problems.language import llm  # noqa: E402
from zocosmo.sim.engine import Run, Simulation  # noqa: E402
from zocosmo.torch.rows import Rows  # noqa: E402

SMALL = {"rank": 2, "batch": 2, "train_rows": 40, "validation_rows": 17, "threads": 1, "eval_batch": 4}
STEP = {"q": 8, "eta": 1.0, "mu": 0.01}


def build(model, queries="one_by_one"):
    return llm(3, 1, model=str(model), queries=queries, **SMALL)


@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
def test_slopes_are_those_of_single_queries(model, queries):
    problem = build(model, queries)
    simulation = Simulation([Run(Cosmo(**STEP, directions=3), complete(3), problem, 1)], dtype=np.float32)
    query = simulation.ask()
    whole = simulation.problem.slopes(query, 0)
    single = [simulation.problem.slopes(one, 0) for one in query.each()]
    assert whole.shape == (1, 3, 3)
    assert (whole == np.concatenate(single, axis=-1)).all()


def test_states_on_a_device_are_those_of_an_array(model):
    method, ends = Cosmo(**STEP, directions=4, signs="orthogonal", step_rule="normalised"), []
    for kind in (np.array, lambda x: Rows(x, torch.device("cpu"))):
        run = Run(method, complete(3), build(model), 1)
        simulation = Simulation([run], dtype=np.float32)
        simulation.state = method.init(kind(np.asarray(simulation.state.x)))
        for _ in range(3):
            simulation.round()
        ends.append(simulation.states())
    assert (ends[0] == ends[1]).all()


def test_one_side_is_refused_before_work_starts(model):
    with pytest.raises(InputError, match="use sides 2, not 1"):
        Simulation([Run(Cosmo(**STEP, sides=1), complete(3), build(model), 1)], dtype=np.float32)


@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
def test_dense_directions_may_have_one_side(model, queries):
    """As FZOO asks: at x once, then at x + μu of each direction, on one batch."""
    problem = build(model, queries)
    simulation = Simulation(
        [Run(Fzoo(eta=0.1, mu=0.01, directions=3), complete(3), problem, 1)], dtype=np.float32
    )
    query, inner = simulation.ask(), simulation.problem
    found = inner.slopes(query, 0)
    centre, mu = inner(query.x, 0), np.float32(query.mu)
    each = [inner(query.x + mu * u.entries.astype(np.float32), 0) for u in query.directions]
    expected = np.stack([(plus - centre) / query.mu for plus in each], axis=-1).astype(np.float32)
    assert (found == expected).all()
    assert (inner.record.count == 3).all()
    before = simulation.states()
    simulation.round()
    assert (simulation.states() != before).any()
    assert (simulation.queries == 3 * 4).all()
