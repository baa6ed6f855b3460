"""A model in one buffer: what moves, what comes back to the bit, and masters of half-precision weights."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from test_torch import DTYPES, bits, network, odd_numbers, sphere, train
from zocosmo.core.support import Direction, Support, draw_direction
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.oracle import Query, ask_slopes
from zocosmo.state import lend
from zocosmo.torch import Cosmo, Parameters
from zocosmo.torch.aside import to_device
from zocosmo.torch.flat import Flat

HALF = [torch.float16, torch.bfloat16]


def everywhere(d):
    return Support(np.arange(d), d)


def pointers(tensors):
    return [p.data_ptr() for p in tensors]


def test_tensors_become_views_of_one_buffer_and_keep_their_bits():
    model = network()
    tensors = list(model.parameters())
    before, answer = bits(tensors), model(torch.ones(5))
    Flat(tensors)
    assert len({p.untyped_storage().data_ptr() for p in tensors}) == 1
    assert np.diff(pointers(tensors)).tolist() == [4 * p.numel() for p in tensors[:-1]]
    assert bits(tensors) == before
    assert torch.equal(model(torch.ones(5)), answer)


def test_tensors_that_lie_in_a_row_stay_where_they_are():
    tensors = list(network().parameters())
    Flat(tensors)
    before = pointers(tensors)
    Flat(tensors)
    Flat(tensors[1:3])
    assert pointers(tensors) == before
    Flat(tensors[::-1])
    assert pointers(tensors) != before


def test_old_memory_is_let_go_tensor_by_tensor(monkeypatch):
    """When a tensor moves, no earlier one may still hold what it had before."""
    tensors = [torch.zeros(4) for _ in range(3)]
    old = [p.untyped_storage()._weak_ref() for p in tensors]
    alive, copy = [], torch.Tensor.copy_

    def watch(self, other):
        alive.append([not torch.UntypedStorage._expired(ref) for ref in old])
        return copy(self, other)

    monkeypatch.setattr(torch.Tensor, "copy_", watch)
    Flat(tensors)
    assert alive == [[True, True, True], [False, True, True], [False, False, True]]


@st.composite
def mixtures(draw):
    """Tensors of several types and sizes, and a support of all of them."""
    kinds = draw(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(DTYPES)), min_size=1, max_size=6))
    d = sum(size for size, _ in kinds)
    index = draw(st.sets(st.integers(0, max(0, d - 1)), min_size=1)) if d else {0}
    return kinds, np.array(sorted(index)), d


@given(mixtures().filter(lambda case: case[2]))
def test_it_reads_and_writes_as_one_array_does(case):
    """Small integers are exact in every type, so the array and the tensors must be equal."""
    kinds, index, d = case
    x, support = np.arange(d, dtype=np.float64), Support(index, d)
    parts = torch.tensor(x).split([size for size, _ in kinds])
    tensors = [part.to(kind, copy=True) for part, (_, kind) in zip(parts, kinds, strict=True)]
    flat = Flat(tensors)
    assert support.restrict(flat).tolist() == support.restrict(x).tolist()
    assert support.put(flat, -1.0 - index.astype(flat.dtype)) is flat
    assert torch.cat([t.double() for t in tensors]).tolist() == support.put(x, -1.0 - index).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_twenty_cycles_leave_every_bit_and_visit_nothing(dtype):
    strange = torch.tensor([0x7E01, 0x7C01, -0x3FF], dtype=torch.int16)
    tensors = [*network(dtype).parameters(), *odd_numbers(dtype), strange.view(torch.float16)]
    flat = Flat(tensors)
    before = bits(tensors)
    for t in range(20):
        u = draw_direction(Tape(1), np.array([[t]]), d=flat.d, q=31)
        ask_slopes(lambda x, t, active=None: np.zeros((1, 1)), Query(flat, (u,), 0.125), t)
        assert bits(tensors) == before
    assert len(flat.visited) == 0


def test_a_loan_shifts_what_the_model_sees():
    p = torch.ones(4, dtype=torch.bfloat16)
    flat, u = Flat([p]), Direction(np.array([0, 3]), 4, np.array([1, -1], np.int8))
    loan = lend(flat, u)
    assert loan.put(loan.values + 0.5 * u.signs) is flat
    assert p.tolist() == [1.5, 1, 1, 0.5]
    loan.put_back()
    assert p.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("dtype", HALF)
def test_steps_too_small_for_a_weight_add_up_in_its_master(dtype):
    """1,000 additions in float32 err by at most 1,000 half spacings of 2^-23: 6e-5."""
    p = torch.ones(3, dtype=dtype)
    flat, support = Flat([p]), Support(np.array([1]), 3)
    for _ in range(1000):
        flat.put(support, flat.restrict(support) + np.float32(1e-5))
    master = flat.restrict(support)[0]
    assert abs(master - 1.01) < 6e-5
    assert p.tolist() == [1, torch.tensor(master).to(dtype).item(), 1]
    assert p[1] > 1
    assert len(flat.visited) == 1


@pytest.mark.parametrize("dtype", HALF)
def test_queries_start_from_the_master_and_end_at_the_same_weight(dtype):
    p = torch.ones(2, dtype=dtype)
    flat, u = Flat([p]), Direction(np.array([0]), 2, np.array([1], np.int8))
    u.put(flat, np.array([1.0001], np.float32))
    loan = lend(flat, u)
    loan.put(loan.values + 1)
    loan.put_back()
    assert loan.values.tolist() == flat.restrict(u).tolist() == [np.float32(1.0001)]
    assert p.tolist() == [1, 1]


def test_a_weight_that_somebody_else_wrote_counts_for_more_than_its_master():
    p = torch.ones(3, dtype=torch.bfloat16)
    flat = Flat([p])
    flat.put(everywhere(3), np.array([1.0001, 1.0002, 1.0003], np.float32))
    p[1] = 5
    assert flat.restrict(everywhere(3)).tolist() == [np.float32(1.0001), 5, np.float32(1.0003)]


def test_a_nan_keeps_its_payload_when_its_neighbour_takes_a_step():
    p = torch.tensor([0x7E01, 0x3C00], dtype=torch.int16).view(torch.float16)
    flat = Flat([p])
    flat.put(everywhere(2), flat.restrict(everywhere(2)) + np.array([0, 1], np.float32))
    assert p.view(torch.int16).tolist() == [0x7E01, 0x4000]


def test_a_weight_beyond_the_range_of_its_type_follows_its_master_back():
    p = torch.ones(1, dtype=torch.float16)
    flat = Flat([p])
    flat.put(everywhere(1), np.array([70000], np.float32))
    assert p.isinf().all()
    flat.put(everywhere(1), flat.restrict(everywhere(1)) - 60000)
    assert p.tolist() == [10000]


@pytest.mark.parametrize("dtype", HALF)
def test_a_step_changes_at_most_q_coordinates(dtype):
    model = network(dtype)
    tensors = list(model.parameters())
    optimizer = Cosmo(tensors, lr=0.5, q=6, mu=0.125, momentum=0.9, seed="tape")
    for t in range(5):
        before = np.concatenate(bits(tensors))
        optimizer.step(sphere(tensors))
        changed = np.flatnonzero(before != np.concatenate(bits(tensors)))
        drawn = draw_direction(Tape("tape"), t, d=34, q=6).index
        assert changed.size > 0
        assert set(changed) <= set(drawn)
    assert len(optimizer.x.visited) <= 30


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_and_dense_momentum_are_the_same_bits(dtype):
    found = []
    for sparse in (None, False, True):
        tensors = list(network(dtype).parameters())
        train(Cosmo(tensors, lr=0.05, q=7, momentum=0.9, seed=3, sparse=sparse), sphere(tensors), 20)
        found.append(bits(tensors))
    assert found[0] == found[1] == found[2]


def test_half_precision_moves_as_float32_does_where_its_weights_say_so():
    """A loss that looks at no weight: masters walk as the weights of a float32 model do."""
    half = list(network(torch.bfloat16).parameters())
    single = [p.detach().float() for p in half]
    answers = np.random.default_rng(0).random(40)
    optimizers = [Cosmo(each, lr=1e-5, q=9, momentum=0.5, seed=3) for each in (half, single)]
    for optimizer in optimizers:
        losses = iter(answers)
        train(optimizer, lambda losses=losses: next(losses), 20)
    masters = optimizers[0].x.restrict(everywhere(34))
    assert masters.tolist() == torch.cat([p.flatten() for p in single]).tolist()
    assert bits(half) == bits([p.bfloat16() for p in single])


def test_small_steps_reach_half_precision_weights():
    """Slope 1 everywhere: the weight 1 moves by 1e-5 a round, which bfloat16 alone would lose each time."""
    p = torch.ones(1, dtype=torch.bfloat16)
    train(Cosmo([p], lr=1e-5, q=1, mu=0.5, seed=0), lambda: p.float().sum(), 1000)
    assert p.item() == torch.tensor(0.99).bfloat16().item()


def test_sparse_is_chosen_by_type_and_size():
    chosen = [Cosmo([torch.zeros(3, dtype=kind)], lr=0.1, q=1, seed=0).sparse for kind in DTYPES]
    assert dict(zip(DTYPES, chosen, strict=True)) == {kind: kind in HALF for kind in DTYPES}
    assert Cosmo([torch.empty(2**26 + 1)], lr=0.1, q=1, seed=0).sparse
    assert not Cosmo([torch.empty(2**26)], lr=0.1, q=1, seed=0).sparse


def test_dense_momentum_can_be_asked_for_beside_masters():
    found = []
    for sparse in (False, True):
        tensors = list(network(torch.bfloat16).parameters())
        optimizer = Cosmo(tensors, lr=1e-4, q=7, momentum=0.9, seed=3, sparse=sparse)
        train(optimizer, sphere(tensors), 20)
        found.append(optimizer.x.restrict(everywhere(34)).tolist())
    assert found[0] == found[1]


def test_a_state_knows_whether_its_momentum_is_sparse():
    state = Cosmo([torch.zeros(6)], lr=0.1, q=2, seed=5, sparse=True).state_dict()
    with pytest.raises(InputError, match=r"^sparse: the state has True, this optimizer False"):
        Cosmo([torch.zeros(6)], lr=0.1, q=2, seed=5).load_state_dict(state)


def test_states_do_not_tell_in_which_order_coordinates_were_visited():
    """Two optimizers that have visited all, in other orders, and were then set to the same values."""
    states = []
    for seed in (1, 2):
        p = torch.ones(40, dtype=torch.bfloat16)
        optimizer = Cosmo([p], lr=0.1, q=8, mu=0.5, momentum=0.5, rule="balanced", seed=seed)
        train(optimizer, lambda p=p: p.float().sum(), 5)
        optimizer.x.put(everywhere(40), np.arange(40, dtype=np.float32))
        visited = optimizer.state_dict()["zocosmo"]["visited"]
        states.append((visited["keys"].tolist(), visited["x"].tolist()))
    assert states[0] == states[1] == (list(range(40)), list(range(40)))


def test_an_idle_round_visits_nothing():
    p = torch.ones(5, dtype=torch.bfloat16)
    optimizer = Cosmo([p], lr=0.0, q=3, momentum=0.0, seed=1)
    train(optimizer, lambda: p.float().sum(), 3)
    assert len(optimizer.x.visited) == 0


def test_more_entries_than_32_bits_count_are_read_and_written():
    """The memory of an empty tensor is not touched before it is used, so few pages of 4.3 GB exist."""
    p = torch.empty(2**31 + 2**10, dtype=torch.bfloat16)
    flat, support = Flat([p]), Support(np.array([5, 2**31 - 1, 2**31, 2**31 + 1000]), 2**31 + 2**10)
    flat.put(support, np.array([1, 2, 3, 4], np.float32))
    assert flat.restrict(support).tolist() == [1, 2, 3, 4]
    assert [p[k].item() for k in support.index] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("line", "tensors"),
    [
        ("parameter 1 is torch.int64", [torch.zeros(2), torch.zeros(2, dtype=torch.int64)]),
        ("two of the parameters share memory", (lambda p: [p[:3], p[2:]])(torch.zeros(5))),
        ("on meta", [torch.zeros(2, device="meta")]),
    ],
)
def test_tensors_that_cannot_move_are_refused(line, tensors):
    with pytest.raises(InputError, match=line):
        Flat(tensors)


def test_supports_and_values_of_another_size_are_refused():
    flat = Flat([torch.zeros(4)])
    with pytest.raises(InputError, match="one row of 4 coordinates"):
        flat.restrict(everywhere(5))
    with pytest.raises(InputError, match="4 coordinates need as many values"):
        flat.put(everywhere(4), np.zeros(3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES)
def test_moving_on_a_gpu_needs_no_second_copy(dtype):
    tensors = [torch.ones(2**20, dtype=dtype, device="cuda") for _ in range(8)]
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    Flat(tensors)
    assert torch.cuda.max_memory_allocated() <= before
    assert all((p == 1).all() for p in tensors)


def test_a_model_that_moved_after_the_optimizer_was_made_is_refused():
    """Steps would go into the buffer, and the model would look elsewhere."""
    model = torch.nn.Linear(3, 2).to(torch.bfloat16)
    optimizer = Cosmo(model.parameters(), lr=0.1, q=2, seed=0)
    model.to(torch.float32)
    with pytest.raises(InputError, match=r"parameter 0 has moved, to torch\.float32 on cpu"):
        optimizer.step(lambda: model(torch.ones(3)).sum())


def test_a_model_that_moved_after_its_next_step_was_made_ready_is_refused():
    model = torch.nn.Linear(3, 2).to(torch.bfloat16)
    optimizer = Cosmo(model.parameters(), lr=0.1, q=2, seed=0)
    optimizer.step(lambda: model(torch.ones(3, dtype=torch.bfloat16)).sum())
    model.to(torch.float32)
    with pytest.raises(InputError, match=r"parameter 0 has moved, to torch\.float32 on cpu"):
        optimizer.step(lambda: model(torch.ones(3)).sum())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_weights_written_between_steps_are_those_that_queries_start_from(dtype):
    """The next step was made ready before; all weights are 4 and μ is 1/4, so both points are exact."""
    p, seen = torch.ones(12, dtype=dtype), []
    optimizer = Cosmo([p], lr=1e-3, q=5, mu=0.25, momentum=0.5, seed=2, sparse=True)
    train(optimizer, lambda: p.double().sum(), 3)
    p.data[:] = 4.0  # past the counts that torch keeps of writes
    optimizer.step(lambda: seen.append(p.tolist()) or 0.0)
    u = draw_direction(Tape(2), 3, d=12, q=5)
    assert [u.restrict(np.array(each)).tolist() for each in seen] == [
        (4 + 0.25 * sign * u.signs).tolist() for sign in (1, -1)
    ]


def test_a_round_leaves_torch_s_coins_as_one_query_does():
    torch.manual_seed(8)
    Cosmo([torch.zeros(4)], lr=0.0, q=2, seed=0).step(lambda: torch.rand(3).sum())
    after = torch.rand(5).tolist()
    torch.manual_seed(8)
    torch.rand(3)
    assert torch.rand(5).tolist() == after


class Calls(TorchDispatchMode):
    """The names of torch's calls that move entries, and of others that are to be noted, in order."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        if (name := str(call).split(".")[1]) in ("index_select", "index_copy_"):
            self.names.append(name)
        return call(*args, **(kwargs or {}))

    def note(self, monkeypatch, thing, name):
        call = getattr(thing, name)

        def noted(*args):
            found = call(*args)
            self.names.append(name)
            return found

        monkeypatch.setattr(thing, name, noted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_step_reads_once_and_looks_into_its_map_while_a_device_computes(dtype, monkeypatch):
    """Queries and putting back write three times; after the losses there is one write left."""
    p = torch.ones(4000, dtype=dtype)
    optimizer = Cosmo([p], lr=1e-3, q=50, mu=0.25, momentum=0.5, seed=2, sparse=True)
    train(optimizer, lambda: p.double().sum(), 3)
    calls, visited = Calls(), optimizer.x.visited
    calls.note(monkeypatch, visited, "_search")
    calls.note(monkeypatch, optimizer._rounds.draws, "_fill")
    calls.note(monkeypatch, optimizer.x, "look_ahead")  # its name comes when it is done
    with calls:
        optimizer.step(lambda: p.double().sum())
    writes, searches = ["index_copy_"] * 3, ["_search"] * calls.names.count("_search")
    assert calls.names == ["index_select", *writes, "_fill", *searches, "look_ahead", "index_copy_"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("size", [1000, 8192, 20_000])
def test_values_on_their_way_to_a_gpu_are_not_written_over(size):
    """Behind work that takes long, more copies are under way than there is memory to stage them at first."""
    device, large, array = torch.device("cuda"), torch.ones(8192, 8192, device="cuda"), np.empty(size)
    for _ in range(20):
        large @ large
    there = []
    for k in range(200):
        array[:] = k
        there.append(to_device(array, device))
    assert torch.stack(there).unique(dim=1).flatten().tolist() == list(range(200))


def test_tensors_that_share_memory_are_refused_in_one_buffer_and_in_several():
    whole = torch.zeros(6)
    for kind in (Flat, Parameters):
        with pytest.raises(InputError, match="two of the parameters share memory"):
            kind([whole[:4], whole[2:]])
