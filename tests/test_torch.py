"""The optimizer on one node: what it writes, what it leaves alone, and that it is the simulator's method."""

import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from zocosmo.core.support import Support, draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, OracleError
from zocosmo.graphs.graph import Graph, ring
from zocosmo.methods import Cosmo as Method
from zocosmo.oracle import Problem
from zocosmo.sim.engine import Run, Simulation
from zocosmo.torch import Cosmo, Parameters

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensors):
    """Every bit, so that −0.0 is not 0.0 and a NaN equals itself."""
    return [p.detach().contiguous().view(BITS[p.element_size()]).flatten().tolist() for p in tensors]


def network(dtype=torch.float32):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)  # d = 34


def odd_numbers(dtype):
    """Values that rounding or a shift there and back would not give again."""
    special = [-0.0, 0.0, 1.0, -1.0, torch.finfo(dtype).tiny, torch.finfo(dtype).max / 4, 1e-3, 1 / 3]
    return [nn.Parameter(torch.tensor(special, dtype=dtype)), nn.Parameter(torch.tensor(-0.0, dtype=dtype))]


def sphere(tensors):
    return lambda: sum(((p.double() - 1) ** 2).sum() for p in tensors)


def train(optimizer, closure, rounds):
    return [optimizer.step(closure) for _ in range(rounds)]


def test_the_loss_of_a_sphere_falls():
    """F = ‖e‖² has ĝ = (2d/q)(u·e) u, so η = 1/2d leaves ‖e‖² − (u·e)²/q, on average (1 − 1/d) ‖e‖².

    0.95³⁰⁰ = 2e-7: by Markov's inequality one tape in 5,000 would leave more than a thousandth.
    """
    p = nn.Parameter(torch.zeros(20))
    losses = train(Cosmo([p], lr=1 / 40, q=5, seed=1), sphere([p]), 300)
    assert losses[-1] < losses[0] / 1000


def test_a_closure_may_answer_in_the_same_memory_twice():
    """As one that replays a graph of CUDA does: both losses are looked at when both forwards were started."""
    found = []
    for answer in (None, torch.zeros((), dtype=torch.float64)):
        p = nn.Parameter(torch.zeros(20))
        loss = sphere([p])
        closure = loss if answer is None else lambda loss=loss, answer=answer: answer.copy_(loss())
        losses = train(Cosmo([p], lr=1 / 40, q=5, seed=1), closure, 5)
        found.append((losses, bits([p])))
    assert found[0] == found[1]


def test_a_step_writes_the_tapes_support_and_nothing_else():
    model = network()
    before = np.concatenate(bits(model.parameters()))
    optimizer = Cosmo(model.parameters(), lr=0.5, q=6, seed="tape")
    for t in range(5):
        optimizer.step(sphere(list(model.parameters())))
        after = np.concatenate(bits(model.parameters()))
        changed = np.flatnonzero(before != after)
        assert changed.tolist() == draw_support(Tape("tape"), t, d=34, q=6).index.tolist()
        before = after


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounds_without_a_step_leave_every_bit(dtype, momentum):
    tensors = [*network(dtype).parameters(), *odd_numbers(dtype)]
    before = bits(tensors)
    small = tensors[:4]  # the loss sees those that do not overflow; all are shifted and put back
    train(Cosmo(tensors, lr=0.0, q=17, momentum=momentum, seed=2), sphere(small), 20)
    assert bits(tensors) == before


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_a_closure_raises_passes_through_and_nothing_has_moved(dtype):
    tensors, calls = odd_numbers(dtype), []
    optimizer, before = Cosmo(tensors, lr=1.0, q=9, seed=4), bits(tensors)

    def broken():
        calls.append(bits(tensors))
        if len(calls) == 2:
            raise KeyError("data")
        return 1.0

    with pytest.raises(KeyError, match="data"):
        optimizer.step(broken)
    assert (bits(tensors), optimizer.t) == (before, 0)
    assert before not in calls


def test_payloads_of_nan_survive_a_round_too():
    odd = torch.tensor([0x7E01, 0x7C01, 0x3C00], dtype=torch.int16).view(torch.float16)
    p = nn.Parameter(odd.clone())
    Cosmo([p], lr=0.0, q=3, seed=0).step(lambda: p.detach()[2])
    assert bits([p]) == bits([odd])


class Sphere(Problem):
    """‖x − 1‖² of one node, for the simulator: the same sum as the closure's."""

    n, d = 1, 12
    x0 = np.linspace(-1, 1, 12)

    def __call__(self, x, t, *, active=None):
        return ((x.astype(np.float64) - 1) ** 2).sum(axis=-1)

    def local(self, x):
        return self(x, 0)

    def at(self, nodes):
        return self

    @classmethod
    def stack(cls, problems):
        return cls()


@pytest.mark.parametrize("rule", ["uniform", "balanced"])
@pytest.mark.parametrize("momentum", [0.0, 0.75])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_node_is_the_simulator_bit_for_bit(dtype, momentum, rule):
    method = Method(eta=0.01, mu=1e-2, q=5, beta=momentum, rule=rule)
    simulation = Simulation([Run(method, Graph(1, ()), Sphere(), 7)], dtype=dtype)
    p = nn.Parameter(torch.tensor(Sphere.x0.reshape(3, 4), dtype=getattr(torch, dtype)))
    optimizer = Cosmo([p], lr=0.01, mu=1e-2, q=5, momentum=momentum, rule=rule, seed=7)
    for _ in range(30):
        simulation.round()
        optimizer.step(lambda: Sphere()(p.detach().numpy().reshape(-1), 0))
    assert p.detach().numpy().tobytes() == simulation.states()[0, 0].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_loaded_state_goes_on_to_the_same_bits(dtype, momentum):
    def made(model):
        optimizer = Cosmo(model.parameters(), lr=0.05, q=7, mu=0.125, momentum=momentum, seed=5)
        return optimizer, sphere(list(model.parameters()))

    straight, first, second = network(dtype), network(dtype), network(dtype)
    train(*made(straight), 12)
    optimizer, closure = made(first)
    train(optimizer, closure, 5)
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(optimizer, closure, 3)  # what was saved must not move with it
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second.load_state_dict(saved["model"])
    optimizer, closure = made(second)
    optimizer.load_state_dict(saved["optimizer"])
    train(optimizer, closure, 7)
    assert bits(second.parameters()) == bits(straight.parameters())
    assert (optimizer.t, optimizer.queries) == (12, 24)


def test_a_state_that_was_loaded_is_not_written_to():
    model = network()
    optimizer = Cosmo(model.parameters(), lr=0.1, q=9, momentum=0.5, seed=5)
    optimizer.step(sphere(list(model.parameters())))
    saved = optimizer.state_dict()
    before = bits(each["momentum"] for each in saved["state"].values())
    other = Cosmo(model.parameters(), lr=0.1, q=9, momentum=0.5, seed=5)
    other.load_state_dict(saved)
    train(other, sphere(list(model.parameters())), 3)
    assert bits(each["momentum"] for each in saved["state"].values()) == before


def test_an_optimizer_that_has_moved_on_can_be_set_back():
    p = torch.zeros(6)
    optimizer = Cosmo([p], lr=0.25, q=4, mu=0.5, momentum=0.5, seed=5)
    train(optimizer, p.sum, 2)
    kept, state = p.clone(), copy.deepcopy(optimizer.state_dict())
    train(optimizer, p.sum, 3)
    first = bits([p])
    p.copy_(kept)
    optimizer.load_state_dict(state)
    train(optimizer, p.sum, 3)
    assert bits([p]) == first != bits([kept])


@pytest.mark.parametrize(
    ("field", "change"),
    [("seed", {"seed": 6}), ("q", {"q": 8}), ("rule", {"rule": "balanced"}), ("wire", {"wire": "f16"})],
)
def test_a_state_of_something_else_is_refused_by_name(field, change):
    given = {"lr": 0.1, "q": 7, "seed": 5}
    saved = Cosmo(network().parameters(), **given).state_dict()
    with pytest.raises(InputError, match=f"^{field}: the state has"):
        Cosmo(network().parameters(), **{**given, **change}).load_state_dict(saved)


def test_a_state_of_other_parameters_is_refused():
    saved = Cosmo([torch.zeros(6)], lr=0.1, q=2, seed=5).state_dict()
    for tensors, field in (([torch.zeros(7)], "d"), ([torch.zeros(2, 3)], "shapes")):
        with pytest.raises(InputError, match=f"^{field}: the state has"):
            Cosmo(tensors, lr=0.1, q=2, seed=5).load_state_dict(saved)
    with pytest.raises(InputError, match="not a state of Cosmo"):
        Cosmo([torch.zeros(6)], lr=0.1, q=2, seed=5).load_state_dict(
            torch.optim.SGD([torch.zeros(6)]).state_dict()
        )


def test_a_scheduler_of_torch_changes_the_step():
    """From η = 1 the rate halves every round; with one coordinate and mu a power of two nothing rounds."""
    p = nn.Parameter(torch.zeros(1))
    optimizer = Cosmo([p], lr=1.0, q=1, mu=0.5, seed=0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    seen = [0.0]
    for _ in range(4):
        optimizer.step(lambda: p.sum())  # slope 1 everywhere
        scheduler.step()
        seen.append(p.item())
    assert np.diff(seen).tolist() == [-1.0, -0.5, -0.25, -0.125]


def test_both_queries_see_the_same_dropout():
    p, dropout = nn.Parameter(torch.zeros(4)), nn.Dropout(0.5)
    masks = []
    optimizer = Cosmo([p], lr=0.0, q=2, seed=0)
    train(optimizer, lambda: masks.append(dropout(torch.ones(64)).tolist()) or 0.0, 2)
    assert masks[0] == masks[1] != masks[2] == masks[3]


def test_gradients_are_neither_asked_for_nor_touched():
    free, frozen = torch.zeros(3, requires_grad=True), torch.zeros(3)
    free.grad = torch.ones(3)
    optimizer = Cosmo([free, frozen], lr=0.1, q=6, seed=0)
    optimizer.step(lambda: (free + frozen - 1).square().sum() if not torch.is_grad_enabled() else None)
    assert free.grad.tolist() == [1, 1, 1]
    assert frozen.count_nonzero() == 3


def test_a_round_asks_twice_and_gives_the_mean():
    p, answers = nn.Parameter(torch.zeros(3)), []

    def closure():
        answers.append(1.0 + 2 * len(answers))
        return np.float32(answers[-1])

    assert Cosmo([p], lr=0.0, q=1, seed=0).step(closure) == 2.0
    assert answers == [1.0, 3.0]


def test_layouts_do_not_change_what_a_coordinate_is():
    """A channels-last tensor, a transposed one, and a plain one of the same entries move alike."""
    plain = torch.linspace(-1, 1, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    last = plain.clone().contiguous(memory_format=torch.channels_last)
    turned = plain.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    kinds = [plain.clone(), last, turned]
    for p in kinds:
        train(Cosmo([p], lr=0.01, q=30, momentum=0.5, seed=1), sphere([p]), 10)
    assert not last.is_contiguous()
    assert not turned.is_contiguous()
    assert bits(kinds[:1]) * 3 == bits(kinds)


@st.composite
def cut_vectors(draw):
    """A d-vector, the sizes of the tensors it is cut into, and a support of it."""
    sizes = draw(st.lists(st.integers(0, 7), min_size=1, max_size=6).filter(sum))
    index = draw(st.sets(st.integers(0, sum(sizes) - 1), min_size=1))
    return sizes, np.array(sorted(index)), draw(st.sampled_from(DTYPES))


@given(cut_vectors())
def test_parameters_read_and_write_as_one_array_does(case):
    """Small integers are exact in every type, so the array and the tensors must be equal."""
    sizes, index, dtype = case
    x, support = np.arange(sum(sizes), dtype=np.float64), Support(index, sum(sizes))
    tensors = [part.clone() for part in torch.tensor(x).to(dtype).split(sizes)]
    flat = Parameters(tensors)
    assert support.restrict(flat).tolist() == support.restrict(x).tolist()
    assert support.put(flat, -1.0 - index.astype(flat.dtype)) is flat
    assert torch.cat(tensors).tolist() == support.put(x, -1.0 - index).tolist()


def test_coordinates_are_counted_in_64_bits():
    """Offsets set by hand stand for a first tensor of 2^40 entries, which few machines could hold."""
    tensors = [torch.zeros(3), torch.zeros(2)]
    flat = Parameters(tensors)
    flat.offsets, flat.d = np.array([0, 2**40, 2**40 + 2]), 2**40 + 2
    support = Support(np.array([1, 2**40, 2**40 + 1]), 2**40 + 2)
    flat.put(support, np.array([5, 6, 7], np.float32))
    assert [t.tolist() for t in tensors] == [[0, 5, 0], [6, 7]]


@pytest.mark.parametrize("answer", [torch.zeros(2), None, "1.0", [1.0], np.zeros(0)])
def test_a_loss_that_is_not_one_number_is_refused(answer):
    p = torch.zeros(3)
    with pytest.raises(OracleError, match=r"^the closure of node 0 in round 0 gave a .* one number"):
        Cosmo([p], lr=0.1, q=1, seed=0).step(lambda: answer)
    assert bits([p]) == bits([torch.zeros(3)])


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), torch.tensor(float("nan"))])
def test_a_loss_that_is_not_finite_is_refused(loss):
    p = torch.zeros(3)
    optimizer = Cosmo([p], lr=0.1, q=1, seed=0)
    optimizer.step(lambda: 0.0)
    answers = iter([1.0, loss])
    with pytest.raises(OracleError, match=r"node 0 in round 1 gave (nan|inf) at query 2"):
        optimizer.step(lambda: next(answers))


REFUSED = {
    "got no closure": lambda: Cosmo([torch.zeros(3)], lr=0.1, q=1, seed=0).step(),
    "graph of 4 nodes needs as many processes, got 1": lambda: tiny(graph=ring(4)),
    "leave it out": lambda: tiny(schedule="auto"),
    "give a schedule": lambda: tiny(coupling="G"),
    "coupling 'X' is not known": lambda: tiny(coupling="X"),
    "rule 'X' is not known": lambda: tiny(rule="X"),
    "wire 'X' is not known": lambda: tiny(wire="X"),
    "q = 4 coordinates of d = 3": lambda: tiny(q=4),
    "lr must be": lambda: tiny(lr=-1.0),
    "momentum must be": lambda: tiny(momentum=1.0),
    "mu must be": lambda: tiny(mu=0.0),
    "parameter 0 is torch.int64": lambda: tiny([torch.zeros(3, dtype=torch.int64)]),
    "share memory": lambda: tiny([torch.zeros(1).expand(3)]),
    r"lr \[0.1, 0.2\]": lambda: tiny([{"params": [torch.zeros(3)]}, {"params": [torch.zeros(3)], "lr": 0.2}]),
    "no parameters can be added": lambda: tiny().add_param_group({"params": [torch.zeros(3)]}),
    "closed after 0 rounds": lambda: closed().step(lambda: 0.0),
}


def tiny(params=None, **given):
    return Cosmo(params or [torch.zeros(3)], **{"lr": 0.1, "q": 1, "seed": 0, **given})


def closed():
    with tiny() as optimizer:
        return optimizer


@pytest.mark.parametrize("line", REFUSED)
def test_mistakes_are_refused_with_a_line(line):
    with pytest.raises(InputError, match=line):
        REFUSED[line]()


def test_a_launched_process_needs_a_graph_of_as_many_nodes(monkeypatch):
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(InputError, match="no graph was given"):
        tiny()
    with pytest.raises(InputError, match="graph of 4 nodes needs as many processes, got 2"):
        tiny(graph=ring(4))


def test_several_groups_are_one_vector_in_order():
    a, b = torch.zeros(2), torch.zeros(4)
    Cosmo([{"params": [a]}, {"params": [b]}], lr=0.1, q=3, seed=9).step(lambda: a.sum() + b.sum())
    touched = draw_support(Tape(9), 0, d=6, q=3).index.tolist()
    assert torch.cat([a, b]).nonzero().flatten().tolist() == touched


def test_a_single_node_sends_nothing():
    optimizer = tiny()
    train(optimizer, lambda: 0.0, 3)
    assert (optimizer.node, optimizer.peer, optimizer.t) == (0, None, 3)
    assert optimizer.ledger.network().total == 0


def test_a_closure_without_more_examples_is_no_end_of_the_step():
    optimizer, none = tiny(), iter(())
    with pytest.raises(StopIteration):
        optimizer.step(lambda: next(none))
    assert (optimizer.t, optimizer.queries) == (0, 0)
    assert optimizer.step(lambda: 0.25) == 0.25


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES)
def test_parameters_on_a_gpu_and_beside_it_move_as_on_the_cpu(dtype):
    """The loss is summed on the CPU in all three, so there is nothing that may differ."""
    found = []
    for places in (["cpu"] * 4, ["cuda"] * 4, ["cuda", "cpu", "cuda", "cpu"]):
        tensors = [p.detach().to(place) for p, place in zip(network(dtype).parameters(), places, strict=True)]
        optimizer = Cosmo(tensors, lr=0.05, q=20, mu=0.125, momentum=0.5, seed=6)
        train(optimizer, lambda here=tensors: sphere([p.cpu() for p in here])(), 20)
        assert [p.device.type for p in tensors] == places
        found.append(bits(p.cpu() for p in tensors))
    assert found[0] == found[1] == found[2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_both_queries_see_the_same_dropout_on_a_gpu():
    p, ones, masks = torch.zeros(4, device="cuda"), torch.ones(64, device="cuda"), []
    optimizer = Cosmo([p], lr=0.0, q=2, seed=0)
    train(optimizer, lambda: masks.append(nn.functional.dropout(ones).tolist()) or 0.0, 2)
    assert masks[0] == masks[1] != masks[2] == masks[3]
