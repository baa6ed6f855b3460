"""What a network of 10^2 to 10^6 members on home uplinks costs.   python benchmarks/network_scale.py

Prints the figures of docs/network-scale.md: bits of a message by the prices of the ledger, the pace of rounds
from a simulation of delays, mixing from the graphs themselves, and arithmetic for what a host carries. With
`--churn FILE`, the JSON of benchmarks/churn.py, it adds what the simulator measured.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.price import PRICES
from zocosmo.core.tape import Tape
from zocosmo.core.wires import WIRES
from zocosmo.graphs.graph import rings
from zocosmo.graphs.matching import Maximal
from zocosmo.graphs.slots import slots

SIZES = (10**2, 10**3, 10**4, 10**5, 10**6)
UPLINK, LATENCY = 10e6, 0.03  # bits a second, seconds one way: a home connection
WORK, SOFT = 1.0, 1.0  # seconds of queries in a round, and of waiting for a partner
LATE, TAIL = 0.01, 1.5  # of delays: P(more than k soft deadlines) = LATE · k^(−TAIL)
AROUND = 120 * 8  # bits around a frame: IP, TCP and its acknowledgement, ZeroMQ, CURVE
ENTRY, GONE = 80, 8  # bytes that introduce a member (id, share, key, address, name), or take one off the list
CHURN, TERM = 0.01, 100  # share of members that go, and join, with a term; its rounds
HOST = 1e9  # bits a second
BEAT = 5.0  # seconds between heartbeats


def messages() -> None:
    print(f"a message: payload, frame, and {AROUND // 8} bytes around it; uplink {UPLINK / 1e6:g} Mbit/s")
    print(f"{'wire':>8}{'q':>8}{'payload bit':>14}{'on the link':>14}{'ms to send':>12}{'GB a month':>12}")
    for wire in ("mod4", "f32"):
        for q in (64, 256, 8192):
            bits = PRICES["values"](10**6, q, WIRES[wire].charged)
            link = bits.total + FRAME_BITS.total + AROUND
            month = link / 8e9 * 30 * 86400 / (WORK + LATENCY)
            print(f"{wire:>8}{q:8,}{bits.total:14,}{link:14,}{1e3 * link / UPLINK:12.2f}{month:12.2f}")
    print("edge_local sends one a round, cosmo one to each neighbour, however many members there are\n")


def delays(rng: np.random.Generator, n: int) -> np.ndarray:
    """Seconds from the start of a round until a node is ready to exchange."""
    late = SOFT * (rng.random(n) / LATE) ** (-1 / TAIL)
    return WORK * rng.uniform(0.9, 1.1, n) + np.where(late >= SOFT, late, 0)


def pace(n: int, rounds: int, soft: float) -> tuple[float, float]:
    """Seconds a round lasts on average over nodes, and the share of node-rounds that hear nobody.

    In every round nodes meet in random pairs. Each waits for its partner, for `soft` seconds at most.
    """
    rng, at, skipped = np.random.default_rng(1), np.zeros(n), 0
    for _ in range(rounds):
        ready, order = at + delays(rng, n), rng.permutation(n)
        both = np.empty(n)
        one, other = order[: n // 2], order[n // 2 :]
        both[one] = both[other] = np.maximum(ready[one], ready[other])
        skipped += int((both - ready > soft).sum())
        at = np.minimum(both, ready + soft) + LATENCY
    return float(at.mean()) / rounds, skipped / (n * rounds)


def paces(most: int) -> None:
    print(
        f"seconds a round lasts: {WORK:g} s of work, soft deadline {SOFT:g} s, {LATE:.0%} late, tail {TAIL}"
    )
    print(f"{'members':>10}{'all wait':>12}{'pairs wait':>12}{'soft deadline':>15}{'not heard':>11}")
    for n in (size for size in SIZES if size <= most):
        rounds = 200 if n < 10**6 else 60
        rng = np.random.default_rng(2)
        everyone = float(np.mean([delays(rng, n).max() for _ in range(rounds)])) + LATENCY
        waiting, _ = pace(n, rounds, math.inf)
        soft, skipped = pace(n, rounds, SOFT)
        print(f"{n:10,}{everyone:12.1f}{waiting:12.2f}{soft:15.2f}{skipped:11.1%}", flush=True)
    print()


def second_eigenvalue(n: int, steps: int = 300) -> float:
    """λ₂ of the Metropolis weights of rings of degree 4, by powers of W on a vector without its mean."""
    graph = rings(n, 4, 7)
    (*peers,) = slots([graph], np.dtype(np.float64), True)
    x, norm = np.random.default_rng(3).standard_normal(n), 1.0
    for _ in range(steps):
        x -= x.mean()
        x /= np.sqrt((x * x).sum())
        y = x.copy()
        for slot in peers:
            y[slot.rows] += slot.weight[:, 0] * (x[slot.source] - x[slot.rows])
        norm, x = float(np.sqrt((y * y).sum())), y
    return norm


def mixing(most: int) -> None:
    print(
        "rounds until disagreement on mixed coordinates falls tenfold (all neighbours mix; times d/q for all)"
    )
    print(f"{'members':>10}{'ring':>16}{'rings of degree 4':>20}")
    for n in (size for size in SIZES if size <= most):
        ring = (1 + 2 * math.cos(2 * math.pi / n)) / 3
        found = f"{tenfold(second_eigenvalue(n)):20.1f}" if n <= 10**5 else f"{'-':>20}"
        print(f"{n:10,}{tenfold(ring):16,.0f}{found}")
    print()


def tenfold(factor: float) -> float:
    """Rounds in which factor² comes to a tenth."""
    return -math.log(10) / (2 * math.log(factor))


def host() -> None:
    print(
        f"a host with {HOST / 1e9:g} Gbit/s: megabytes it sends with a term, {CHURN:.0%} of the members new"
    )
    head = ("members", "whole list", "changes to all", "neighbours only", "s of changes", "heartbeats Mbit/s")
    print("".join(f"{name:>19}" for name in head))
    for n in SIZES:
        changes = CHURN * n * (ENTRY + GONE)
        whole, told = ENTRY * n * n / 1e6, changes * n / 1e6
        near = (
            n * CHURN * (4 * ENTRY + 4 * (ENTRY + GONE)) / 1e6
        )  # a joiner's four peers, and four told of it
        beats = n * (64 * 8 + AROUND) / BEAT / 1e6
        row = (whole, told, near, 8e6 * told / HOST, beats)
        print(f"{n:19,}" + "".join(f"{value:19,.3f}" for value in row))
    print("rounds: nothing, except what it relays for members that nobody can reach")
    relayed = PRICES["values"](10**6, 256, WIRES["mod4"].charged).total + FRAME_BITS.total + AROUND
    for share in (0.05, 0.2):
        most = HOST * (WORK + LATENCY) / relayed / share
        print(f"  {share:.0%} of all exchanges relayed, q = 256, mod4: full at {most:,.0f} members")
    print()


def members(most: int) -> None:
    print("what each member computes of the whole network: seconds of the processor")
    print(f"{'members':>10}{'graph of a term':>18}{'maximal matching':>18}{'one support':>14}")
    for n in (size for size in SIZES if size <= most):
        begun = time.process_time()
        graph = rings(n, 4, 7)
        made = time.process_time()
        Maximal(graph).partners(Tape(7), 3)
        matched = time.process_time()
        Tape(7).coins("support", 3, 1, 2).words(8)
        drawn = time.process_time()
        print(f"{n:10,}{made - begun:18.3f}{matched - made:18.3f}{drawn - matched:14.6f}")
    print()


def simulated(path: Path) -> None:
    for found in json.loads(path.read_text()):
        n, rounds, quiet, living = (found[key] for key in ("n", "rounds", "quiet", "living"))
        each = [1e6 * one["seconds"] / (n * rounds) for one in (quiet, living)]
        apart = living["objective"] / quiet["objective"] - 1
        figures = f"{each[0]:.2f} and {each[1]:.2f} µs a node-round, {each[1] / each[0]:.2f} times"
        kept = f"{living['peak'] / 1e3 / n:.1f} kB a node"
        print(f"{found['case']}, {n:,} nodes: {figures}; {kept}; F {apart:+.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--most", type=int, default=10**6)
    parser.add_argument("--churn", type=Path)
    given = parser.parse_args()
    messages()
    paces(given.most)
    mixing(given.most)
    host()
    members(given.most)
    if given.churn:
        simulated(given.churn)


if __name__ == "__main__":
    main()
