"""One process of the optimizer's tests: run by `test_torch_ranks`, never by pytest.

Goes through all cases with its peers, and writes what it found to found.RANK in the folder it is given.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

from zocosmo.dist import Peer
from zocosmo.errors import ZocosmoError
from zocosmo.graphs.graph import ring, star
from zocosmo.problems.quadratic import quadratic
from zocosmo.torch import Cosmo

N, D, ROUNDS = 4, 12, 8
STEP = {"lr": 0.015625, "mu": 0.0009765625, "q": 5, "seed": 7}
SCHEDULES = (None, "auto")
SEVERAL = {"directions": 8, "signs": "orthogonal", "sides": 1}
SECOND = {"directions": 4, "signs": "orthogonal", "rule": "balanced", "correction": 0.125}  # in a subspace
MEAN = {"directions": 4, "signs": "orthogonal"}  # over a tree, in the subspace
SPACE, COARSE, GRID = 7, "mod4", "grid3"
DTYPES = ("float32", "float16", "bfloat16")
RANK = int(os.environ.get("RANK", 0))
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def hex_of(*tensors):
    return b"".join(p.detach().view(BITS[p.element_size()]).numpy().tobytes() for p in tensors).hex()


def losses():
    """Those of this process's node, as the simulator has them."""
    return quadratic(N, 3, d=D, omega=0.5, zeta=1.0, sigma=0.25)


def start(dtype):
    """The common start, in two tensors of different shape."""
    x0 = torch.tensor(losses().x0, dtype=dtype)
    return [x0[:8].reshape(2, 4).clone().requires_grad_(), x0[8:].clone()]


def closure_of(tensors, optimizer):
    mine = losses().at([RANK])

    def closure():
        row = torch.cat([p.detach().reshape(-1) for p in tensors]).numpy()
        return mine(row[None], optimizer.t)

    return closure


def follow(graph, schedule, dtype, wire, rounds=ROUNDS, **given):
    """Some rounds on the quadratic; the state in hex, what the ledger says, and what steps gave."""
    tensors = start(dtype)
    with Cosmo(tensors, graph=graph, schedule=schedule, wire=wire, **STEP, **given) as optimizer:
        closure = closure_of(tensors, optimizer)
        gave = [optimizer.step(closure) for _ in range(rounds)]
        bits = optimizer.ledger.sent_by(RANK).total
        crossed = 8 * sum(optimizer.peer.channel.crossed.values())
    return {"x": hex_of(*tensors), "bits": bits, "crossed": crossed, "gave": gave}


def stand_still(schedule, dtype):
    """Twenty rounds with lr = 0 from equal parameters, −0.0 among them: whether every bit is as it was."""
    torch.manual_seed(0)
    tensors = [torch.randn(3, 4).to(dtype), torch.tensor([-0.0, 0.0, 1 / 3, 1e-3, 60000.0]).to(dtype)]
    before = hex_of(*tensors)
    with Cosmo(tensors, graph=ring(N), schedule=schedule, **{**STEP, "lr": 0.0, "q": 8}) as optimizer:
        for _ in range(20):
            optimizer.step(lambda: (tensors[0].float() - RANK).square().sum())
    return hex_of(*tensors) == before


def interrupted(schedule, **more):
    """Half the rounds, a state saved and loaded into new parameters and a new optimizer, the other half."""
    given = dict(graph=ring(N), schedule=schedule, **{"momentum": 0.5, "wire": "f64", **STEP, **more})
    tensors, others = start(torch.float64), start(torch.float64)
    with Cosmo(tensors, **given) as optimizer:
        for _ in range(ROUNDS // 2):
            optimizer.step(closure_of(tensors, optimizer))
        saved = optimizer.state_dict()
    for p, kept in zip(others, tensors, strict=True):
        p.data.copy_(kept)
    with Cosmo(others, **given) as optimizer:
        optimizer.load_state_dict(saved)
        while optimizer.t < ROUNDS:
            optimizer.step(closure_of(others, optimizer))
        return {"x": hex_of(*others), "bits": optimizer.ledger.sent_by(RANK).total}


def second():
    """A subspace, several directions, steps of a set length and their corrections."""
    return {"subspace": SPACE, "step": "normalised", **SECOND}


def mean():
    """The mean over a tree, in a subspace, with steps of a set length."""
    return {"subspace": SPACE, "step": "normalised", "tree": True, **MEAN}


def line_of(**given):
    """The line that an optimizer of these arguments is refused with."""
    try:
        Cosmo([torch.zeros(6)], **{"lr": 0.1, "q": 2, "seed": 1, "graph": ring(N), **given}).close()
    except ZocosmoError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def summed():
    """A sum over a tree in a loop of the user's, its bits, and the line that a mix is refused with."""
    row = np.arange(3.0) + RANK
    with Peer(graph=ring(N), seed=7, dtype="float64", wire="f64", codec="scalars") as peer:
        total = peer.sum(0, row)
        try:
            peer.mix(1, row)
        except ZocosmoError as error:
            return {"total": total.tolist(), "bits": peer.ledger.sent_by(RANK).values, "line": str(error)}


def line_of_weights():
    """What each process ends with when the weights of node 3 start apart, over a tree."""
    p = torch.full((6,), float(RANK // 3))
    try:
        with Cosmo([p], lr=0.1, q=2, seed=1, graph=ring(N), tree=True) as optimizer:
            optimizer.step(lambda: p.sum())
    except ZocosmoError as error:
        return f"{type(error).__name__}: {error}"


def line_of_the_lost():
    """What each process ends with when the loss of node 2 is no number in round 3."""
    p = torch.zeros(6)
    try:
        with Cosmo([p], lr=0.1, q=2, seed=1, graph=ring(N), deadline=60.0) as optimizer:
            while optimizer.t < 10:
                optimizer.step(lambda: float("nan") if (RANK, optimizer.t) == (2, 3) else p.sum())
    except ZocosmoError as error:
        return f"{type(error).__name__}: {error}"


def beside_a_group_of_the_users():
    """Sums over a process group of the user's before and after rounds of ours."""
    torch.distributed.init_process_group("gloo")
    one = torch.ones(1)
    torch.distributed.all_reduce(one)
    found = follow(ring(N), None, torch.float64, "f64")
    torch.distributed.all_reduce(one)
    torch.distributed.destroy_process_group()
    return {"sum": one.item(), **found}


def main():
    found = {
        "beside": beside_a_group_of_the_users(),
        "still": {f"{s}/{name}": stand_still(s, getattr(torch, name)) for s in SCHEDULES for name in DTYPES},
        "float64": {str(s): follow(ring(N), s, torch.float64, "f64", momentum=0.5) for s in SCHEDULES},
        "float32": {str(s): follow(ring(N), s, torch.float32, "bf16") for s in SCHEDULES},
        "several": {
            str(s): follow(ring(N), s, torch.float64, "f64", step="normalised", **SEVERAL) for s in SCHEDULES
        },
        "second": {str(s): follow(ring(N), s, torch.float64, COARSE, **second()) for s in SCHEDULES},
        "tree": follow(ring(N), None, torch.float64, GRID, **mean()),
        "tree halves": interrupted(None, momentum=0.0, wire=GRID, **mean()),
        "weights": line_of_weights(),
        "summed": summed(),
        "idle": follow(star(N), "auto", torch.float64, "f64"),
        "sealed": follow(ring(N), "auto", torch.float64, "f64", key=b"k" * 32),
        "interrupted": {str(s): interrupted(s) for s in SCHEDULES},
        "second halves": {str(s): interrupted(s, momentum=0.0, wire=COARSE, **second()) for s in SCHEDULES},
        "world": line_of(graph=ring(5)),
        "seeds": line_of(seed=RANK // 3),
        "rates": line_of(lr=0.1 * (1 + RANK // 3)),
        "graph": line_of(graph=None),
        "lost": line_of_the_lost(),
    }
    Path(sys.argv[1], f"found.{RANK}").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
