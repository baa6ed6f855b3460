"""The verdict board of docs/reproduction.md.   python results/reproduction.py [--run | --forty | --write]

--run reruns all items into build/reproduction, keeps verdicts.csv and headline.csv here and how long each
took in the package, and writes the page. --forty does the same with 40 seeds into build/reproduction-40 and
keeps forty.csv in the package; it takes names of items. --resume goes on. --write writes the page from what
is kept.
"""

import argparse
import csv
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

from zocosmo.report.tables import csv_text
from zocosmo_paper import reproduce
from zocosmo_paper.board import WORST_FIRST, number
from zocosmo_paper.claim import (
    CHECK,
    CONSTANT,
    COUNTED,
    COVERS,
    FIGURE,
    RELATION,
    STATEMENT,
    VERDICTS,
    WITHIN,
)
from zocosmo_paper.forty import COLUMNS, SEEDS, AtForty, kept
from zocosmo_paper.headline import Headline, Judged, headline
from zocosmo_paper.items import all_items
from zocosmo_paper.page import write_page

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results" / "reproduction" / "verdicts.csv"
COUNTS = KEPT.with_name("headline.csv")
FORTY = ROOT / "src" / "zocosmo_paper" / "forty.csv"
SECONDS = ROOT / "src" / "zocosmo_paper" / "seconds.json"
PAGE = ROOT / "docs" / "reproduction.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- verdicts -->\n", "<!-- end -->\n"
README_BEGIN, README_END = "<!-- headline -->\n", "<!-- end of headline -->\n"

Row = dict[str, str]


def rows() -> list[Row]:
    return list(csv.DictReader(KEPT.read_text(encoding="utf-8").splitlines()))


def told(found: Sequence[Row]) -> Headline:
    return headline(Judged(row["kind"], row["verdict"], row["needs"], row["fitted"]) for row in found)


def tables() -> str:
    """The headline, counts by item, and every line: what does not agree first."""
    found = rows()
    counted = [row for row in found if row["kind"] in COUNTED and not row["needs"]]
    off = [row for row in counted if not agrees(row)]
    said = {
        "": [f"**{told(found).sentence}** {told(found).details}", "", power(counted), "", *by_item(found)],
        "What does not agree": [*listing(off)],
        f"What {SEEDS} seeds turn": [*turned(counted)],
        "Orderings and figures that agree": [
            *listing(row for row in counted if agrees(row) and row["kind"] in (FIGURE, RELATION))
        ],
        "Constants that agree": [
            *constants(row for row in counted if agrees(row) and row["kind"] == CONSTANT)
        ],
        "Theorems, propositions and lemmas": [*statements(found)],
        "Checks of ours, not counted": [
            *checks(row for row in found if row["kind"] == CHECK and not row["needs"])
        ],
        "What needs a 7B model": [*models(row for row in found if row["needs"])],
    }
    parts = [[f"### {title}", ""] * bool(title) + lines for title, lines in said.items()]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def power(counted: Sequence[Row]) -> str:
    """How many verdicts could hardly have been others."""
    figures = [row for row in counted if row["kind"] == FIGURE and row["verdict"] == WITHIN]
    weak = sum(COVERS in row["note"] for row in figures)
    far = sum(beyond_std(row) for row in figures)
    return (
        f"Of the {len(figures)} figures that are within, {weak} have a tolerance that also covers another "
        f"method's printed figure: these verdicts cannot tell the two apart; {far} are off by more than the "
        f"printed std, and within two standard errors of the difference."
    )


def beyond_std(row: Row) -> bool:
    """Whether a mean is further from the printed one than the printed std."""
    found = re.fullmatch(r"\(?([\d.]+) ± ([\d.]+)\)?(?:e(-?\d+))?", row["paper"])
    if found is None:
        return False
    mean, std = (Decimal(f"{digits}e{found[3] or 0}") for digits in (found[1], found[2]))
    return abs(Decimal(row["ours"]) - mean) > std


def agrees(row: Row) -> bool:
    return row["verdict"] == WITHIN or (row["verdict"] == "ordering" and row["kind"] == RELATION)


def by_item(found: Sequence[Row]) -> Iterator[str]:
    """How many counted lines of each item have each verdict, and how many are not counted."""
    items = all_items()
    yield _line("item", "what it is", *VERDICTS, "not counted")
    yield "| --- | --- |" + " ---: |" * (len(VERDICTS) + 1)
    for name in dict.fromkeys(row["item"] for row in found):
        mine = [row for row in found if row["item"] == name]
        yield _line(f"`{name}`", items[name].title, *_tally(mine))
    yield _line("**all**", f"{len(found)} lines", *(f"**{count or 0}**" for count in _tally(found)))


def _tally(mine: Sequence[Row]) -> list[int | str]:
    verdicts = [row["verdict"] for row in mine if row["kind"] in COUNTED]
    return [*(verdicts.count(v) or "" for v in VERDICTS), len(mine) - len(verdicts) or ""]


def listing(found: Iterator[Row] | Sequence[Row]) -> Iterator[str]:
    """Lines with all that is known of them, those that fail first."""
    columns = "item", "claim", "paper", "tolerance", "ours", "n", "expected", "note"
    yield _line("verdict", f"at {SEEDS} seeds", *columns)
    yield "|" + " --- |" * 10
    for row in sorted(found, key=lambda row: WORST_FIRST.index(row["verdict"])):
        later = forty_of(row)
        n = row["seeds"] + (f", {row['diverged']} diverged" if row["diverged"] != "0" else "")
        allowed = number(float(row["tolerance"]), 2) if row["tolerance"] else ""
        about = f"`{row['item']}`", row["claim"], row["paper"], allowed, ours(row)
        expected = number(float(row["expected"] or "nan"), 4)
        shown = "" if later is None else f"{later.verdict}: {ours({**row, **later._asdict()})}"
        yield _line(row["verdict"], shown, *about, n, expected if row["expected"] else "", row["note"])


def ours(row: Row) -> str:
    """Mean ± std, and the paired interval of a difference."""
    text = number(float(row["ours"] or "nan"), 4 if row["seeds"] else 6)
    text += f" ± {number(float(row['std']), 2)}" if row["std"] else ""
    ends = [number(float(row[end]), 3) for end in ("low", "high")] if row["low"] else []
    return text + (f" [{', '.join(ends)}]" if ends else "")


def forty_of(row: Row) -> AtForty | None:
    return kept().get((row["item"], row["claim"])) if row["seeds"] else None


def turned(found: Sequence[Row]) -> Iterator[str]:
    """Counted lines whose verdict over forty seeds is another."""
    yield _line("item", "claim", "paper", "ours, verdict", f"ours at {SEEDS} seeds, verdict")
    yield "|" + " --- |" * 5
    for row in found:
        later = forty_of(row)
        if later is not None and later.verdict != row["verdict"]:
            more = ours({**row, **later._asdict()})
            both = f"{ours(row)}: {row['verdict']}", f"{more}: {later.verdict}"
            yield _line(f"`{row['item']}`", row["claim"], row["paper"], *both)


def constants(found: Iterator[Row]) -> Iterator[str]:
    yield _line("item", "claim", "paper", "ours", "note")
    yield "| --- | --- | ---: | ---: | --- |"
    for row in found:
        yield _line(f"`{row['item']}`", row["claim"], row["paper"], ours(row), row["note"])


def statements(found: Sequence[Row]) -> Iterator[str]:
    yield _line("label and subject", "what was done", "verdict")
    yield "|" + " --- |" * 3
    for row in found:
        if row["kind"] == STATEMENT:
            yield _line(row["claim"], row["note"], row["verdict"])


def checks(found: Iterator[Row]) -> Iterator[str]:
    yield _line("verdict", "item", "check", "against", "ours", "note")
    yield "|" + " --- |" * 6
    for row in sorted(found, key=lambda row: WORST_FIRST.index(row["verdict"])):
        yield _line(row["verdict"], f"`{row['item']}`", row["claim"], row["paper"], ours(row), row["note"])


def models(found: Iterator[Row]) -> Iterator[str]:
    """Not run here, with what a small model says, where one can."""
    yield "Each needs the weights of Qwen2-7B and the data of its task:"
    yield "`zocosmo reproduce NAME --model Qwen/Qwen2-7B`."
    yield "With another model orderings are judged, and figures are not."
    yield ""
    yield _line("item", "claim", "paper", "another model")
    yield "|" + " --- |" * 4
    for row in found:
        others = ["setting not printed"] * row["note"].startswith("no command") + [
            part.removeprefix("another model, ") for part in row["note"].split("; ") if "another" in part
        ]
        yield _line(f"`{row['item']}`", row["claim"], row["paper"], "; ".join(others))


def _line(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |"


def filled(text: str, begin: str, middle: str, end: str) -> str:
    before, rest = text.split(begin)
    return before + begin + middle + end + rest.split(end, 1)[1]


def readme_lines() -> str:
    found = told(rows())
    return f"{found.sentence}\n{found.details}\n"


def refresh() -> None:
    """Put what forty seeds say beside the kept verdicts."""
    found = rows()
    for row in found:
        later = forty_of(row)
        row["verdict at 40 seeds"] = "" if later is None else later.verdict
    KEPT.write_text(csv_text([list(found[0]), *(list(row.values()) for row in found)]), encoding="utf-8")
    COUNTS.write_text(csv_text(told(found).rows), encoding="utf-8")


def write() -> None:
    refresh()
    page, readme = (path.read_text(encoding="utf-8") for path in (PAGE, README))
    PAGE.write_text(filled(page, BEGIN, tables(), END), encoding="utf-8")
    README.write_text(filled(readme, README_BEGIN, readme_lines(), README_END), encoding="utf-8")


def run(*, resume: bool, processes: int) -> None:
    out = ROOT / "build" / "reproduction"
    results = reproduce(["all"], out, processes=processes, resume=resume)
    write_page(out, results)
    KEPT.parent.mkdir(exist_ok=True)
    for path in (KEPT, COUNTS):
        shutil.copy(out / path.name, path)
    took = {result.item.name: round(result.seconds, 1) for result in results if not result.item.needs}
    if not resume:
        SECONDS.write_text(json.dumps(took, indent=1) + "\n", encoding="utf-8")


def run_forty(names: Sequence[str], *, resume: bool, processes: int) -> None:
    """Replace what is kept of these items, and keep the rest."""
    out = ROOT / "build" / "reproduction-40"
    reproduce(names, out, seeds=SEEDS, processes=processes, resume=resume)
    lines = list(csv.DictReader((out / "verdicts.csv").read_text(encoding="utf-8").splitlines()))
    anew = {row["item"] for row in lines}
    old = list(csv.DictReader(FORTY.read_text(encoding="utf-8").splitlines())) if FORTY.is_file() else []
    rest = [row for row in old if row["item"] not in anew]
    seeded = [row for row in lines if row["seeds"] and row["kind"] != STATEMENT]
    order = list(all_items())
    both = sorted([*rest, *seeded], key=lambda row: order.index(row["item"]))
    FORTY.write_text(
        csv_text([COLUMNS, *([row[name] for name in COLUMNS] for row in both)]), encoding="utf-8"
    )
    kept.cache_clear()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("run", "forty", "write", "resume"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("names", nargs="*", help="items for --forty; all if none is named")
    asked = parser.parse_args()
    if asked.forty:
        run_forty(asked.names or ["all"], resume=asked.resume, processes=asked.processes)
    if asked.run:
        run(resume=asked.resume, processes=asked.processes)
    if asked.run or asked.forty or asked.write:
        write()
    else:
        print(tables(), end="")
