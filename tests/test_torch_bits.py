"""Runs of the optimizer on one buffer, to the bit as they were before anything was made ready ahead.

A loss is a hash of the weights it sees, so one wrong bit in a shift, a weight, a master or a momentum makes
another run. To print the lines again: python tests/test_torch_bits.py. A changed line is a changed result.
"""

import hashlib

import numpy as np
import pytest
import torch

from driving import drive
from zocosmo.channel import MemoryChannel
from zocosmo.core.support import Support, draw_direction
from zocosmo.core.tape import Tape
from zocosmo.errors import OracleError
from zocosmo.graphs.graph import Graph
from zocosmo.methods import Cosmo as Method
from zocosmo.methods import EdgeLocal
from zocosmo.methods.base import State
from zocosmo.methods.edge_local import EdgeLocalDraw
from zocosmo.state import lend
from zocosmo.torch import Cosmo
from zocosmo.torch.flat import Flat
from zocosmo.torch.visited import Column

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def weights(*kinds, size=120):
    """Tensors of these types with numbers of both signs, zeros among them."""
    numbers = (torch.arange(len(kinds) * size, dtype=F64) * 7919 % 1009 - 504) / 512
    return [part.to(kind, copy=True) for part, kind in zip(numbers.split(size), kinds, strict=True)]


def digest(tensors, *arrays):
    found = hashlib.blake2b(digest_size=8)
    for p in tensors:
        found.update(p.detach().view(BITS[p.element_size()]).numpy().tobytes())
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def hashed(tensors):
    """A loss between 0 and 1 that any bit changes; the same on every machine."""
    return lambda: torch.tensor(int(digest(tensors), 16) / 2**64, dtype=F64)


def finished(tensors, optimizer):
    kept = optimizer.state_dict()["zocosmo"]["visited"]
    return digest(tensors, *(kept[name].numpy() for name in sorted(kept)))


def run(*kinds, rounds=30, size=120, each=lambda t, tensors, optimizer: None, **given):
    """`each` is called before every round."""
    tensors = weights(*kinds, size=size)
    given = {"lr": 1e-4, "mu": 2**-6, "momentum": 0.9, "seed": 3, "sparse": True} | given
    optimizer = Cosmo(tensors, **given)
    for t in range(rounds):
        each(t, tensors, optimizer)
        optimizer.step(hashed(tensors))
    return finished(tensors, optimizer)


def still_at_times(t, tensors, optimizer):
    """In every third round nothing may move."""
    optimizer.param_groups[0]["lr"] = 0.0 if t % 3 == 0 else 1e-4


def written_at_times(t, tensors, optimizer):
    """Somebody else writes weights between rounds: past torch's books in one of them, −0.0 too."""
    if t % 4 == 1:
        tensors[0][t : t + 60] = 0.25
        tensors[-1].data[: t + 1] = -0.0
    if t % 4 == 3:
        optimizer.x.put(Support(np.arange(5, 300, 3), optimizer.d), np.full(99, 0.3, np.float32))


def broken_at_times(t, tensors, optimizer):
    """The round is tried again after an error in one of its queries, and after a loss that is no number."""
    for answers in ([], [0.5], [float("nan"), 0.5]) if t % 3 == 2 else ():
        with pytest.raises((IndexError, OracleError), match=r"pop from empty list|gave nan"):
            optimizer.step(answers.pop)


def set_back_at_times(t, tensors, optimizer):
    """States are read in the middle, and loaded over whatever stands there."""
    if t % 5 == 4:
        state = optimizer.state_dict()
        optimizer.x.visited.set(np.arange(50), "m", 5.0)
        optimizer.load_state_dict(state)


def answer(query, tensors):
    """As an oracle does it: two losses, or none where the node has no partner."""
    if query.active is not None:
        return np.zeros((1, 1, 1), np.float32)
    loan, found = lend(query.x, query.u), []
    for values in (loan.values + query.shift(), loan.values - query.shift()):
        loan.put(values)
        found.append(np.full((1, 1), hashed(tensors)().item()))
    loan.put_back()
    return query.slope(*found)


def by_hand(state, tensors, alone=lambda t: False, each=lambda t: None):
    """Rounds of a state that is no optimizer's; in some the node is its own partner and keeps all."""
    given = {"eta": 1e-3, "mu": 2**-6, "beta": 0.5, "q": 50}
    channel = MemoryChannel([Graph(1, ())], d=240, wire="f32", codecs=["values"], dtype=np.float32)
    for t in range(24):
        each(t)
        drawn = EdgeLocalDraw(draw_direction(Tape(5), np.array([[t]]), d=240, q=50), np.array([[0]]))
        method = EdgeLocal(**given) if alone(t) else Method(**given)
        state = drive(method.step(t, state, drawn, channel), lambda query: answer(query, tensors))
    return state


def idle_at_times(*kinds):
    tensors = weights(*kinds)
    flat = Flat(tensors)
    by_hand(State(flat, Column(flat.visited, "m")), tensors, alone=lambda t: t % 3 != 1)
    kept = flat.visited.arrays()
    return digest(tensors, *(kept[name] for name in sorted(kept)))


def study():
    """The state of a study, back to the start in the middle."""
    pytest.importorskip("transformers")
    from zocosmo.llm.full import ModelWeights

    tensors, kept = weights(BF16, BF16), []
    x = ModelWeights(Flat(tensors))
    m = x.zeros_like()

    def back(t):
        if t == 12:
            kept.extend([np.array(x), np.array(m)])
            x.undo()

    by_hand(State(x, m), tensors, each=back)
    return digest(tensors, *kept, np.array(x), np.array(m))


CASES = {
    "bfloat16": lambda: run(BF16, BF16, BF16, BF16, q=40),
    "bfloat16, and the map grows": lambda: run(*[BF16] * 5, q=150, size=1000),
    "bfloat16, supports that nearly cover it": lambda: run(BF16, q=100),
    "bfloat16 without momentum": lambda: run(BF16, BF16, q=30, momentum=0.0),
    "bfloat16, balanced": lambda: run(BF16, BF16, q=50, rule="balanced"),
    "float16, dense momentum": lambda: run(F16, F16, q=50, sparse=False),
    "float32": lambda: run(F32, F32, q=50),
    "float64": lambda: run(F64, q=50),
    "mixed": lambda: run(F32, BF16, F16, F32, BF16, q=90),
    "mixed with float64": lambda: run(F64, BF16, F16, F32, q=90),
    "still at times": lambda: run(BF16, BF16, q=40, each=still_at_times),
    "still at times without momentum": lambda: run(BF16, F32, q=40, momentum=0.0, each=still_at_times),
    "written at times": lambda: run(BF16, BF16, BF16, q=40, each=written_at_times),
    "broken at times": lambda: run(BF16, F32, q=40, each=broken_at_times),
    "set back at times": lambda: run(BF16, F32, q=40, each=set_back_at_times),
    "idle at times": lambda: idle_at_times(BF16, BF16),
    "idle at times, mixed": lambda: idle_at_times(F32, F16),
    "the state of a study": study,
}

GOLDEN = {
    "bfloat16": "70d3a395c70fd27b",
    "bfloat16, and the map grows": "ab936c4d88c3187e",
    "bfloat16, supports that nearly cover it": "3041c8b8f4204f28",
    "bfloat16 without momentum": "052e6838e7ee9862",
    "bfloat16, balanced": "19cb34da8edb6cac",
    "float16, dense momentum": "4c52a45e71cc8f6e",
    "float32": "3215832aacf479a8",
    "float64": "7919e98aee509af9",
    "mixed": "ae67ed4276285247",
    "mixed with float64": "6bf279f5f296c701",
    "still at times": "b86d71675c4763d9",
    "still at times without momentum": "727249d30fd8963c",
    "written at times": "5366f3fc377dd00f",
    "broken at times": "500c45ea2e6bfc45",
    "set back at times": "500c45ea2e6bfc45",
    "idle at times": "9c37595f4498ba2e",
    "idle at times, mixed": "2db520fe7d526d04",
    "the state of a study": "e239d90a416c0ff3",
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_has_the_bits_it_always_had(case):
    assert CASES[case]() == GOLDEN[case]


if __name__ == "__main__":
    for name, play in CASES.items():
        print(f'    "{name}": "{play()}",')
