"""Claims about models, held against the logs in results/small-models.   python results/verdicts.py [--write]

Every verdict is computed: `holds` where the 95 % paired bootstrap interval over seeds lies on the claimed
side of 0, `fails` where it lies on the other, `open` where it has 0 inside. With --write, the table and the
figure of docs/model-results.md are made anew.
"""

import argparse
from collections.abc import Mapping
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
    "sst2-core-tenth": "edge-local I, β = 0, a tenth of the step",
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
    """By seed: at the last checkpoint, at a round, or at the last checkpoint that a budget pays for."""
    log = rows(name)
    if round_at is not None:
        log = log[log["round"] <= round_at]
    return cell(log, bits, "accuracy").values


def indexed_budget(name: str) -> float:
    """What value-only messages may cost until those with indices have spent what the run has."""
    task = name.split("-")[0]
    plain, indexed = (CODECS[codec].bits(D[task], Q).payload for codec in ("values", "indexed"))
    return float(rows(name)["bits"].max()) * plain / indexed


def claims() -> list[Claim]:
    found = []

    def add(words: str, a: Mapping[str, float], b: Mapping[str, float]) -> None:
        found.append(Claim(words, paired_interval(a, b, greater=True)))

    for task, name in (("SST-2", "sst2"), ("QNLI", "qnli")):
        start, spent = accuracy(f"{name}-i", round_at=0), float(rows(f"{name}-i")["bits"].max())
        add(f"{task}: edge-local I learns", accuracy(f"{name}-i"), start)
        for arm in ("i", "g", "s", "i-1540") if name == "sst2" else "i":
            saved = accuracy(f"{name}-{arm}", bits=indexed_budget(f"{name}-{arm}"))
            words = arm.upper().replace("-1540", ", 1,540 rounds")
            add(f"{task}: value-only beats indexed at equal bits ({words})", accuracy(f"{name}-{arm}"), saved)
        shared = accuracy(f"{name}-global", bits=spent)
        add(f"{task}: edge-local I beats global support at equal bits", accuracy(f"{name}-i"), shared)
        add(
            f"{task}: the paper's recipe (bf16, μ = 1e-3) learns",
            accuracy(f"{name}-paper"),
            accuracy(f"{name}-paper", round_at=0),
        )
        add(
            f"{task}: the probe's recipe beats the paper's",
            accuracy(f"{name}-i"),
            accuracy(f"{name}-paper"),
        )
    add("QNLI: float32 beats tf32", accuracy("qnli-i"), accuracy("qnli-i-tf32"))
    last = int(rows("sst2-i")["round"].max())
    add(
        "SST-2: edge-local I beats global support at equal rounds",
        accuracy("sst2-i"),
        accuracy("sst2-global", round_at=last),
    )
    add("SST-2: S beats G (the paper: +3.75)", accuracy("sst2-s"), accuracy("sst2-g"))
    add("SST-2: I beats S (the paper: −1.86, open)", accuracy("sst2-i"), accuracy("sst2-s"))
    add(
        "SST-2: momentum 0.9 beats none at the same first step",
        accuracy("sst2-i"),
        accuracy("sst2-core-tenth"),
    )
    add("SST-2: 1,540 rounds beat 770", accuracy("sst2-i-1540"), accuracy("sst2-i"))
    eight = accuracy("sst2-i-8")
    add("SST-2, eight nodes: edge-local I learns", eight, accuracy("sst2-i-8", round_at=0))
    saved = accuracy("sst2-i-8", bits=indexed_budget("sst2-i-8"))
    add("SST-2, eight nodes: value-only beats indexed at equal bits (I)", eight, saved)
    shared = accuracy("sst2-global-8")
    add("SST-2, eight nodes: edge-local I beats global support at equal bits", eight, shared)
    add("SST-2, eight nodes: I beats G", eight, accuracy("sst2-g-8"))
    add("SST-2: eight nodes beat four in 770 rounds (I)", eight, accuracy("sst2-i"))
    large = [accuracy(f"sst2-{arm}-large") for arm in ("i", "g", "s", "global", "i-1540")]
    add("SST-2: a larger step, η = 8e-3, beats the probe's in 770 rounds (I)", large[0], accuracy("sst2-i"))
    add("SST-2: with it, S beats G", large[2], large[1])
    add("SST-2: with it, I beats global support at equal rounds", large[0], large[3])
    add("SST-2: with it and no guard, 1,540 rounds beat 770", large[4], large[0])
    return found


def arms_table() -> str:
    lines = [
        "| run | rounds | Mbit per node | accuracy at the start | at the end | std |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for path in sorted(LOGS.glob("*.csv")):
        log = rows(path.stem)
        end, start = cell(log, None, "accuracy"), cell(log[log["round"] == 0], None, "accuracy")
        about = f"{log['round'].max():,} | {log['bits'].max() / 1e6:.1f}"
        found = f"{100 * start.mean:.1f} % | {100 * end.mean:.1f} % | {100 * end.std:.1f}"
        lines.append(f"| {path.stem} | {about} | {found} |")
    return "\n".join(lines)


def claims_table() -> str:
    lines = [
        "| claim | points of accuracy | 95 % interval | seeds | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for claim in claims():
        at = claim.interval
        span = f"[{100 * at.low:+.2f}, {100 * at.high:+.2f}]"
        lines.append(
            f"| {claim.words} | {100 * at.difference:+.2f} | {span} | {at.pairs} | {claim.verdict} |"
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
