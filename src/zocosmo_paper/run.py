"""Run items and write their manifests, logs, tables, figures and verdicts, each file atomically."""

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from zocosmo.errors import check_known
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import Progress, run_plan
from zocosmo.log import make_header
from zocosmo.report.tables import csv_text
from zocosmo_paper.claim import FIGURE, RELATION, Claim
from zocosmo_paper.forty import forty
from zocosmo_paper.headline import of_claims
from zocosmo_paper.item import Evidence, Findings, Item
from zocosmo_paper.items import all_items
from zocosmo_paper.plans import load_config
from zocosmo_paper.write import write_table, write_text

COLUMNS = (
    *("item", "kind", "claim", "paper", "ours", "std", "seeds", "diverged", "low", "high", "expected"),
    *("tolerance", "verdict", "verdict at 40 seeds", "needs", "fitted", "note", "command"),
)
SUFFIXES = (".png", ".svg", ".pdf")
MODEL = "problem.model="  # the setting that names a model

Tick = Callable[[str, str, Progress | None], None]  # item, current work, progress


class How(NamedTuple):
    """How items are run."""

    seeds: int | None  # None: the paper's
    resume: bool
    processes: int
    given: Sequence[str]  # settings for items that need a model, such as problem.model=smollm2

    @property
    def model(self) -> str:
        named = [text.removeprefix(MODEL) for text in self.given if text.startswith(MODEL)]
        return named[-1] if named else ""


class ItemResult(NamedTuple):
    item: Item
    findings: Findings
    folder: Path
    seconds: float
    command: str


def pick(names: Sequence[str], *, model: bool = False) -> list[Item]:
    """Items by name; `all` skips those that need a model unless there is one."""
    known = all_items()
    for name in names:
        check_known("item", name, {"all": None, **known})
    if "all" in names:
        return [item for item in known.values() if model or not item.needs or item.name in names]
    return [known[name] for name in dict.fromkeys(names)]


def shown_items(names: Sequence[str], *, model: bool = False) -> list[Item]:
    """The items of a report: those picked and, with `all`, those that need a model, as not run."""
    picked = pick(names, model=model)
    rest = [item for item in all_items().values() if "all" in names and item not in picked]
    return [*picked, *rest]


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    seeds: int | None = None,
    resume: bool = False,
    processes: int = 1,
    given: Sequence[str] = (),
    tick: Tick = lambda item, doing, progress: None,
) -> list[ItemResult]:
    """Run items and write their results under `out`; `resume` continues a stopped run.

    `given` are settings for items that need a model, including the model: problem.model=smollm2.
    """
    how = How(seeds, resume, processes, given)
    items = shown_items(names, model=bool(how.model))
    results = [_one(item, out / item.name, how, tick) for item in items]
    write_verdicts(out / "verdicts.csv", results)
    lines = of_claims((result.item.needs, claim) for result in results for claim in result.findings.claims)
    write_text(out / "headline.csv", csv_text(lines.rows))
    return results


def load_plans(item: Item, how: How) -> dict[str, Plan]:
    """The plans of an item; none if it needs a model and there is none."""
    if item.needs and not how.model:
        return {}
    return {
        name: load_config(name, None if name in item.fixed else how.seeds, how.given) for name in item.configs
    }


def _one(item: Item, folder: Path, how: How, tick: Tick) -> ItemResult:
    begun = time.perf_counter()
    plans = load_plans(item, how)
    _write_manifest(folder / "manifest.json", item, plans, how)
    logs = {}
    for name, plan in plans.items():
        told = partial(tick, item.name, name)
        told(None)
        logs[name] = run_plan(
            plan,
            folder / name,
            resume=how.resume,
            replace_old=not how.resume,
            processes=how.processes,
            tick=told,
        ).rows
    tick(item.name, "tables and figures", None)
    found = with_fitted(item, item.find(Evidence(logs, how.seeds, folder, how.model, how.processes)))
    assert item.draws or not found.pictures, f"{item.name} has pictures, so it needs draws=True"
    for table in found.tables:
        write_table(folder, table)
    for picture in found.pictures:
        for suffix in SUFFIXES:
            picture.draw(folder / f"{picture.name}{suffix}")
    return ItemResult(item, found, folder, time.perf_counter() - begun, _command(item, how))


def with_fitted(item: Item, found: Findings) -> Findings:
    """Name, on every measured line, the settings of its item that were fitted to printed numbers.

    A line that rests on some of them alone names those itself.
    """
    names = ", ".join(item.fitted)
    claims = [
        c._replace(fitted=(c.fitted or names) if c.kind in (FIGURE, RELATION) else "") for c in found.claims
    ]
    return found._replace(claims=claims)


def _command(item: Item, how: How) -> str:
    """The command that reruns an item, without its folder."""
    words = ["zocosmo", "reproduce", item.name]
    words += [] if how.seeds is None else ["--seeds", str(how.seeds)]
    if item.needs:
        words += ["--model", how.model or "NAME"]
        words += [w for text in how.given if not text.startswith(MODEL) for w in ("--set", text)]
    return shlex.join(words)


def _write_manifest(to: Path, item: Item, plans: Mapping[str, Plan], how: How) -> None:
    """Write configs, versions, source and time before the run. A resumed run keeps its manifest."""
    ours = make_header({}, "")
    about: dict[str, Any] = {
        "item": item.name,
        "labels": list(item.labels),
        "seeds": how.seeds,
        "ours": dict(item.ours),
        "source": ours["source"],
        "versions": ours["versions"],
        "configs": {name: make_header(plan.config, plan.fingerprint) for name, plan in plans.items()},
    }
    if how.resume and _without_time(to) == json.loads(json.dumps(about)):
        return
    begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    write_text(to, json.dumps({"begun": begun, **about}, indent=1) + "\n")


def _without_time(manifest: Path) -> Any:
    """A manifest without its time; None if it is missing or damaged."""
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        del found["begun"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def write_verdicts(to: Path, results: Sequence[ItemResult]) -> None:
    """Write the board as CSV, a line for each claim."""
    rows = [verdict_row(result, claim) for result in results for claim in result.findings.claims]
    write_text(to, csv_text([COLUMNS, *rows]))


def verdict_row(result: ItemResult, claim: Claim) -> list[str]:
    item, later = result.item, forty(result.item.name, claim)
    numbers = [_number(float(value)) for value in (claim.ours, claim.std)]
    counts = [str(claim.seeds or ""), str(claim.diverged)]
    more = [_number(float(value)) for value in (claim.low, claim.high, claim.exact, claim.tolerance)]
    verdicts = [claim.verdict, "" if later is None else later.verdict]
    about = [item.name, claim.kind, claim.words, claim.paper]
    return [*about, *numbers, *counts, *more, *verdicts, item.needs, claim.fitted, claim.note, result.command]


def _number(value: float) -> str:
    """Whole numbers without decimals, others to six digits; empty for nan."""
    if value != value:
        return ""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
