"""The matrices of an adapter, and the methods that go by them or ask along dense directions."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from llm.tiny import tiny_folder  # noqa: E402
from methods.cases import small  # noqa: E402
from zocosmo.dist.engine import Host  # noqa: E402
from zocosmo.graphs.graph import complete, ring  # noqa: E402
from zocosmo.methods import METHODS  # noqa: E402
from zocosmo.problems.language import llm  # noqa: E402
from zocosmo.sim.engine import Run, Simulation  # noqa: E402

SMALL = {"batch": 2, "train_rows": 40, "validation_rows": 8, "threads": 1, "eval_batch": 4}
FORWARD = {
    "seedflood": {},
    "subcge": {"rank": 4, "refresh": 2},
    "mezo": {},
    "sparse_mezo": {"sparsity": 0.5},
    "subzero": {"rank": 2, "refresh": 2},
}
ETA = 0.05


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    model = str(tiny_folder(tmp_path_factory.mktemp("models") / "tiny"))
    return lambda **given: llm(3, 1, model=model, **{**SMALL, "rank": 2, "queries": "one_by_one", **given})


def advanced(run, rounds, dtype="float32"):
    simulation = Simulation([run], dtype=dtype)
    for _ in range(rounds):
        simulation.round()
    return simulation


@pytest.mark.parametrize("rank", [1, 2, 8])
@pytest.mark.parametrize("targets", ["q_proj,v_proj", "all-linear"])
def test_shapes_are_those_of_the_factors_in_the_order_of_the_vector(make, rank, targets):
    problem = make(rank=rank, targets=targets)
    matrices = problem.subject.layout.matrices(np.arange(problem.d, dtype=np.float32))
    assert problem.shapes == tuple(matrix.shape for matrix in matrices.values())
    flat = np.concatenate([matrix.ravel() for matrix in matrices.values()])
    assert (flat == np.arange(problem.d)).all()


def test_a_run_tells_its_method_the_shapes(make):
    problem = make()
    world = Run(METHODS["mezo"](eta=ETA, mu=0.01), ring(3), problem, 1).world
    assert world.shapes == problem.shapes == ((2, 32), (32, 2), (2, 32), (16, 2)) * 2


@pytest.mark.parametrize("queries", ["one_by_one", "fused"])
@pytest.mark.parametrize("name", FORWARD)
def test_methods_run_on_adapters_and_move_them(make, name, queries):
    problem = make(queries=queries)
    run = Run(METHODS[name](eta=ETA, mu=0.01, **FORWARD[name]), ring(3), problem, 1)
    simulation = advanced(run, 3)
    x, told = simulation.states()[0], simulation.checkpoint()
    assert np.isfinite(told.objective).all()
    assert (x.dtype, told.queries.tolist()) == (np.dtype("float32"), [18])
    assert (x != problem.x0).any(axis=1).all()
    assert told.bits["seed_scalar"].sum() > 0 if "seed_scalar" in told.bits else told.stages.tolist() == [0]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_fine_tune_and_draws_ahead_as_it_draws(make, name):
    """The problem has the next round drawn while a forward runs; a run without that has the same bits."""
    run = Run(small(name, eta=ETA, mu=0.01, q=8), complete(3), make(queries="fused"), 1)
    ahead, plain = Simulation([run], dtype="float32"), Simulation([run], dtype="float32")
    plain.problem.asynchronous = False
    for _ in range(3):
        ahead.round()
        plain.round()
    assert np.isfinite(ahead.states()).all()
    assert ahead.states().tobytes() == plain.states().tobytes()


@pytest.mark.parametrize("name", FORWARD)
def test_a_run_on_adapters_goes_on_from_where_it_was(make, name):
    run = Run(METHODS[name](eta=ETA, mu=0.01, **FORWARD[name]), ring(3), make(), 1)
    whole, first, second = advanced(run, 4), advanced(run, 2), advanced(run, 0)
    second.restore({key: value.copy() for key, value in first.arrays().items()})
    for _ in range(2):
        second.round()
    assert second.states().tobytes() == whole.states().tobytes()


def test_in_each_factor_steps_within_one_subspace_of_rank_1_have_rank_1(make):
    """In double precision: what rounding adds is below 1e-9 of the step."""
    problem = make()
    run = Run(METHODS["subcge"](eta=ETA, mu=0.01, rank=1), ring(3), problem, 1)
    moved = advanced(run, 3, dtype="float64").states()[0, 0] - problem.x0
    parts = problem.subject.layout.matrices(moved).values()
    assert [np.linalg.matrix_rank(part, tol=1e-9 * np.abs(part).max()) for part in parts] == [1] * 8


def test_half_of_the_factors_that_start_random_stay_and_those_at_zero_all_move(make):
    problem = make()
    run = Run(METHODS["sparse_mezo"](eta=ETA, mu=0.01, sparsity=0.5), ring(3), problem, 1)
    moved = (advanced(run, 2).states()[0, 1] != problem.x0).astype(np.float32)
    for name, part in problem.subject.layout.matrices(moved).items():
        assert part.mean() == (0.5 if "lora_A" in name else 1.0)


def test_a_process_draws_for_the_same_matrices_as_the_simulator(make):
    run = Run(METHODS["subcge"](eta=ETA, mu=0.01, rank=3), ring(3), make(), 1)
    here = SimpleNamespace(  # of a channel, all it reads yet
        nodes=np.array([0, 2]), dtype=np.dtype("float32"), graphs=[run.graph]
    )
    drawn, whole = Host(run, here).draw(), Simulation([run], dtype="float32").draws.at(0)
    assert drawn.u.signs.tobytes() == whole.u.signs[:, [0, 2]].tobytes()
    assert [side.shape[-1] for side in drawn.spaces] == [
        size for shape in run.problem.shapes for size in shape
    ]
