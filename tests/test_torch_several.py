"""The torch optimizer with several directions, one side and normalised steps: the simulator's method."""

import io

import numpy as np
import pytest
import torch
from torch import nn

from test_torch import Sphere, bits, network, sphere, train
from zocosmo.errors import InputError, OracleError
from zocosmo.graphs.graph import Graph
from zocosmo.methods import Cosmo as Method
from zocosmo.methods import TreeMean
from zocosmo.sim.engine import Run, Simulation
from zocosmo.torch import Cosmo

GIVEN = [
    {"directions": 3},
    {"directions": 8, "signs": "orthogonal"},
    {"directions": 8, "signs": "orthogonal", "sides": 1, "rule": "balanced"},
    {"directions": 2, "sides": 1, "step": "normalised"},
    {"step": "normalised_local"},
]


@pytest.mark.parametrize("momentum", [0.0, 0.75])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_one_node_is_the_simulator_bit_for_bit(given, dtype, momentum):
    more = {"step_rule" if name == "step" else name: value for name, value in given.items()}
    method = Method(eta=0.01, mu=1e-2, q=5, beta=momentum, **more)
    simulation = Simulation([Run(method, Graph(1, ()), Sphere(), 7)], dtype=dtype)
    p = nn.Parameter(torch.tensor(Sphere.x0.reshape(3, 4), dtype=getattr(torch, dtype)))
    optimizer = Cosmo([p], lr=0.01, mu=1e-2, q=5, momentum=momentum, seed=7, **given)
    for _ in range(30):
        simulation.round()
        optimizer.step(lambda: Sphere()(p.detach().numpy().reshape(-1), 0))
    assert p.detach().numpy().tobytes() == simulation.states()[0, 0].tobytes()
    assert optimizer.queries == simulation.queries[0]


@pytest.mark.parametrize("step", ["plain", "normalised"])
def test_one_node_over_a_tree_is_the_simulator_bit_for_bit(step):
    method = TreeMean(eta=0.01, mu=1e-2, q=5, directions=3, step_rule=step)
    simulation = Simulation([Run(method, Graph(1, ()), Sphere(), 7)])
    p = nn.Parameter(torch.tensor(Sphere.x0.reshape(3, 4), dtype=torch.float64))
    optimizer = Cosmo([p], lr=0.01, mu=1e-2, q=5, seed=7, directions=3, step=step, tree=True)
    for _ in range(30):
        simulation.round()
        optimizer.step(lambda: Sphere()(p.detach().numpy().reshape(-1), 0))
    assert p.detach().numpy().tobytes() == simulation.states()[0, 0].tobytes()
    assert optimizer.ledger.counts.sum() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("sides", [1, 2])
def test_rounds_without_a_step_leave_every_bit(dtype, sides):
    tensors = list(network(dtype).parameters())
    before = bits(tensors)
    given = {"directions": 5, "sides": sides, "step": "normalised"}
    train(Cosmo(tensors, lr=0.0, q=17, seed=2, **given), sphere(tensors), 10)
    assert bits(tensors) == before


def test_all_losses_of_a_round_see_the_same_coins():
    seen = []

    def closure():
        seen.append(torch.rand(1).item())
        return seen[-1]

    loss = Cosmo([nn.Parameter(torch.zeros(8))], lr=0.1, q=4, seed=0, directions=3, sides=1).step(closure)
    assert len(seen) == 4
    assert len(set(seen)) == 1
    assert loss == pytest.approx(seen[0])


def test_the_scale_of_normalised_steps_is_saved():
    ends = []
    for breaks in (False, True):
        p = nn.Parameter(torch.linspace(-1, 1, 12))
        given = {"lr": 0.1, "q": 4, "seed": 3, "directions": 2, "step": "normalised"}
        optimizer = Cosmo([p], **given)
        train(optimizer, sphere([p]), 5)
        if breaks:
            kept = io.BytesIO()
            torch.save(optimizer.state_dict(), kept)
            kept.seek(0)
            optimizer = Cosmo([p], **given)
            optimizer.load_state_dict(torch.load(kept, weights_only=False))
        train(optimizer, sphere([p]), 5)
        ends.append(bits([p]))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("mine", "theirs"), [({"directions": 2}, {}), ({}, {"sides": 1}), ({"tree": True}, {})]
)
def test_a_state_of_other_directions_or_sides_is_refused(mine, theirs):
    p, given = nn.Parameter(torch.zeros(8)), {"lr": 0.1, "q": 4, "seed": 0}
    kept = Cosmo([p], **given, **theirs).state_dict()
    with pytest.raises(InputError, match=f"{next(iter({**mine, **theirs}))}: the state has"):
        Cosmo([p], **given, **mine).load_state_dict(kept)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"directions": 9, "signs": "orthogonal"}, "9 orthogonal directions do not fit on q = 5"),
        ({"sides": 3}, "sides must be between 1 and 2, got 3"),
        ({"signs": "dense"}, "signs 'dense' is not known"),
        ({"step": "long"}, "step 'long' is not known"),
        ({"tree": True, "step": "normalised_local"}, "step 'normalised_local' is not known"),
        ({"tree": True, "wire": "mod4"}, "tree_mean cannot use wire mod4"),
        ({"tree": True, "momentum": 0.5}, "a mean over a tree has neither momentum nor corrections"),
        ({"tree": True, "correction": 0.1}, "a mean over a tree has neither momentum nor corrections"),
        (
            {"tree": True, "schedule": "auto"},
            "schedule 'auto' pairs nodes, and a mean over a tree has no pairs",
        ),
    ],
)
def test_bad_options_are_refused(given, says):
    with pytest.raises(InputError, match=says):
        Cosmo([nn.Parameter(torch.zeros(12))], lr=0.1, q=5, seed=0, **given)


def test_an_error_counts_the_losses_of_the_round():
    answers = iter([1.0, 2.0, float("nan"), 3.0])
    optimizer = Cosmo([nn.Parameter(torch.zeros(4))], lr=0.1, q=2, seed=0, directions=3, sides=1)
    with pytest.raises(OracleError, match="query 3 of 4"):
        optimizer.step(lambda: next(answers))
    assert np.isfinite(optimizer.t)
