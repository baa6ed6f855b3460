"""Four nodes train one network on digits that they do not share, and no one computes a gradient.

Node i holds some of the digits, mostly of a few classes. In every round it measures its own loss twice, and
tells its two neighbours q numbers. Run it with: python examples/digits_torch.py
or: torchrun --nproc-per-node 4 examples/digits_torch.py
"""

import argparse
import sys
import time

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from zocosmo import Tape
from zocosmo.dist.launch import launch
from zocosmo.dist.rendezvous import is_launched
from zocosmo.graphs import ring
from zocosmo.problems.data import load
from zocosmo.problems.split import split
from zocosmo.torch import Cosmo

NODES = 4


def network() -> nn.Module:
    """The same start at every node."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    features, labels = load("digits")
    return torch.tensor(features[:, :-1], dtype=torch.float32), torch.tensor(labels)


def accuracy_of_average(optimizer: Cosmo, images: torch.Tensor, labels: torch.Tensor) -> float | None:
    """Of the network average, at node 0; None elsewhere. A measurement: it is on no ledger."""
    mine = parameters_to_vector(optimizer.x.tensors).detach().double().numpy()
    everyone = optimizer.peer.channel.collect(mine[None])
    if everyone is None:
        return None
    average = network()
    vector_to_parameters(torch.tensor(everyone.mean(axis=0), dtype=torch.float32), average.parameters())
    with torch.no_grad():
        return (average(images).argmax(dim=1) == labels).double().mean().item()


def train(model: nn.Module, optimizer: Cosmo, rounds: int) -> None:
    """This process as one node, on the digits that are its own."""
    images, labels = digits()
    test = torch.arange(len(labels)) % 5 == 0  # held out: node 0 looks at them, and learns nothing from them
    parts = split(labels[~test].numpy(), NODES, how="dirichlet", alpha=0.5, tape=Tape("digits"))
    part = torch.tensor(parts[optimizer.node])
    x, y = images[~test][part], labels[~test][part]
    say(f"node {optimizer.node} holds {len(y)} digits, by class {torch.bincount(y, minlength=10).tolist()}")
    began, every = time.monotonic(), max(1, rounds // 5)
    for t in range(rounds + 1):
        if t % every == 0:
            accuracy = accuracy_of_average(optimizer, images[test], labels[test])
            if accuracy is not None:
                bits, seconds = optimizer.ledger.sent_by(0).total, time.monotonic() - began
                say(f"round {t:5d}: accuracy {accuracy:.3f}, {bits:,} bits sent by node 0, {seconds:.0f} s")
        if t < rounds:
            optimizer.step(lambda: nn.functional.cross_entropy(model(x), y))


def say(line: str) -> None:
    """In one piece: four processes share the terminal."""
    print(line + "\n", end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--q", type=int, default=121, help="numbers in a message, a tenth of d unless said")
    parser.add_argument(
        "--schedule", help="let pairs of a matching mix in place of all neighbours: auto, say"
    )
    given = parser.parse_args()
    if not is_launched():
        sys.exit(launch([sys.executable, *sys.argv], NODES))
    torch.set_num_threads(1)
    model = network()
    step = {"lr": 0.05, "mu": 0.01, "momentum": 0.9, "q": given.q}
    with Cosmo(
        model.parameters(), **step, graph=ring(NODES), schedule=given.schedule, seed="digits"
    ) as optimizer:
        train(model, optimizer, given.rounds)


if __name__ == "__main__":
    main()
