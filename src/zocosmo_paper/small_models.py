"""Claims about two small language models, checked against the logs of results/small-models.

Every verdict is computed: `holds` if the 95 % paired bootstrap interval over seeds is above 0, `fails` if it
is below 0, `open` if it contains 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from zocosmo.core.message import CODECS
from zocosmo.log import read_log
from zocosmo.report.budget import cell
from zocosmo.report.curves import figure
from zocosmo.report.stats import Interval, paired_interval
from zocosmo.report.tables import markdown_lines
from zocosmo.rounds.guard import Guard, Seen

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
BEATS = """
SST-2, eight nodes: I beats G | sst2-i-8 | sst2-g-8
SST-2, eight nodes: S beats G | sst2-s-8 | sst2-g-8
SST-2: eight nodes beat four in 770 rounds (I) | sst2-i-8 | sst2-i
QNLI: eight nodes in 76 rounds beat four in 150 (I) | qnli-i-8 | qnli-i
QNLI: the probe's settings in float32 beat those by hand in tf32 | qnli-i | qnli-i-tf32
SST-2: edge-local I beats global support at equal rounds | sst2-i | sst2-global@sst2-i
SST-2: momentum 0.9 beats none at the same η | sst2-i | sst2-core
SST-2: momentum 0.9 beats none at the same first step | sst2-i | sst2-core-tenth
SST-2: momentum 0.9 beats none, the probe's η for each | sst2-i | sst2-core-own
SST-2: momentum 0.9 beats none, the probe's η for each, 1,540 rounds | sst2-i-1540 | sst2-core-own-1540
QNLI: momentum 0.9 beats none at the same η | qnli-i | qnli-core
QNLI: momentum 0.9 beats none, the probe's η for each | qnli-i | qnli-core-own
SST-2: 1,540 rounds beat 770 | sst2-i-1540 | sst2-i
SST-2: a larger step, η = 8e-3, beats the probe's in 770 rounds (I) | sst2-i-large | sst2-i
SST-2: with it, S beats G | sst2-s-large | sst2-g-large
SST-2: with it, I beats global support at equal rounds | sst2-i-large | sst2-global-large
SST-2: with it and no guard, 1,540 rounds beat 770 | sst2-i-1540-large | sst2-i-large
"""  # claim, the better run, the worse one; a@b: run a at the last round of b

MODELS = {"SST-2": "SmolLM2-135M-Instruct", "QNLI": "Qwen2.5-Coder-0.5B-Instruct"}

Values = Mapping[str, float]  # by seed


class PairedClaim(NamedTuple):
    """A claim in words, and the paired differences in accuracy, positive where they support it."""

    words: str
    interval: Interval

    @property
    def verdict(self) -> str:
        if self.interval.low > 0:
            return "holds"
        return "fails" if self.interval.high < 0 else "open"


class ModelLogs:
    """The logs in a folder, by name of run, and what they say about the claims."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, name: str) -> pd.DataFrame:
        return read_log(self.folder / f"{name}.csv").rows

    def accuracy(self, name: str, *, round_at: int | None = None, bits: float | None = None) -> Values:
        """By seed: at the last checkpoint, at a round, or at the first checkpoint with at least `bits` spent.

        The latter favours the dearer messages, if anything.
        """
        log = self.rows(name)
        if bits is not None:
            round_at = int(log.loc[log["bits"] >= bits, "round"].min())
        if round_at is not None:
            log = log[log["round"] <= round_at]
        return cell(log, None, "accuracy").values

    def indexed_budget(self, name: str) -> float:
        """Bits of value-only messages in as many rounds as indexed ones could pay with the run's bits."""
        task = name.split("-")[0]
        plain, indexed = (CODECS[codec].bits(D[task], Q).payload for codec in ("values", "indexed"))
        return float(self.rows(name)["bits"].max()) * plain / indexed

    def beats(self, words: str, better: str, worse: str) -> PairedClaim:
        """That one run ends with more accuracy than another; of `a@b`, run a at the last round of b."""
        name, _, other = worse.partition("@")
        last = int(self.rows(other)["round"].max()) if other else None
        return claim(words, self.accuracy(better), self.accuracy(name, round_at=last))

    def claims(self) -> Iterator[PairedClaim]:
        for task, name in (("SST-2", "sst2"), ("QNLI", "qnli")):
            yield from self._costs(task, name, ("i", "g", "s", "i-1540") if name == "sst2" else ("i",))
            papers, start = (self.accuracy(f"{name}-paper", round_at=at) for at in (None, 0))
            yield claim(f"{task}: the paper's recipe (bf16, μ = 1e-3) learns", papers, start)
            yield self.beats(f"{task}: the probe's recipe beats the paper's", f"{name}-i", f"{name}-paper")
            yield self.beats(f"{task}: S beats G (the paper: +3.75)", f"{name}-s", f"{name}-g")
            yield self.beats(f"{task}: I beats S (the paper: −1.86, open)", f"{name}-i", f"{name}-s")
            eight = ("i-8",) if name == "sst2" else ()  # QNLI has too few checkpoints for budgets between
            yield from self._costs(f"{task}, eight nodes", name, eight, "-8")
        for line in BEATS.strip().splitlines():
            yield self.beats(*line.split(" | "))

    def _costs(self, task: str, name: str, arms: Sequence[str], nodes: str = "") -> Iterator[PairedClaim]:
        """Whether I learns, and what cheaper messages are worth."""
        ours = f"{name}-i{nodes}"
        final = self.accuracy(ours)
        yield claim(f"{task}: edge-local I learns", final, self.accuracy(ours, round_at=0))
        for arm in arms:
            run = f"{name}-{arm}"
            words = arm.removesuffix("-8").upper().replace("-1540", ", 1,540 rounds")
            words = f"{task}: value-only beats indexed at equal bits ({words})"
            yield claim(words, self.accuracy(run), self.accuracy(run, bits=self.indexed_budget(run)))
        shared = self.accuracy(f"{name}-global{nodes}", bits=float(self.rows(ours)["bits"].max()))
        yield claim(f"{task}: edge-local I beats global support at equal bits", final, shared)

    def saying(self, claim: PairedClaim) -> str:
        """A claim in a sentence, with the model it is about."""
        at = claim.interval
        ends = f"[{100 * at.low:+.2f}, {100 * at.high:+.2f}]".replace("-", "−")
        points = f"{100 * at.difference:+.2f}".replace("-", "−")
        task = claim.words.partition(":")[0]
        told = claim.words.partition(": ")[2].partition(" (the paper")[0]
        return f"{MODELS[task.split(',')[0]]} on {task}: {told}: {claim.verdict}, {points} points {ends}"

    def tables(self) -> str:
        return f"{self._arms_table()}\n\n{self._claims_table()}\n\n{self._guard_line()}\n"

    def _arms_table(self) -> str:
        header = "run", "rounds", "Mbit per node", "accuracy at the start", "at the end", "std"
        rows = []
        for path in sorted(self.folder.glob("*.csv")):
            log = self.rows(path.stem)
            end, start = cell(log, None, "accuracy"), cell(log[log["round"] == 0], None, "accuracy")
            about = path.stem, f"{log['round'].max():,}", f"{log['bits'].max() / 1e6:.1f}"
            found = f"{100 * start.mean:.1f} %", f"{100 * end.mean:.1f} %", f"{100 * end.std:.1f}"
            rows.append([*about, *found, cut(log)])
        return table([*header, "cut by the guard"], rows)

    def _claims_table(self) -> str:
        rows = []
        for found in self.claims():
            at = found.interval
            span = f"[{100 * at.low:+.2f}, {100 * at.high:+.2f}]"
            rows.append([found.words, f"{100 * at.difference:+.2f}", span, str(at.pairs), found.verdict])
        return table(["claim", "points of accuracy", "95 % interval", "seeds", "verdict"], rows)

    def _guard_line(self) -> str:
        """When the guard would first have dropped the step in the run without one, by seed."""
        first = []
        for _, run in self.rows("sst2-i-1540-large").groupby("seed", sort=False):
            seen = [Seen(*pair) for pair in zip(run["norm"], run["local"], strict=True)]
            pairs = zip(run["round"].iloc[1:], pairwise(seen), strict=True)
            first.append(f"{next(int(t) for t, pair in pairs if Guard().factor(*pair) < 1):,}")
        dropped = f"would first have dropped the step at rounds {', '.join(first)}"
        return f"The guard's rule, on the checkpoints of sst2-i-1540-large, {dropped}."

    def draw(self, to: Path) -> None:
        """Accuracy against bits of the runs on SST-2."""
        numbered = []
        for k, (name, label) in enumerate(ARMS.items()):
            log = self.rows(name).assign(method=label, problem="SST-2, SmolLM2")
            numbered.append(log.assign(trial=log["trial"] + 100 * k))
        figure(pd.concat(numbered, ignore_index=True), to, x="bits", metric="accuracy", budgets=[])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(markdown_lines([header, ["---"] * len(header), *rows]))


def claim(words: str, a: Values, b: Values) -> PairedClaim:
    return PairedClaim(words, paired_interval(a, b, greater=True))


def cut(log: pd.DataFrame) -> str:
    """In how many runs the guard cut the step, and to what at most; a dash without a guard."""
    if "step_factor" not in log:
        return "–"
    left = log.groupby("seed")["step_factor"].min()
    least = f", to {left.min():g}" if left.min() < 1 else ""
    return f"{(left < 1).sum()} of {len(left)}{least}"
