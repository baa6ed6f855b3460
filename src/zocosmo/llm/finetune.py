"""A fine-tuning run: a plan of one trial, adapters at its checkpoints, and an error if it diverges."""

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.errors import InputError, OracleError
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import Tick, run_plan, state_name
from zocosmo.experiments.states import STATES, read_states
from zocosmo.files import write_text
from zocosmo.llm.adapters import Adapter
from zocosmo.llm.recipe import as_yaml, resolved, subject_of
from zocosmo.llm.subject import Subject
from zocosmo.log import Log, logs_in
from zocosmo.sim import Checkpoint, Simulation

CONFIG = "config.yaml"
ADAPTER = "adapter"  # the last; adapter-20, adapter-40, … are those of checkpoints
KEPT = 3  # adapters of checkpoints
NUMBERED = re.compile(rf"{ADAPTER}-(\d+)")

See = Callable[[Checkpoint], None]


class Outcome(NamedTuple):
    """The result of a run."""

    log: Log
    adapter: Path
    before: dict[str, Any]  # the first row of the log; `after` is the last
    after: dict[str, Any]


def finetune(
    plan: Plan,
    out: Path,
    *,
    resume: bool = False,
    replace_old: bool = False,
    tick: Tick | None = None,
    see: See | None = None,
) -> Outcome:
    """Run a plan of one trial into a folder: the log, the states of all nodes, and adapters.

    `out`/adapter is the network average at the end, in PEFT's format, beside those of the last three
    checkpoints. `out`/config.yaml is the plan as it was run, for `zocosmo run` and `launch`.
    """
    subject = subject_of(plan)
    if replace_old or not logs_in(out):
        _ = subject.validation, subject.backbone  # refuse what is wrong with them before a folder is made
    adapters = Adapters(out, subject, as_yaml(resolved(plan)), see or (lambda now: None))
    try:
        log = run_plan(
            plan,
            out,
            resume=resume,
            replace_old=replace_old,
            tick=tick,
            states=True,
            watch=adapters,
            job="finetune",
        )
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise InputError(
                f"the device has too little memory for the queries of {plan.trials[0].graph_of().n} nodes; "
                "lower batch, max_tokens or eval_batch, or set queries one_by_one"
            ) from None
        raise
    before, after = ({str(k): v for k, v in log.rows.iloc[at].items()} for at in (0, -1))
    if after["diverged"]:
        raise OracleError(_diverged(plan, out, before, after))
    states = read_states(out / STATES) or {}
    adapters.save(ADAPTER, average(states[state_name(plan.trials[0])]))
    if not (out / CONFIG).exists():  # the log is of `zocosmo launch`, which writes no config
        adapters.write_config()
    return Outcome(log, out / ADAPTER, before, after)


class Adapters:
    """Saves the network average at every checkpoint, and keeps the last few."""

    def __init__(self, out: Path, subject: Subject, config: str, see: See) -> None:
        self.out, self.subject, self.config, self.see = out, subject, config, see

    def __call__(self, sim: Simulation, now: Checkpoint) -> None:
        if now.round == 0:
            self._begin()
        elif not now.diverged[0]:
            self.save(f"{ADAPTER}-{now.round}", average(sim.states()[0]))
            for old in numbered(self.out)[:-KEPT]:
                shutil.rmtree(old)
        self.see(now)

    def save(self, name: str, x: Adapter) -> None:
        """Write a folder that appears whole."""
        folder, draft = self.out / name, self.out / f".{name}"
        shutil.rmtree(draft, ignore_errors=True)
        self.subject.layout.save(draft, x, model=self.subject.model)
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)

    def _begin(self) -> None:
        """Delete the adapters of an earlier study."""
        for old in (*numbered(self.out), self.out / ADAPTER):
            shutil.rmtree(old, ignore_errors=True)
        self.write_config()

    def write_config(self) -> None:
        write_text(self.out / CONFIG, self.config)


def average(states: NDArray[Any]) -> Adapter:
    """x̄ of states (n, d), to the bit what a checkpoint measures."""
    mean: Adapter = states[None].astype(np.float64).mean(axis=-2)[0].astype(np.float32)
    return mean


def numbered(out: Path) -> list[Path]:
    """The adapters of checkpoints, by round."""
    found = {int(m[1]): path for path in out.iterdir() if (m := NUMBERED.fullmatch(path.name))}
    return [found[k] for k in sorted(found)]


def _diverged(plan: Plan, out: Path, before: dict[str, Any], after: dict[str, Any]) -> str:
    """What went wrong and when, what is left, and what to change."""
    method, dtype = plan.trials[0].method, dict(plan.trials[0].problem)["dtype"]
    loss = after["objective"]
    if after["round"] == 0:
        advice = "take dtype float32 or bfloat16" if dtype == "float16" else "check the model and its weights"
        return f"the loss is {loss:.4g} before any round, in {dtype}; {advice}, and start over with --replace"
    kept = numbered(out)
    left = f"the last good adapter is {kept[-1]}" if kept else "no checkpoint came before it"
    what = "is not finite" if not math.isfinite(loss) else f"is {loss:.4g}"
    return (
        f"diverged by round {after['round']}: the loss {what}, from {before['objective']:.4g} at the start; "
        f"{left}; lower eta (now {method.eta:g}), and start over with --replace"
    )
