"""zocosmo finetune: several nodes fine-tune a language model together, from one command."""

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import app, needing_llm, output, say, stderr_bar
from zocosmo.cli.model import fetch_model
from zocosmo.cli.options import OutOption, ReplaceOption, ResumeOption, argument, option
from zocosmo.cli.study import say_finished, say_stopped

if TYPE_CHECKING:
    from zocosmo.experiments.config import Config
    from zocosmo.experiments.plan import Plan
    from zocosmo.llm.ending import Seen
    from zocosmo.llm.finetune import Outcome

ConfigArgument = Annotated[Path | None, argument("A YAML file to start from; options change it.")]
TaskOption = Annotated[str | None, option("toy, sst2, qnli, boolq, mrpc, rte, or your own .yaml.")]
DataOption = Annotated[str | None, option("Folder with TASK/train.jsonl and validation.jsonl.")]
QOption = Annotated[
    int | None, option("Coordinates in a support; names the paper's method, with 8192 or d/8.", "--q")
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
    method: Annotated[str | None, option("edge_local, …: see zocosmo methods.  [default: tree_mean]")] = None,
    q: QOption = None,
    eta: Annotated[float | None, option("Step size; probed, with mu, if not given.")] = None,
    mu: Annotated[float | None, option("Distance of the two queries from x.")] = None,
    momentum: Annotated[float | None, option("Of the paper's method, which has 0.9.")] = None,
    rounds: Annotated[int | None, option("Rounds to run.  [default: 400; on toy 60]")] = None,
    every: EveryOption = None,
    batch: Annotated[int | None, option("Examples of a node in a round.  [default: 4]")] = None,
    dtype: Annotated[str | None, option("float32, tf32, bfloat16 or float16.")] = None,
    device: Annotated[str | None, option("auto, cpu, cuda, cuda:1, ….")] = None,
    seed: Annotated[int | None, option("Seed of public and private coins.  [default: 0]")] = None,
    exact: Annotated[
        bool, option("The paper's method, without guards: no clip, decay or drop.", "--exact")
    ] = False,
    more: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
) -> None:
    """Fine-tune a language model over several nodes with forward passes only, and save the adapter.

    Without arguments SmolLM2 learns toy, a small synthetic sentiment task, in 60 rounds with a known eta and
    mu. Other tasks run 400 rounds; for other choices eta and mu are probed first. Steps are those of the
    second generation, over a tree or with --method edge_local in pairs, unless another method, q, eta, mu or
    momentum are named. OUT/config.yaml holds every setting, and zocosmo run or launch takes it.

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
        with Show(plan) as show:
            found = run(plan, folder, resume=resume, replace_old=replace, tick=show.tick, see=show.see)
    except KeyboardInterrupt:  # the bar is removed by now
        _stopped(folder)
        raise
    if finished:
        say_finished(folder)
    _report(found, folder, plan)
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


def _report(found: "Outcome", folder: Path, plan: "Plan") -> None:
    before, after = found.before, found.after
    print(
        f"accuracy {before['accuracy']:.1%} → {after['accuracy']:.1%}, "
        f"validation loss {before['objective']:.4f} → {after['objective']:.4f}, "
        f"{after['round']} rounds, {after['bits'] / 1e6:g} Mbit per node"
    )
    _tables(found, plan)
    print(f"{found.adapter}: PeftModel.from_pretrained(model, {str(found.adapter)!r})")
    print(f"{folder / 'config.yaml'}: every setting; the log is beside it")


def _tables(found: "Outcome", plan: "Plan") -> None:
    """What was learnt, and what it cost beside other methods."""
    from rich.table import Table

    from zocosmo.llm.ending import bill, ending
    from zocosmo.llm.recipe import subject_of

    before, after, method = found.before, found.after, plan.trials[0].method
    links = len(plan.trials[0].graph_of().links)
    learnt, cost = (Table(box=None, pad_edge=False, title_justify="left") for _ in range(2))
    for table, titles in (
        (learnt, ("", "before", "after")),
        (cost, ("sent by each node", "Mbit", "to this run")),
    ):
        for k, title in enumerate(titles):
            table.add_column(title, justify="right" if k else "left", min_width=36 if k == 0 else 10)
    for row in ending(before, after, method, links):
        learnt.add_row(*row)
    for line in bill(plan, subject_of(plan).d, after["bits"], int(after["round"])):
        cost.add_row(line.name, f"{line.mbit:,.3f}", _times(line.ratio))
    for table in (learnt, cost):
        print()
        output().print(table)
    print()


def _times(ratio: float) -> str:
    """The cost of another method over that of this run; nothing for the run itself."""
    if ratio == 1:
        return ""
    return f"{ratio:,.0f} ×" if ratio >= 100 else f"{ratio:.2g} ×"


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

    def __init__(self, plan: "Plan") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

        trial = plan.trials[0]
        self.method, self.links = trial.method, len(trial.graph_of().links)
        self.rounds, self.n = plan.last, trial.graph_of().n
        self._seen: list[Seen] = []
        rounds = self.rounds
        text = "rounds  {task.fields[note]}  {task.fields[bits]} Mbit/node sent"
        self._bar = stderr_bar(BarColumn(), MofNCompleteColumn(), text, TimeRemainingColumn())
        self._task = self._bar.add_task("", total=rounds, note="", bits="0.000")
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
        parts += [f"{sum(bits[:3]) / self.n / 1e6:.3f} Mbit/node", *self._watched(now)]
        self._bar.console.print("  ".join([*parts, self._left(now.round)]).rstrip(), soft_wrap=True)

    def _watched(self, now: Any) -> list[str]:
        """Examples evaluated, messages not read, distance of nodes, and where the loss is going."""
        from zocosmo.llm.ending import apart, forecast, last_seen, unread

        row = {"round": now.round, "objective": now.objective[0], "disagreement": now.disagreement[0]}
        row |= {"queries": now.queries[0], **{name: each[0] for name, each in now.extra.items()}}
        self._seen.append(last_seen(row))
        seen, parts = self._seen[-1], []
        if now.round and "examples" in row:
            parts.append(f"{row['examples']:.0f} examples")
        if now.round and (lost := unread(seen, self.method, self.links)) is not None:
            parts.append(f"unread {lost:.1%}")
        if now.round:
            parts.append(f"apart {apart(seen):.1%}")
        if (end := forecast(self._seen, self.method, self.rounds)) is not None:
            parts.append(f"on course for {end:.3f}")
        return parts

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
