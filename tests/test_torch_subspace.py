"""The torch optimizer in a public subspace, with corrections, split rows and coarse wires."""

import io

import numpy as np
import pytest
import torch
from torch import nn

from test_torch import BITS, Sphere, bits, network, sphere, train
from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph
from zocosmo.methods import Cosmo as Method
from zocosmo.problems import logistic
from zocosmo.problems.subspace import in_subspace
from zocosmo.sim.engine import Run, Simulation
from zocosmo.torch import Cosmo

SECOND = {
    "directions": 4,
    "signs": "orthogonal",
    "step": "normalised",
    "rule": "balanced",
    "correction": 0.125,
}


def fields(given):
    return {"step_rule" if name == "step" else name: value for name, value in given.items()}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("size", "q", "more"),
    [
        (4, 3, {}),
        (5, 2, {"momentum": 0.75}),
        (5, 4, SECOND),
        (7, 7, SECOND),
        (5, 2, {"sides": 1, "directions": 2}),
    ],
    ids=str,
)
def test_one_node_is_the_simulator_bit_for_bit(size, q, more, dtype):
    """Twelve parameters: columns of a subspace of five or seven have unequal lengths."""
    given = dict(more)
    beta = given.pop("momentum", 0.0)
    method = Method(eta=0.1, mu=1e-2, q=q, beta=beta, **fields(given))
    simulation = Simulation([Run(method, Graph(1, ()), in_subspace(Sphere(), size, 7), 7)], dtype=dtype)
    p = nn.Parameter(torch.tensor(Sphere.x0.reshape(3, 4), dtype=getattr(torch, dtype)))
    optimizer = Cosmo([p], lr=0.1, mu=1e-2, q=q, seed=7, subspace=size, **more)
    for _ in range(30):
        simulation.round()
        optimizer.step(lambda: Sphere()(p.detach().numpy().reshape(-1), 0))
    assert p.detach().numpy().tobytes() == simulation.states()[0, 0].tobytes()
    assert optimizer.queries == simulation.queries[0]


@pytest.mark.parametrize("subspace", [None, 20])
def test_directions_with_rows_of_their_own_are_the_simulators(subspace):
    """40 rows in 3 blocks of unequal size: closure(k, K) is asked on block k."""
    problem = logistic(1, 3, batch=40, rows="split")
    given = {"directions": 3, "step": "normalised"}
    method = Method(eta=0.5, mu=1e-2, q=9, **fields(given))
    whole = problem if subspace is None else in_subspace(problem, subspace, 5)
    simulation = Simulation([Run(method, Graph(1, ()), whole, 5)])
    p = nn.Parameter(torch.zeros(problem.d, dtype=torch.float64))
    optimizer = Cosmo([p], lr=0.5, mu=1e-2, q=9, seed=5, subspace=subspace, rows="split", **given)
    for _ in range(8):
        simulation.round()
        optimizer.step(lambda k, of: problem.part(k, of)(p.detach().numpy()[None], optimizer.t))
    assert p.detach().numpy().tobytes() == simulation.states()[0, 0].tobytes()


def test_corrections_of_one_node_stay_zero():
    """Mixing with nobody changes nothing, so there is nothing to correct."""
    ends = []
    for correction in (0.0, 0.5):
        p = nn.Parameter(torch.linspace(-1, 1, 12))
        train(Cosmo([p], lr=0.01, q=4, seed=3, correction=correction), sphere([p]), 8)
        ends.append(bits([p]))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("wire", ["f32", "mod4"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_state_goes_on_in_a_new_optimizer_whatever_its_weights_are(wire, momentum):
    ends = []
    given = {"lr": 0.1, "q": 4, "seed": 3, "subspace": 6, "momentum": momentum, "wire": wire, **SECOND}
    for breaks in (False, True):
        p = nn.Parameter(torch.linspace(-1, 1, 14))
        optimizer = Cosmo([p], **given)
        train(optimizer, sphere([p]), 5)
        if breaks:
            kept = io.BytesIO()
            torch.save(optimizer.state_dict(), kept)
            kept.seek(0)
            p = nn.Parameter(torch.zeros(14))
            optimizer = Cosmo([p], **given)
            optimizer.load_state_dict(torch.load(kept, weights_only=True))
        train(optimizer, sphere([p]), 5)
        ends.append(bits([p]))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_rounds_without_a_step_leave_every_bit(dtype):
    tensors = [*network(dtype).parameters(), nn.Parameter(torch.tensor([-0.0, 1 / 3], dtype=dtype))]
    before = bits(tensors)
    train(Cosmo(tensors, lr=0.0, q=3, seed=2, subspace=10, **SECOND), sphere(tensors), 8)
    assert bits(tensors) == before


def test_half_precision_rounds_what_z_says_and_drifts_nowhere():
    p, exact = nn.Parameter(torch.ones(12).bfloat16()), nn.Parameter(torch.ones(12))
    given = {"lr": 1e-3, "mu": 0.5, "q": 3, "seed": 4, "subspace": 6}
    for tensor in (p, exact):
        tensor.grad = None
    coarse, fine = Cosmo([p], **given), Cosmo([exact], **given)
    for _ in range(40):
        losses = iter([1.0, 0.0])
        coarse.step(lambda losses=losses: next(losses))
        losses = iter([1.0, 0.0])
        fine.step(lambda losses=losses: next(losses))
    assert coarse.lifted.z.tobytes() == fine.lifted.z.tobytes()
    assert torch.equal(p.detach(), exact.detach().bfloat16())
    assert p.detach().view(BITS[2]).unique().numel() > 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subspace": 12}, "a subspace of size 12 does not fit d = 12"),
        ({"subspace": 4}, "q must be between 1 and 4, got 5|q = 5"),
        ({"subspace": 6, "sparse": True}, "leave sparse out"),
        ({"sparse": True, "correction": 0.1}, "corrections are kept for all parameters"),
        ({"rows": "shared"}, "rows 'shared' is not known"),
        ({"rows": "split", "sides": 1}, "use sides 2, not 1"),
        ({"correction": 2.0}, "correction must be a finite number at least 0 and at most 1"),
    ],
)
def test_bad_options_are_refused(given, says):
    with pytest.raises(InputError, match=says):
        Cosmo([nn.Parameter(torch.zeros(12))], lr=0.1, q=5, seed=0, **given)


@pytest.mark.parametrize(
    ("mine", "theirs"), [({"subspace": 6}, {}), ({"correction": 0.5}, {}), ({}, {"rows": "split"})]
)
def test_a_state_of_another_subspace_is_refused(mine, theirs):
    p, given = nn.Parameter(torch.zeros(8)), {"lr": 0.1, "q": 4, "seed": 0}
    kept = Cosmo([p], **given, **theirs).state_dict()
    with pytest.raises(InputError, match=f"{next(iter({**mine, **theirs}))}: the state has"):
        Cosmo([p], **given, **mine).load_state_dict(kept)


def test_a_subspace_writes_only_what_its_axes_move():
    p = nn.Parameter(torch.zeros(12))
    optimizer = Cosmo([p], lr=0.5, q=2, seed="tape", subspace=4)
    optimizer.step(sphere([p]))
    moved = np.flatnonzero(p.detach().numpy())
    axes = np.unique(optimizer.lifted.space.column[0, moved])
    assert len(axes) == 2
    assert len(moved) == 6
