"""The simulator with and without events, at 1,000 to 100,000 nodes.   python benchmarks/churn.py

Members come and go, 1 % of them with every term; delays have heavy tails, so exchanges are skipped or halved.
A node-round with events costs at most 2 times one without, and memory is linear in nodes. Times are of the
processor, not of the clock: each run is a process with one thread. `--out FILE` keeps the figures as JSON for
benchmarks/network_scale.py.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from zocosmo.graphs.graph import GRAPHS
from zocosmo.methods import METHODS
from zocosmo.problems.quadratic import quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.sim.living import LivingSimulation
from zocosmo.terms.churn import MEETINGS, Churn, draw_record
from zocosmo.terms.events import Header
from zocosmo.terms.members import Topology, all_terms

SEED, D, Q = 7, 16, 4
CASES = {
    "edge_local, rings of degree 4, f32": ("edge_local", "rings", {"degree": 4}, "f32"),
    "edge_local, rings of degree 4, mod4": ("edge_local", "rings", {"degree": 4}, "mod4"),
    "cosmo, rings of degree 4, mod4": ("cosmo", "rings", {"degree": 4}, "mod4"),
    "cosmo, rings of degree 4, f32": ("cosmo", "rings", {"degree": 4}, "f32"),
}


def simulate(case: str, n: int, rounds: int, churn: Churn | None) -> dict[str, Any]:
    """One run in this process: processor time of its rounds, memory, and where it ended."""
    kind, graph, options, wire = CASES[case]
    built = GRAPHS[graph](n, **options, seed=SEED)
    run = Run(METHODS[kind](q=Q, eta=0.05, mu=0.01), built, quadratic(n, SEED, d=D, zeta=1.0), SEED)
    sim: Simulation
    if churn is None:
        sim = Simulation([run], wire=wire)
    else:
        rules = Topology.of({"kind": graph, "schedule": "auto", **options}, SEED, built)
        meet, header = MEETINGS[kind == "cosmo"], Header(plan="benchmark", n=n, seed=SEED)
        record = draw_record(header, rules, rounds, churn, seed=SEED, meet=meet)
        sim = LivingSimulation(run, record, all_terms(record, rules), wire=wire)
    begun = time.process_time()
    for _ in range(rounds):
        sim.round()
    seconds, now = time.process_time() - begun, sim.checkpoint()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {"seconds": seconds, "peak": peak, "objective": float(now.objective[0])}
    bits = int(now.bits["values"][0].sum())
    told = {name: int(count[0]) for name, count in sim.bill().tally.items()}
    if isinstance(sim, LivingSimulation):
        told["terms"], told["events"] = len(sim.terms), len(sim.record.events)
    return {**found, "bits": bits, "disagreement": float(now.disagreement[0]), **told}


def in_a_process(case: str, n: int, rounds: int, churn: Churn | None) -> dict[str, Any]:
    """`simulate` in a process of its own, so that its memory is its own."""
    words = json.dumps([case, n, rounds, None if churn is None else vars(churn)])
    done = subprocess.run(
        [sys.executable, __file__, "--one", words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(sizes: list[int], rounds: int, churn: Churn) -> list[dict[str, Any]]:
    """Every case at every size, without events and with them."""
    out = []
    for case in CASES:
        print(f"{case}; d = {D}, q = {Q}, {rounds} rounds, terms of {churn.term}, churn {churn.churn:.0%}")
        head = (
            "nodes",
            "µs a node-round",
            "with events",
            "ratio",
            "kB a node",
            "with events",
            "failed",
            "F",
            "",
        )
        print("".join(f"{name:>17s}" for name in (*head, "with events")))
        for n in sizes:
            quiet, living = (in_a_process(case, n, rounds, each) for each in (None, churn))
            each = [1e6 * found["seconds"] / (n * rounds) for found in (quiet, living)]
            kept = [found["peak"] / 1e3 / n for found in (quiet, living)]
            ratio, failed = each[1] / each[0], living["failures"] / (n * rounds)
            figures = f"{n:17,d}{each[0]:17.2f}{each[1]:17.2f}{ratio:17.2f}{kept[0]:17.1f}{kept[1]:17.1f}"
            print(f"{figures}{failed:17.1%}{quiet['objective']:17.6f}{living['objective']:17.6f}", flush=True)
            out.append({"case": case, "n": n, "rounds": rounds, "quiet": quiet, "living": living})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--term", type=int, default=20)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        case, n, rounds, churn = json.loads(given.one)
        print(json.dumps(simulate(case, n, rounds, None if churn is None else Churn(**churn))))
        return
    found = compare([int(n) for n in given.sizes.split(",")], given.rounds, Churn(term=given.term))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
