"""Rounds that a budget pays for, as the paper counts them, from runs of the engine and its own ledger."""

import numpy as np
import pandas as pd
import pytest

from driving import drive
from zocosmo.channel import MemoryChannel
from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import Cosmo, EdgeLocal, Flood, RandK, State, World
from zocosmo.problems.rosenbrock import Rosenbrock, rosenbrock
from zocosmo.report.budget import at_budget
from zocosmo.sim.engine import Run, Simulation


class Flat(Rosenbrock):
    """Costs nothing to query: what is counted here are bits."""

    def local(self, x):
        return x[..., 0] * 0.0


def last_round(method, graph, budget, *, rounds, log_every, codec=None):
    """The last logged round within the budget, by the engine's bill."""
    problem = rosenbrock(graph.n, 1, d=128)
    simulation = Simulation(
        [Run(method, graph, Flat(problem.shifts, 2.0, problem.x0), 1)], codecs=[codec or method.codec]
    )
    rows = []
    for t in range(rounds + 1):
        if t % log_every == 0:
            bits = simulation.channel.ledger(codec or method.codec).counts[0, :, :3].sum() / graph.n
            rows.append((t, bits))
        simulation.round()
    return int(at_budget(pd.DataFrame(rows, columns=["round", "bits"]), budget)["round"])


@pytest.mark.parametrize(
    ("method", "n", "rounds"),
    [
        (Cosmo, 8, 970),
        (EdgeLocal, 8, 1950),
        (Flood, 8, 1480),
        (Flood, 16, 690),
        (Flood, 32, 330),
        (Flood, 64, 160),
    ],
)
def test_a_megabit_on_a_ring_pays_for_the_papers_rounds(method, n, rounds):
    """tab:appendix_support_locality: values of 32 bits, logged every 10 rounds."""
    given = {"eta": 0.0, "mu": 5e-3, **({} if method is Flood else {"q": 16})}
    assert last_round(method(**given), ring(n), 1_000_000, rounds=rounds + 20, log_every=10) == rounds


@pytest.mark.parametrize(
    ("kind", "graph", "codec", "budget", "rounds"),
    [
        (Cosmo, complete(4), "values", 26_214_400, 33),
        (Cosmo, complete(8), "values", 26_214_400, 14),
        (Cosmo, ring(8), "values", 26_214_400, 50),
        (EdgeLocal, ring(8), "values", 26_214_400, 100),
        (EdgeLocal, ring(8), "indexed", 26_214_400, 59),
        (RandK, complete(2), "indexed", 26_214_400, 59),
        (RandK, complete(2), "values", 26_214_400, 100),
        (EdgeLocal, ring(4), "indexed", 403_701_760, 912),
        (EdgeLocal, ring(4), "values", 403_701_760, 1540),
    ],
    ids=str,
)
def test_a_lora_budget_pays_for_the_papers_rounds(kind, graph, codec, budget, rounds):
    """appendix: Qwen LoRA studies, d = 2,523,136 and q = 8192. Every round costs the same, so the ledger of
    one round says how many fit; the values themselves never matter to it."""
    method = kind(q=8192, eta=0.0, mu=1e-3, codec=codec)
    channel = MemoryChannel([graph], d=2_523_136, wire="nominal_f32", codecs=[codec], dtype="f8")
    draw = method.draw(World(graph, 2_523_136), Tape(1), 0)
    step = method.step(0, State(np.zeros((graph.n, 2_523_136))), draw, channel)
    drive(step, lambda query: np.zeros((graph.n, 1)))
    each = channel.ledger(codec).counts[0, :, :3].sum() / graph.n
    assert budget // each == rounds
