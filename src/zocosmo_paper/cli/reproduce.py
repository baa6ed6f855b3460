"""zocosmo reproduce: the paper, rerun, with a verdict on every claim."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from zocosmo.cli.common import is_watched, output, print_json, stderr_bar
from zocosmo.cli.options import JsonOption, ResumeOption, SetOption, as_line, option
from zocosmo.cli.study import say_stopped
from zocosmo.errors import FolderError, InputError, check_whole
from zocosmo.extras import missing
from zocosmo.files import finite_or_null
from zocosmo.words import counted
from zocosmo_paper.claim import CHECK, STATEMENT

if TYPE_CHECKING:
    from zocosmo.experiments.run import Progress as Told
    from zocosmo_paper.item import Item
    from zocosmo_paper.run import How, ItemResult, Tick

OUT = Path("reproduction")
MOST_SEEDS = 10_000
MOST_LINES = 60  # claims within; more are counted by item
COLOURS = {"within": "green", "ordering": "yellow", "no": "bold red", "not run": "dim"}


def reproduce_command(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME… | all", help="Items; --list lists them.")
    ] = None,
    list_: Annotated[bool, option("List the items and stop.", "--list")] = False,
    out: Annotated[Path, option("Folder for logs, tables, figures and the report.")] = OUT,
    seeds: Annotated[int | None, option("Number of seeds, instead of the paper's.")] = None,
    resume: ResumeOption = False,
    processes: Annotated[int, option("Processes that share the batches.")] = 2,
    model: Annotated[str, option("For items that need one: smollm2, a folder, or a name on the hub.")] = "",
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rerun the paper's tables, figures and constants, and judge every claim.

    Writes logs, tables, figures, verdicts.csv and report/index.html, a page with all of them.

    \b
    Example: zocosmo reproduce payload index-share
    Everything, in about 2 minutes: zocosmo reproduce all
    """
    from zocosmo_paper.page import write_page
    from zocosmo_paper.run import MODEL, How, reproduce, shown_items

    if list_:
        _list(as_json)
        return
    given = [f"{MODEL}{model}"] * bool(model) + list(set_ or ())
    how, names = How(seeds, resume, processes, given), names or []
    _check(names, out, how)
    items = shown_items(names, model=bool(model))
    again = ["zocosmo", "reproduce", *names, *as_line(context, "names", "resume"), "--resume"]
    with progress(items, how) as tick:
        try:
            results = reproduce(names, out, tick=tick, **how._asdict())
        except KeyboardInterrupt:
            say_stopped(again)
            raise
        except FolderError as error:
            remedy = "choose another --out, or start over without --resume"
            raise FolderError(error.found, remedy) from None
    page = write_page(out, results)
    if as_json:
        print_json(as_report(results, out, page))
    else:
        show(results, out, page)


def _list(as_json: bool) -> None:
    from zocosmo_paper.items import all_items

    times, items = seconds(), all_items().values()
    rows = [(item.name, item.title, item.labels, times.get(item.name), item.needs) for item in items]
    if as_json:
        names = ("name", "title", "labels", "seconds", "needs")
        print_json({"items": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    listing = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("name", "title", "label", "seconds", "needs"):
        listing.add_column(name, no_wrap=name == "name", justify="right" if name == "seconds" else "left")
    for name, title, labels, took, needs in rows:
        shown = "" if took is None else f"{took:.0f}" if took >= 1 else "<1"
        listing.add_row(name, title, ", ".join(labels), shown, needs)
    output().print(listing)


def seconds() -> dict[str, float]:
    """Seconds of each item on two cores, as last measured."""
    text = files("zocosmo_paper").joinpath("seconds.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def _check(names: Sequence[str], out: Path, how: "How") -> None:
    """Refuse bad input before anything is run."""
    from zocosmo_paper.run import load_plans, pick

    if not names:
        raise InputError("no item given; name some, or all; zocosmo reproduce --list lists them")
    if how.seeds is not None:
        check_whole("--seeds", how.seeds, 2, MOST_SEEDS)
    check_whole("--processes", how.processes, 1)
    items = pick(names, model=bool(how.model))
    needy = [item for item in items if item.needs]
    if how.given and not needy:
        raise InputError(f"{', '.join(names)} takes no model; leave out --model and --set")
    if how.given and not how.model:
        raise InputError(f"--set {how.given[0]} applies to a study of a model; also give --model")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder")
    drawn = [item.name for item in items if item.draws]
    if drawn and find_spec("matplotlib") is None:
        raise missing(f"the figure of {drawn[0]}", "matplotlib")
    for item in items:
        load_plans(item, how)


def as_report(results: Sequence["ItemResult"], out: Path, page: Path) -> dict[str, Any]:
    """All results as plain data."""
    from zocosmo_paper.board import all_claims, counts, headline_of

    claims = [
        finite_or_null({"item": result.item.name, **claim._asdict()})
        for result in results
        for claim in result.findings.claims
    ]
    items = [
        {"name": r.item.name, "seconds": round(r.seconds, 2), "folder": str(r.folder), "command": r.command}
        for r in results
    ]
    told = {
        "headline": headline_of(results).sentence,
        "counts": counts(all_claims(results)),
        "page": str(page),
        "verdicts": str(out / "verdicts.csv"),
    }
    return {**told, "items": items, "claims": claims}


def show(results: Sequence["ItemResult"], out: Path, page: Path) -> None:
    """Print the board, failures first, then the counts and where the report is."""
    from zocosmo_paper.board import all_claims, board, counts, headline_of, ours_text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("item", "claim", "paper", "ours", "seeds", "lost", "verdict"):
        right = name in ("seeds", "lost")
        shown.add_column(name, justify="right" if right else "left", no_wrap=name in ("verdict", "seeds"))
    lines, rows = board(results), []
    found = counts(all_claims(results))
    few = found["within"] <= MOST_LINES
    for result, claim in lines:
        if few or claim.verdict != "within":
            numbers = str(claim.seeds or ""), str(claim.diverged or "")
            about = result.item.name, claim.words, claim.paper, ours_text(claim)
            rows.append((*about, *numbers, claim.verdict))
    many = {} if few else {each.item.name: counts(all_claims([each]))["within"] for each in results}
    rows += [
        (name, counted(count, "claim"), "", "", "", "", "within") for name, count in many.items() if count
    ]
    for *texts, verdict in rows:
        shown.add_row(*map(Text, texts), Text(verdict, style=COLOURS[verdict]))
    output().print(shown)
    for name, note in dict.fromkeys((r.item.name, c.note) for r, c in lines if c.verdict == "not run"):
        print(f"{name}: {note}")
    told = headline_of(results)
    print(told.sentence, told.details)
    rest = {"checks of ours": (CHECK,), "theorems, propositions and lemmas": (STATEMENT,)}
    for name, kinds in rest.items():
        if ours := all_claims(results, kinds):
            tally = ", ".join(f"{count} {verdict}" for verdict, count in counts(ours).items() if count)
            shown_name = name.replace("checks", "check") if len(ours) == 1 else name
            print(f"Not counted: {len(ours)} {shown_name}: {tally}.")
    print(
        ", ".join(f"{count} {verdict}" for verdict, count in found.items()),
        f"({counted(len(lines), 'claim')})",
    )
    print(f"{page}: the report. {out / 'verdicts.csv'}: every line.")


@contextmanager
def progress(items: Sequence["Item"], how: "How") -> Iterator["Tick"]:
    """Progress bars on stderr, one for each item and one for the time left, if it is a terminal."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    if not is_watched():
        yield lambda item, doing, told: None
        return
    texts = ("{task.description}", "{task.percentage:>3.0f} %", "{task.fields[doing]}")
    name, percent, doing = map(TextColumn, texts)
    with stderr_bar(name, BarColumn(), percent, TimeElapsedColumn(), doing) as bar:
        yield Watch(bar, items, how)


class Watch:
    """Updates the bars: node-rounds of an item's configs, and estimated seconds for all items."""

    def __init__(self, bar: Any, items: Sequence["Item"], how: "How") -> None:
        self._bar, self._how, self._items = bar, how, {item.name: item for item in items}
        self._whole = bar.add_task("all", total=None, doing="")
        self._tasks: dict[str, Any] = {}
        self._total = 0  # node-rounds of the item at work
        self._done: dict[tuple[str, int], int] = {}
        self._left = Left(seconds(), list(self._items))

    def __call__(self, item: str, doing: str, told: "Told | None") -> None:
        if item not in self._tasks:
            self._begin(item)
        if told is not None:
            self._done[doing, told.batch] = told.rounds
        share = sum(self._done.values()) / self._total if self._total else 0.0
        self._bar.update(self._tasks[item], completed=share, doing=doing)
        whole, left = self._left(item, share)
        about = "" if left is None else f"about {left // 60:.0f}:{left % 60:02.0f} left"
        self._bar.update(self._whole, total=1.0, completed=whole, doing=about)

    def _begin(self, item: str) -> None:
        from zocosmo_paper.run import load_plans

        for task in self._tasks.values():
            self._bar.update(task, completed=1.0, doing="done")
            self._bar.stop_task(task)
        plans = load_plans(self._items[item], self._how).values()
        self._total, self._done = sum(plan.node_rounds for plan in plans), {}
        self._tasks[item] = self._bar.add_task(item, total=1.0, doing="")


class Left:
    """Time left: from the seconds last measured for the items, scaled by the speed of this machine so far."""

    def __init__(self, expected: Mapping[str, float], names: Sequence[str]) -> None:
        known = [expected[name] for name in names if name in expected]
        typical = sum(known) / len(known) if known else 1.0
        self._expected = {name: expected.get(name, typical) for name in names}
        self._names, self._begun = list(names), time.monotonic()

    def __call__(self, item: str, share: float) -> tuple[float, float | None]:
        """Share done of all items, and seconds left; None before any work is done."""
        before = self._names[: self._names.index(item)]
        done = sum(self._expected[name] for name in before) + share * self._expected[item]
        total = sum(self._expected.values()) or 1.0
        spent = time.monotonic() - self._begun
        return done / total, spent * (total - done) / done if done > 0 else None
