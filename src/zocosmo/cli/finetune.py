"""zocosmo finetune: several nodes fine-tune a language model together, from one command."""

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import app, needing_llm, say, stderr_bar
from zocosmo.cli.model import fetch_model
from zocosmo.cli.options import OutOption, ReplaceOption, ResumeOption, argument, option
from zocosmo.cli.study import say_finished, say_stopped

if TYPE_CHECKING:
    from zocosmo.experiments.config import Config
    from zocosmo.llm.finetune import Outcome

ConfigArgument = Annotated[Path | None, argument("A YAML file to start from; options change it.")]
TaskOption = Annotated[str | None, option("toy, sst2, qnli, boolq, mrpc, rte, or your own .yaml.")]
DataOption = Annotated[str | None, option("Folder with TASK/train.jsonl and validation.jsonl.")]
QOption = Annotated[
    int | None, option("Coordinates in a support.  [default: 8192, or d/8 if that is less]", "--q")
]
EveryOption = Annotated[int | None, option("Rounds between checkpoints.  [default: 40; on toy 20]")]
SetOption = Annotated[
    list[str] | None, option("Any other entry, by dots: problem.rank=16. Repeatable.", "--set")
]


@app.command()
def finetune(
    context: typer.Context,
    config: ConfigArgument = None,
    model: Annotated[str | None, option("smollm2, a folder, or a name on the hub.")] = None,
    task: TaskOption = None,
    data: DataOption = None,
    nodes: Annotated[int | None, option("Number of nodes.  [default: 4]")] = None,
    graph: Annotated[str | None, option("See zocosmo graphs.  [default: ring]")] = None,
    method: Annotated[str | None, option("See zocosmo methods.  [default: edge_local]")] = None,
    q: QOption = None,
    eta: Annotated[float | None, option("Step size; probed, with mu, if not given.")] = None,
    mu: Annotated[float | None, option("Distance of the two queries from x.")] = None,
    momentum: Annotated[float | None, option("Momentum of visited coordinates.  [default: 0.9]")] = None,
    rounds: Annotated[int | None, option("Rounds to run.  [default: 400; on toy 40]")] = None,
    every: EveryOption = None,
    batch: Annotated[int | None, option("Examples in a query.  [default: 4]")] = None,
    dtype: Annotated[str | None, option("float32, tf32, bfloat16 or float16.")] = None,
    device: Annotated[str | None, option("auto, cpu, cuda, cuda:1, ….")] = None,
    seed: Annotated[int | None, option("Seed of public and private coins.  [default: 0]")] = None,
    exact: Annotated[bool, option("No guards: no clip, no decay, no drop of the step.", "--exact")] = False,
    more: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
) -> None:
    """Fine-tune a language model over several nodes with forward passes only, and save the adapter.

    Without arguments SmolLM2 learns toy, a small synthetic sentiment task, in 40 rounds with a known eta and
    mu. Other tasks run 400 rounds; for other choices eta and mu are probed first. OUT/config.yaml holds every
    setting, and zocosmo run or launch takes it.

    \b
    Example: zocosmo model get smollm2 && zocosmo finetune
    Your own choices: zocosmo finetune --model smollm2 --task sst2 --data data --nodes 4 --graph ring
    """
    from zocosmo.log import logs_in

    with needing_llm("finetune"):
        from zocosmo.llm.finetune import finetune as run
        from zocosmo.llm.recipe import PLACES, settle
        from zocosmo.llm.rerun import find_recipe, recall

    given = {PLACES[name]: context.params[name] for name in PLACES if context.params[name] is not None}
    recipe, folder = find_recipe(config, given, more or [], out, resume=resume, exact=exact)
    finished = not replace and bool(logs_in(folder))
    if not replace:
        recall(recipe, folder)
    _offer(recipe)
    taken = not replace and not resume and (folder / "plan.json").exists()
    plan = settle(recipe, folder.name, None if finished or taken else say)
    try:
        with Show(plan.last, plan.trials[0].graph_of().n) as show:
            found = run(plan, folder, resume=resume, replace_old=replace, tick=show.tick, see=show.see)
    except KeyboardInterrupt:  # the bar is removed by now
        _stopped(folder)
        raise
    if finished:
        say_finished(folder)
    _report(found, folder)
    if config is None and not given and not more and not resume:
        _further(folder, found)


def _offer(recipe: "Config") -> None:
    """Offer to fetch a known model that is not stored here."""
    from zocosmo.llm.cache import KNOWN, check_kept, kept_folder

    about: Any = recipe.data
    name = about["problem"].get("model", "smollm2")
    if name not in KNOWN or kept_folder(name) or Path(name).is_dir():
        return
    if not is_terminal():
        check_kept(name)  # refuses, and says how to get it
    if not typer.confirm(f"{KNOWN[name].about}, is not here yet. Fetch it (93 MB)?", default=True, err=True):
        check_kept(name)
    fetch_model(name)


def _stopped(folder: Path) -> None:
    if not (folder / "config.yaml").exists():
        say("stopped before the first checkpoint; nothing is kept, start over with --replace")
        return
    say_stopped(["zocosmo", "finetune", "--out", str(folder), "--resume"])


def _report(found: "Outcome", folder: Path) -> None:
    before, after = found.before, found.after
    print(
        f"accuracy {before['accuracy']:.1%} → {after['accuracy']:.1%}, "
        f"validation loss {before['objective']:.4f} → {after['objective']:.4f}, "
        f"{after['round']} rounds, {after['bits'] / 1e6:g} Mbit per node"
    )
    print(f"{found.adapter}: PeftModel.from_pretrained(model, {str(found.adapter)!r})")
    print(f"{folder / 'config.yaml'}: every setting; the log is beside it")


def _further(folder: Path, found: "Outcome") -> None:
    n = int(found.after["n"])
    lines = {
        "your own data": "zocosmo finetune --task my-task.yaml",
        "μ, η and dtype for a model": "zocosmo probe --model smollm2 --task my-task.yaml",
        "the curve": f"zocosmo figure {folder} --metric accuracy --to accuracy.png",
        "one process per node": f"zocosmo launch {folder}/config.yaml --out {folder}-launched",
        "on several machines": f"torchrun --nproc-per-node {n} -m zocosmo.dist {folder}/config.yaml",
    }
    print("\nNext steps:")
    for what, line in lines.items():
        print(f"  {what + ':':<35} {line}")


class Show:
    """Progress on stderr: a bar on a terminal, and a line at every checkpoint."""

    def __init__(self, rounds: int, n: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

        self.rounds, self.n = rounds, n
        text = "rounds  {task.fields[note]}  {task.fields[bits]} Mbit/node"
        self._bar = stderr_bar(BarColumn(), MofNCompleteColumn(), text, TimeRemainingColumn())
        self._task = self._bar.add_task("", total=rounds, note="", bits="0")
        self._began: tuple[int, float] | None = None

    def __enter__(self) -> "Show":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def tick(self, now: Any) -> None:
        """Called whenever the run reports progress."""
        done = now.rounds // self.n
        self._bar.update(self._task, completed=done, note=now.note, bits=f"{now.bits / 1e6:.3f}")

    def see(self, now: Any) -> None:
        """Called at every checkpoint."""
        bits = next(iter(now.bits.values()))[0]
        parts = [
            f"round {now.round:>{len(str(self.rounds))}}/{self.rounds}",
            f"accuracy {now.extra['accuracy'][0]:6.1%}",
            f"validation loss {now.objective[0]:.4f}",
        ]
        for name, value in (("query loss", now.local[0]), ("snr", now.extra["snr"][0])):
            if math.isfinite(value):
                parts.append(f"{name} {value:.4g}")
        parts.append(f"{sum(bits[:3]) / self.n / 1e6:.3f} Mbit/node")
        self._bar.console.print("  ".join([*parts, self._left(now.round)]).rstrip(), soft_wrap=True)

    def _left(self, t: int) -> str:
        """Time left, at the pace since the first checkpoint."""
        now = time.monotonic()
        if self._began is None:
            self._began = t, now
            return ""
        first, began = self._began
        left = (now - began) / max(t - first, 1) * (self.rounds - t)
        return f"{int(left) // 60}:{int(left) % 60:02d} left" if t < self.rounds else ""


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
