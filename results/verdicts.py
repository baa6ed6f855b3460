"""Claims about models, held against the logs in results/small-models.   python results/verdicts.py [--write]

Every verdict is computed: `holds` where the 95 % paired bootstrap interval over seeds lies on the claimed
side of 0, `fails` where it lies on the other, `open` where it has 0 inside. With --write, the table and the
figure of docs/model-results.md are made anew.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from zocosmo.core import CODECS
from zocosmo.log import read_log
from zocosmo.report.budget import cell
from zocosmo.report.curves import figure
from zocosmo.report.stats import Interval, paired_interval
from zocosmo.sim.guard import Guard, Seen

HERE = Path(__file__).parent
LOGS = HERE / "small-models"
PAGE = HERE.parent / "docs" / "model-results.md"
PICTURE = HERE.parent / "docs" / "img" / "small-models.png"
ARMS = {
    "sst2-i": "edge-local I",
    "sst2-g": "edge-local G",
    "sst2-s": "edge-local S",
    "sst2-global": "global support",
    "sst2-core": "edge-local I, β = 0",
    "sst2-core-own": "edge-local I, β = 0, a step of its own",
    "sst2-i-1540": "edge-local I, 1,540 rounds",
    "sst2-i-8": "edge-local I, eight nodes",
    "sst2-i-1540-large": "edge-local I, 1,540 rounds, larger step, no guard",
    "sst2-paper": "the paper's recipe",
}
Q, D = 8192, {"sst2": 460_800, "qnli": 540_672}


class Claim(NamedTuple):
    """What is claimed, in words, and the paired differences in accuracy that speak for it where positive."""

    words: str
    interval: Interval

    @property
    def verdict(self) -> str:
        if self.interval.low > 0:
            return "holds"
        return "fails" if self.interval.high < 0 else "open"


def rows(name: str) -> pd.DataFrame:
    return read_log(LOGS / f"{name}.csv").rows


def accuracy(name: str, *, round_at: int | None = None, bits: float | None = None) -> Mapping[str, float]:
    """By seed: at the last checkpoint, at a round, or at the first checkpoint that has spent so many bits:
    what costs more is read rather too late than too early."""
    log = rows(name)
    if bits is not None:
        round_at = int(log.loc[log["bits"] >= bits, "round"].min())
    if round_at is not None:
        log = log[log["round"] <= round_at]
    return cell(log, None, "accuracy").values


def indexed_budget(name: str) -> float:
    """What value-only messages may cost until those with indices have spent what the run has."""
    task = name.split("-")[0]
    plain, indexed = (CODECS[codec].bits(D[task], Q).payload for codec in ("values", "indexed"))
    return float(rows(name)["bits"].max()) * plain / indexed


def claim(words: str, a: Mapping[str, float], b: Mapping[str, float]) -> Claim:
    return Claim(words, paired_interval(a, b, greater=True))


def claims() -> Iterator[Claim]:
    for task, name in (("SST-2", "sst2"), ("QNLI", "qnli")):
        yield from costs(task, name, ("i", "g", "s", "i-1540") if name == "sst2" else ("i",))
        yield from recipes(task, name)
        yield from couplings(task, name)
        eight = (
            ("i-8",) if name == "sst2" else ()
        )  # three checkpoints on QNLI are too few for budgets between
        yield from costs(f"{task}, eight nodes", name, eight, "-8")
    yield claim("SST-2, eight nodes: I beats G", accuracy("sst2-i-8"), accuracy("sst2-g-8"))
    yield claim("SST-2, eight nodes: S beats G", accuracy("sst2-s-8"), accuracy("sst2-g-8"))
    yield claim("SST-2: eight nodes beat four in 770 rounds (I)", accuracy("sst2-i-8"), accuracy("sst2-i"))
    yield claim(
        "QNLI: eight nodes in 76 rounds beat four in 150 (I)", accuracy("qnli-i-8"), accuracy("qnli-i")
    )
    yield from steps()


def costs(task: str, name: str, arms: Sequence[str], nodes: str = "") -> Iterator[Claim]:
    """Whether I learns, and what cheaper messages are worth."""
    ours = f"{name}-i{nodes}"
    yield claim(f"{task}: edge-local I learns", accuracy(ours), accuracy(ours, round_at=0))
    for arm in arms:
        saved = accuracy(f"{name}-{arm}", bits=indexed_budget(f"{name}-{arm}"))
        words = arm.removesuffix("-8").upper().replace("-1540", ", 1,540 rounds")
        same = accuracy(f"{name}-{arm}")
        yield claim(f"{task}: value-only beats indexed at equal bits ({words})", same, saved)
    shared = accuracy(f"{name}-global{nodes}", bits=float(rows(ours)["bits"].max()))
    yield claim(f"{task}: edge-local I beats global support at equal bits", accuracy(ours), shared)


def recipes(task: str, name: str) -> Iterator[Claim]:
    papers, start = accuracy(f"{name}-paper"), accuracy(f"{name}-paper", round_at=0)
    yield claim(f"{task}: the paper's recipe (bf16, μ = 1e-3) learns", papers, start)
    yield claim(f"{task}: the probe's recipe beats the paper's", accuracy(f"{name}-i"), papers)


def couplings(task: str, name: str) -> Iterator[Claim]:
    i, g, s = (accuracy(f"{name}-{arm}") for arm in "igs")
    yield claim(f"{task}: S beats G (the paper: +3.75)", s, g)
    yield claim(f"{task}: I beats S (the paper: −1.86, open)", i, s)


def steps() -> Iterator[Claim]:
    """Steps, momentum, rounds and precision."""
    ours = accuracy("sst2-i")
    last = int(rows("sst2-i")["round"].max())
    large = [accuracy(f"sst2-{arm}-large") for arm in ("i", "g", "s", "global", "i-1540")]
    yield claim(
        "QNLI: the probe's settings in float32 beat those by hand in tf32",
        accuracy("qnli-i"),
        accuracy("qnli-i-tf32"),
    )
    yield claim(
        "SST-2: edge-local I beats global support at equal rounds",
        ours,
        accuracy("sst2-global", round_at=last),
    )
    yield from momentum()
    yield claim("SST-2: 1,540 rounds beat 770", accuracy("sst2-i-1540"), ours)
    yield claim("SST-2: a larger step, η = 8e-3, beats the probe's in 770 rounds (I)", large[0], ours)
    yield claim("SST-2: with it, S beats G", large[2], large[1])
    yield claim("SST-2: with it, I beats global support at equal rounds", large[0], large[3])
    yield claim("SST-2: with it and no guard, 1,540 rounds beat 770", large[4], large[0])


def momentum() -> Iterator[Claim]:
    without = {
        "SST-2: momentum 0.9 beats none at the same η": ("sst2-i", "sst2-core"),
        "SST-2: momentum 0.9 beats none at the same first step": ("sst2-i", "sst2-core-tenth"),
        "SST-2: momentum 0.9 beats none, the probe's η for each": ("sst2-i", "sst2-core-own"),
        "SST-2: momentum 0.9 beats none, the probe's η for each, 1,540 rounds": (
            "sst2-i-1540",
            "sst2-core-own-1540",
        ),
        "QNLI: momentum 0.9 beats none at the same η": ("qnli-i", "qnli-core"),
        "QNLI: momentum 0.9 beats none, the probe's η for each": ("qnli-i", "qnli-core-own"),
    }
    for words, (ours, theirs) in without.items():
        yield claim(words, accuracy(ours), accuracy(theirs))


def arms_table() -> str:
    lines = [
        "| run | rounds | Mbit per node | accuracy at the start | at the end | std | cut by the guard |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for path in sorted(LOGS.glob("*.csv")):
        log = rows(path.stem)
        end, start = cell(log, None, "accuracy"), cell(log[log["round"] == 0], None, "accuracy")
        about = f"{log['round'].max():,} | {log['bits'].max() / 1e6:.1f}"
        found = f"{100 * start.mean:.1f} % | {100 * end.mean:.1f} % | {100 * end.std:.1f}"
        lines.append(f"| {path.stem} | {about} | {found} | {cut(log)} |")
    return "\n".join(lines)


def cut(log: pd.DataFrame) -> str:
    """In how many runs the guard has cut the step, and to what at most; a dash where there is no guard."""
    if "step_factor" not in log:
        return "–"
    left = log.groupby("seed")["step_factor"].min()
    least = f", to {left.min():g}" if left.min() < 1 else ""
    return f"{(left < 1).sum()} of {len(left)}{least}"


def claims_table() -> str:
    lines = [
        "| claim | points of accuracy | 95 % interval | seeds | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for found in claims():
        at = found.interval
        span = f"[{100 * at.low:+.2f}, {100 * at.high:+.2f}]"
        lines.append(
            f"| {found.words} | {100 * at.difference:+.2f} | {span} | {at.pairs} | {found.verdict} |"
        )
    return "\n".join(lines)


def guard_line() -> str:
    """When the guard's rule would first have dropped the step in the run that had none, seed by seed."""
    first = []
    for _, run in rows("sst2-i-1540-large").groupby("seed", sort=False):
        seen = [Seen(*pair) for pair in zip(run["norm"], run["local"], strict=True)]
        drops = [
            int(t)
            for t, a, b in zip(run["round"].iloc[1:], seen, seen[1:], strict=False)
            if Guard().factor(a, b) < 1
        ]
        first.append(f"{drops[0]:,}")
    dropped = f"would first have dropped the step at rounds {', '.join(first)}"
    return f"The guard's rule, on the checkpoints of sst2-i-1540-large, {dropped}."


def tables() -> str:
    return f"{arms_table()}\n\n{claims_table()}\n\n{guard_line()}\n"


def draw() -> None:
    """Accuracy against bits of the runs on SST-2."""
    frames = [rows(name).assign(method=label, problem="SST-2, SmolLM2") for name, label in ARMS.items()]
    numbered = [frame.assign(trial=frame["trial"] + 100 * k) for k, frame in enumerate(frames)]
    figure(pd.concat(numbered, ignore_index=True), PICTURE, x="bits", metric="accuracy", budgets=[])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the table and the figure into the docs")
    if parser.parse_args().write:
        text = PAGE.read_text(encoding="utf-8")
        head, _, rest = text.partition("<!-- verdicts -->\n")
        tail = rest.partition("<!-- end -->\n")[2]
        PAGE.write_text(f"{head}<!-- verdicts -->\n{tables()}<!-- end -->\n{tail}", encoding="utf-8")
        draw()
    print(tables(), end="")


if __name__ == "__main__":
    main()
