"""decent-bench's side of benchmarks/peers.py, which runs this file with an interpreter that has decent-bench.

In: JSON on standard input, the quadratics A_i and b_i, eta, trials, rounds, processes. Out: one line of JSON.
The words agent and iteration are decent-bench's own.
"""

import json
import logging
import platform
import sys
import time

import networkx as nx
import numpy as np
from decent_array import interoperability as iop
from decent_array.types import Devices, Frameworks
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import ATC
from decent_bench.benchmark import BenchmarkProblem, benchmark, configure
from decent_bench.costs import QuadraticCost
from decent_bench.networks import P2PNetwork


class Timed(ATC):
    """ATC that notes when its set-up is over and when its last round is.

    The notes are left on the network, the one thing that comes back from a process. They compare across
    processes because a monotonic clock is the machine's.
    """

    def initialize(self, network):
        super().initialize(network)
        network.began = time.monotonic()

    def _cleanup(self, network):
        network.ended = time.monotonic()
        super()._cleanup(network)


def ring(A, b, period):
    """Metropolis weights are its default. States are kept at the start and the end only: the least work."""
    agents = [
        Agent(QuadraticCost(iop.from_numpy(A_i), iop.from_numpy(b_i)), state_snapshot_period=period)
        for A_i, b_i in zip(A, b, strict=True)
    ]
    return P2PNetwork(nx.cycle_graph(len(agents)), agents)


def run(task, trials, rounds, processes):
    """Seconds from the first round of the first trial to the last round of the last."""
    network = ring(np.array(task["A"]), np.array(task["b"]), period=rounds)
    algorithm = Timed(step_size=task["eta"])
    result = benchmark(
        [algorithm],
        BenchmarkProblem(network),
        rounds,
        n_trials=trials,
        max_processes=processes,
        progress_step=None,
    )
    networks = result.states[algorithm]
    # It logs an error inside a trial and goes on, and a trial cut short would look fast.
    gradients = {agent._n_gradient_calls for each in networks for agent in each.agents()}
    if len(networks) != trials or gradients != {rounds}:
        sys.exit(
            f"{len(networks)} of {trials} trials, {gradients} gradients in {rounds} rounds: not a full run"
        )
    return max(each.ended for each in networks) - min(each.began for each in networks)


def main():
    task = json.load(sys.stdin)
    configure(Frameworks.NUMPY, Devices.CPU, seed=0, log_level=logging.ERROR)
    run(task, 1, 50, 1)
    size = {name: task[name] for name in ("trials", "rounds", "processes")}
    done = {"seconds": run(task, **size), "nodes": len(task["A"]), **size}
    print(json.dumps(done | {"python": platform.python_version(), "numpy": np.__version__}))


if __name__ == "__main__":
    main()
