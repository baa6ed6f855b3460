"""zocosmo finetune: several nodes fine-tune a language model together, from one command."""

import math
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import app
from zocosmo.cli.model import fetch_model
from zocosmo.cli.options import OutOption, ReplaceOption, ResumeOption
from zocosmo.cli.study import RUNS, say_finished
from zocosmo.errors import InputError

if TYPE_CHECKING:
    from zocosmo.experiments.config import Config, Where
    from zocosmo.llm.finetune import Outcome

PLACES: dict[str, "Where"] = {
    **{name: ("problem", name) for name in ("model", "task", "data", "batch", "dtype", "device")},
    **{name: ("methods", 0, name) for name in ("q", "eta", "mu")},
    "method": ("methods", 0, "kind"),
    "momentum": ("methods", 0, "beta"),
    "graph": ("graphs", 0, "kind"),
    "nodes": ("graphs", 0, "n"),
    "rounds": ("rounds",),
    "every": ("log_every",),
    "seed": ("seeds", 0),
}

ConfigArgument = Annotated[Path | None, typer.Argument(help="A YAML file to start from; options change it.")]
ModelOption = Annotated[str | None, typer.Option(help="smollm2, a folder, or a name of the hub.")]
TaskOption = Annotated[
    str | None, typer.Option(help="toy, sst2, qnli, boolq, mrpc, rte, or a .yaml of yours.")
]
DataOption = Annotated[str | None, typer.Option(help="Folder with TASK/train.jsonl and validation.jsonl.")]
QOption = Annotated[
    int | None, typer.Option("--q", help="Coordinates in a support.  [default: 8192, or d/8 if that is less]")
]
EveryOption = Annotated[
    int | None, typer.Option(help="Rounds between checkpoints.  [default: 40; on toy 20]")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Any other entry, by dots: problem.rank=16. Repeatable.")
]


@app.command()
def finetune(
    context: typer.Context,
    config: ConfigArgument = None,
    model: ModelOption = None,
    task: TaskOption = None,
    data: DataOption = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes.  [default: 4]")] = None,
    graph: Annotated[str | None, typer.Option(help="See zocosmo graphs.  [default: ring]")] = None,
    method: Annotated[str | None, typer.Option(help="See zocosmo methods.  [default: edge_local]")] = None,
    q: QOption = None,
    eta: Annotated[float | None, typer.Option(help="Step size; probed, with mu, if not given.")] = None,
    mu: Annotated[float | None, typer.Option(help="How far the two queries are from x.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Of visited coordinates.  [default: 0.9]")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds to run.  [default: 400; on toy 40]")] = None,
    every: EveryOption = None,
    batch: Annotated[int | None, typer.Option(help="Examples in a query.  [default: 4]")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, tf32, bfloat16 or float16.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1, ….")] = None,
    seed: Annotated[int | None, typer.Option(help="Of public and private coins.  [default: 0]")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="No guards: no clip, no decay, no drop of the step.")
    ] = False,
    more: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
) -> None:
    """Fine-tune a language model over several nodes by forward passes alone, and save the adapter.

    Without arguments SmolLM2 learns toy, a small sentiment task that is made up here, in 40 rounds with an
    eta and a mu that are known. Other tasks have 400 rounds, and for other choices the probe finds eta and mu
    first. OUT/config.yaml keeps every setting, and zocosmo run or launch takes it.

    \b
    Example: zocosmo finetune --model smollm2 --task sst2 --data data --nodes 4 --graph ring
    """
    from zocosmo.log import has_log

    given = {PLACES[name]: context.params[name] for name in PLACES if context.params[name] is not None}
    recipe, folder = _recipe(config, given, more or [], out, resume, exact)
    finished = not replace and has_log(folder)
    if not replace:
        _recall(recipe, folder)
    _offer(recipe)
    from zocosmo.llm.finetune import finetune as run
    from zocosmo.llm.recipe import settle

    taken = not replace and not resume and (folder / "plan.json").exists()
    plan = settle(recipe, folder.name, None if finished or taken else _say)
    try:
        with Show(plan.last, plan.trials[0].graph_of().n) as show:
            found = run(plan, folder, resume=resume, replace_old=replace, tick=show.tick, see=show.see)
    except KeyboardInterrupt:  # the bar is gone by now, and the line below stays whole
        _stopped(folder)
        raise
    if finished:
        say_finished(folder)
    _report(found, folder)
    if config is None and not given and not more and not resume:
        _further(folder, found)


def _recipe(
    config: Path | None,
    given: dict["Where", Any],
    more: list[str],
    out: Path | None,
    resume: bool,
    exact: bool,
) -> tuple["Config", Path]:
    """What to run and where; a run that goes on has its config in its folder."""
    try:
        from zocosmo.llm.recipe import open_recipe
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers", "peft", "safetensors"):
            raise InputError(f'finetune needs {error.name}; run: pip install "zocosmo[llm]"') from None
        raise
    recipe = open_recipe(config, given, more, exact=exact)
    if out is None:
        about: Any = recipe.data
        names = [Path(str(about["problem"].get(key, ""))).stem for key in ("model", "task")]
        out = RUNS / ("-".join(names) if config is None else config.stem)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, and a run needs a folder; choose another --out")
    if resume and config is None and (out / "config.yaml").exists():
        recipe = open_recipe(out / "config.yaml", given, more, exact=exact)
    elif resume and config is None and not given and not more:
        raise InputError(
            f"there is no run to go on with in {out}; say what to run, or name its folder by --out"
        )
    return recipe, out


def _recall(recipe: "Config", folder: Path) -> None:
    """A run that stands in the folder has found its numbers: it is known by them, and not probed again."""
    from zocosmo.llm.recipe import first_method

    about: Any = recipe.data
    method = first_method(about)
    if "eta" in method or "mu" in method or not (folder / "plan.json").exists():
        return
    from zocosmo.experiments.config import Config

    try:
        kept: Any = Config.load(folder / "config.yaml").data
        found, noise = {key: kept["methods"][0][key] for key in ("eta", "mu")}, kept["problem"]["noise"]
    except (InputError, LookupError, TypeError):
        raise InputError(
            f"{folder} holds a run, and no config that tells its eta and mu; choose another --out, "
            "or start anew: --replace"
        ) from None
    if not noise:  # which goes with every eta that was not given
        numbers = " ".join(f"--{key} {value}" for key, value in found.items())
        raise InputError(
            f"{folder} holds a run with numbers that were given; name them ({numbers}), choose another "
            "--out, or start anew: --replace"
        )
    method |= found
    about["problem"].setdefault("noise", noise)


def _offer(recipe: "Config") -> None:
    """A known model that is not here is fetched if the user says so; others are somebody else's matter."""
    from zocosmo.llm.cache import KNOWN, check_kept, kept_folder

    about: Any = recipe.data
    name = about["problem"].get("model", "smollm2")
    if name not in KNOWN or kept_folder(name) or Path(name).is_dir():
        return
    if not is_terminal():
        check_kept(name)  # the line that says how to get it
    if not typer.confirm(f"{KNOWN[name].about}, is not here yet. Fetch it (93 MB)?", default=True, err=True):
        check_kept(name)
    fetch_model(name)


def _stopped(folder: Path) -> None:
    if not (folder / "config.yaml").exists():
        _say("stopped before the first checkpoint; nothing is kept, start it again with --replace")
        return
    again = shlex.join(["zocosmo", "finetune", "--out", str(folder), "--resume"])
    _say(f"stopped; what is done is kept. Go on with: {again}")


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
        "what μ, η and dtype a model bears": "zocosmo probe --model smollm2 --task my-task.yaml",
        "the curve": f"zocosmo figure {folder} --metric accuracy --to accuracy.png",
        "a process for each node": f"zocosmo launch {folder}/config.yaml --out {folder}-launched",
        "on several machines": f"torchrun --nproc-per-node {n} -m zocosmo.dist {folder}/config.yaml",
    }
    print("\nHow to go on:")
    for what, line in lines.items():
        print(f"  {what + ':':<35} {line}")


class Show:
    """Progress on stderr: a bar on a terminal, and a line at every checkpoint."""

    def __init__(self, rounds: int, n: int) -> None:
        self.rounds, self.n = rounds, n
        self._bar: Any = _bar() if sys.stderr.isatty() else None
        self._print: Callable[[str], Any] = lambda text: print(text, file=sys.stderr, flush=True)
        self._began: tuple[int, float] | None = None

    def __enter__(self) -> "Show":
        if self._bar is not None:
            self._task = self._bar.add_task("", total=self.rounds, note="", bits="0")
            self._print = partial(self._bar.console.print, soft_wrap=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tick(self, now: Any) -> None:
        """As often as the run says something."""
        if self._bar is not None:
            done = now.rounds // self.n
            self._bar.update(self._task, completed=done, note=now.note, bits=f"{now.bits / 1e6:.3f}")

    def see(self, now: Any) -> None:
        """At every checkpoint."""
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
        self._print("  ".join([*parts, self._left(now.round)]).rstrip())

    def _left(self, t: int) -> str:
        """Time to the end, by the pace since the first checkpoint that was seen."""
        now = time.monotonic()
        if self._began is None:
            self._began = t, now
            return ""
        first, began = self._began
        left = (now - began) / max(t - first, 1) * (self.rounds - t)
        return f"{int(left) // 60}:{int(left) % 60:02d} left" if t < self.rounds else ""


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    text = TextColumn("rounds  {task.fields[note]}  {task.fields[bits]} Mbit/node")
    columns = (BarColumn(), MofNCompleteColumn(), text, TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _say(text: str) -> None:
    print(f"zocosmo: {text}", file=sys.stderr, flush=True)
