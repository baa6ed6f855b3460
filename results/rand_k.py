"""Which Rand-k did the paper run in its q sweep?   python results/rand_k.py [--write] [--seeds 40]

Plausible operators, momenta and prices, over the seeds whose Erdős–Rényi graph has a mean degree of 3.0 to
3.6, against the fifteen Rand-k cells of tab:rosen_q_sensitivity. Draws are those of the tape, as in `rand_k`;
updates are written out on dense arrays, so that any of them can be tried. --write keeps the table in
docs/reproduction.md.
"""

import argparse
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zocosmo.core.tape import Tape
from zocosmo.graphs import erdos_renyi
from zocosmo.graphs.weights import metropolis
from zocosmo.methods.base import World, shared_directions
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo_paper.items.rosenbrock import read
from zocosmo_paper.items.sweep import BUDGETS, DEGREES, PRINTED

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
BEGIN, END = "<!-- rand-k -->\n", "<!-- end of rand-k -->\n"
D, N, ETA, MU, ROUNDS, EVERY, VALUE = 20, 10, 8e-4, 5e-3, 3000, 10, 32
INDEX = math.ceil(math.log2(D))
CLOSE, GONE = 2.0, 1e12  # standard errors; an objective at which a run has diverged

Array = Any


class Way(NamedTuple):
    """One reading of "independent Rand-k"."""

    words: str
    move: Callable[[Array, Array, Array, Array], Array]  # x, h on d coordinates, masks, weights → next x
    beta: float = 0.0
    price: Callable[[int], float] = lambda q: q * (VALUE + INDEX)
    dense: bool = False  # queries along all coordinates; Rand-k compresses the estimate
    scaled: bool = True  # by d/q
    longer: float = 1.0  # step, of the printed one


def overlaps(x: Array, h: Array, mask: Array, W: Array) -> Array:
    """y_i + P_i Σ_j w_ij P_j (y_j − y_i)"""
    y = x - ETA * h
    sent = mask * y
    return y + mask * (_mix(W, sent) - y * _mix(W, mask))


def senders(x: Array, h: Array, mask: Array, W: Array) -> Array:
    """y_i + Σ_j w_ij P_j (y_j − y_i)"""
    y = x - ETA * h
    return y + _mix(W, mask * y) - y * _mix(W, mask)


def receivers(x: Array, h: Array, mask: Array, W: Array) -> Array:
    """y_i + P_i Σ_j w_ij (y_j − y_i): needs values that were not sent"""
    y = x - ETA * h
    return y + mask * (_mix(W, y) - y)


def holders(x: Array, h: Array, mask: Array, W: Array) -> Array:
    """On S_i, the plain mean over itself and the neighbours that sent the coordinate"""
    y, links = x - ETA * h, (W > 0).astype(float)
    count = _mix(links, mask)
    return np.where(mask > 0, _mix(links, mask * y) / np.maximum(count, 1), y)


def neighbour_updates(x: Array, h: Array, mask: Array, W: Array) -> Array:
    """x_i − η Σ_j w_ij h_j: updates are averaged among neighbours, states are not mixed"""
    return x - ETA * _mix(W, h)


def all_updates(x: Array, h: Array, mask: Array, W: Array) -> Array:
    """x − (η/N) Σ_j h_j: the operator of the two-worker tables, on all nodes"""
    return x - ETA * h.mean(axis=-2, keepdims=True)


def mixed_updates(x: Array, h: Array, mask: Array, W: Array) -> Array:
    """Σ_j w_ij x_j − η Σ_j w_ij h_j: whole states are mixed for free"""
    return _mix(W, x - ETA * h)


def _mix(W: Array, y: Array) -> Array:
    return np.einsum("sij,sjk->sik", W, y)


def entropy(q: int) -> float:
    return q * VALUE + math.log2(math.comb(D, q))


WAYS = (
    Way("overlaps are mixed (`rand_k`)", overlaps),
    Way("overlaps, β = 0.9", overlaps, beta=0.9),
    Way("overlaps, supports at their entropy, log₂ C(d, q) bits", overlaps, price=entropy),
    Way("overlaps, values alone are charged", overlaps, price=lambda q: q * VALUE),
    Way("the sender's mask alone", senders),
    Way("the receiver's mask alone", receivers),
    Way("the mean of those that hold a coordinate", holders),
    Way("updates averaged among neighbours", neighbour_updates),
    Way("updates averaged over all nodes (`rand_k_average`)", all_updates),
    Way("whole states mixed, sparse updates", mixed_updates),
    Way("dense queries, compressed with d/q, overlaps", overlaps, dense=True),
    Way("dense queries, compressed without d/q, overlaps", overlaps, dense=True, scaled=False),
    Way("updates averaged over all nodes, β = 0.9", all_updates, beta=0.9),
    Way("*no reading, a fit:* overlaps, a step 7 % longer", overlaps, longer=1.07),
)


def chosen_seeds(most: int) -> list[int]:
    low, high = map(Fraction, DEGREES)
    return [
        s for s in range(1, most + 1) if low <= Fraction(2 * len(erdos_renyi(N, 0.4, s).edges), N) <= high
    ]


class Setting(NamedTuple):
    """All seeds at once."""

    seeds: list[int]
    W: Array  # (seeds, n, n)
    degrees: Array
    shifts: Array  # (seeds, n, d)

    @classmethod
    def of(cls, seeds: list[int]) -> "Setting":
        graphs = [erdos_renyi(N, 0.4, seed) for seed in seeds]
        shifts = np.stack([np.asarray(rosenbrock(N, s, d=D, alpha=2.0, shift=0.02).shifts) for s in seeds])
        degrees = np.array([2 * len(graph.edges) / N for graph in graphs])
        return cls(seeds, np.stack([metropolis(g).matrix() for g in graphs]), degrees, shifts)

    def losses(self, x: Array) -> Array:
        z = x - self.shifts
        head, tail = z[..., :-1], z[..., 1:]
        return (2.0 * (tail - head**2) ** 2 + (1 - head) ** 2).sum(axis=-1)

    def objective(self, x: Array) -> Array:
        centre = np.broadcast_to(x.mean(axis=-2, keepdims=True), x.shape)
        return self.losses(centre).mean(axis=-1)


def masks_and_signs(setting: Setting, q: int, rounds: int) -> tuple[Array, Array]:
    """Supports and signs of every node in all rounds, as the tape draws them: (rounds, seeds, n, d)."""
    masks = np.zeros((rounds, len(setting.seeds), N, D), np.int8)
    signs = np.zeros_like(masks)
    for k, seed in enumerate(setting.seeds):
        world = World(erdos_renyi(N, 0.4, seed), D)
        u = shared_directions(world, Tape(seed)[..., None], np.arange(rounds), q).u
        shape = (rounds, N, q)
        index = np.broadcast_to(u.index, shape)
        np.put_along_axis(masks[:, k], index, np.int8(1), axis=-1)
        np.put_along_axis(signs[:, k], index, np.broadcast_to(u.signs, shape).astype(np.int8), axis=-1)
    return masks, signs


def path(setting: Setting, way: Way, q: int, drawn: tuple[Array, Array]) -> Array:
    """F(x̄) every ten rounds, (checkpoints, seeds); nan once a run has diverged."""
    masks, signs = drawn
    x = np.full((len(setting.seeds), N, D), -1.0)
    m, seen = np.zeros_like(x), [setting.objective(x)]
    for t in range(ROUNDS):
        mask = masks[t].astype(float)
        u = _dense_signs(setting, t) if way.dense else signs[t].astype(float)
        slope = (setting.losses(x + MU * u) - setting.losses(x - MU * u)) / (2 * MU)
        g = slope[..., None] * u * mask * (D / q if way.scaled or not way.dense else 1.0)
        m = np.where(mask > 0, way.beta * m + (1 - way.beta) * g, m)
        x = way.move(x, way.longer * m * mask, mask, setting.W)
        if (t + 1) % EVERY == 0:
            seen.append(setting.objective(x))
    found = np.stack(seen)
    return np.where(np.abs(found) < GONE, found, np.nan)


def _dense_signs(setting: Setting, t: int) -> Array:
    return np.stack(
        [Tape(seed).coins("dense", t).signs(N * D).reshape(N, D) for seed in setting.seeds]
    ).astype(float)


class Fit(NamedTuple):
    """How a reading does on the fifteen cells."""

    within: int  # |difference| ≤ the printed std
    above: int
    z: float  # mean of the difference in standard errors, of both means
    chi2: float  # sum of their squares
    lost: int  # runs that diverged, of all q


def judge(setting: Setting, way: Way, drawn: dict[int, tuple[Array, Array]]) -> Fit:
    within = above = lost = 0
    zs = []
    for q, row in PRINTED.items():
        with np.errstate(over="ignore", invalid="ignore"):
            seen = path(setting, way, q, drawn[q])
        lost += int(np.isnan(seen[-1]).sum())
        for budget, bits in BUDGETS.items():
            rounds = np.minimum(bits // (way.price(q) * setting.degrees), ROUNDS).astype(int) // EVERY
            values = seen[rounds, np.arange(len(setting.seeds))]
            values = values[np.isfinite(values)]
            printed = read(row[budget][1])
            if len(values) < 2:
                above += 1
                zs.append(math.inf)
                continue
            off = float(values.mean()) - printed.mean
            within, above = within + (abs(off) <= printed.std), above + (off > 0)
            zs.append(
                off / math.sqrt(printed.std**2 / printed.seeds + float(values.var(ddof=1)) / len(values))
            )
    return Fit(within, above, float(np.mean(zs)), float(np.sum(np.square(zs))), lost)


def table(most: int, ways: tuple[Way, ...] = WAYS) -> str:
    setting = Setting.of(chosen_seeds(most))
    drawn = {q: masks_and_signs(setting, q, ROUNDS) for q in PRINTED}
    lines = ["| reading of Rand-k | within, of 15 | above the print | mean z | χ² | diverged |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for way in ways:
        fit = judge(setting, way, drawn)
        known = math.isfinite(fit.z)
        z, chi2 = (f"{fit.z:+.1f}".replace("-", "−"), f"{fit.chi2:.0f}") if known else ("–", "–")
        lines.append(f"| {way.words} | {fit.within} | {fit.above} | {z} | {chi2} | {fit.lost} |")
        print(lines[-1], flush=True)
    about = f"{len(setting.seeds)} seeds of 1 to {most} whose graph has a mean degree of {'–'.join(DEGREES)}."
    return "\n".join([*lines, "", about]) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seeds", type=int, default=40)
    asked = parser.parse_args()
    text = table(asked.seeds)
    if asked.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")
