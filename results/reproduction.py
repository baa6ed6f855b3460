"""The verdict board of docs/reproduction.md.   python results/reproduction.py [--run | --write]

--run reruns all items into build/reproduction, keeps verdicts.csv here and in the package how long each took,
and writes the page. --write writes the page from the verdicts that are kept.
"""

import argparse
import csv
import json
import shutil
from pathlib import Path

from zocosmo_paper import reproduce
from zocosmo_paper.board import WORST_FIRST, number
from zocosmo_paper.claim import VERDICTS, WITHIN
from zocosmo_paper.items import all_items
from zocosmo_paper.page import write_page

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results" / "reproduction" / "verdicts.csv"
SECONDS = ROOT / "src" / "zocosmo_paper" / "seconds.json"
PAGE = ROOT / "docs" / "reproduction.md"
BEGIN, END = "<!-- verdicts -->\n", "<!-- end -->\n"


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(KEPT.read_text(encoding="utf-8").splitlines()))


def tables() -> str:
    """How many claims of each item have each verdict; then every line that is not within, the worst first."""
    items, found = all_items(), rows()
    lines = [f"| item | what it is | {' | '.join(VERDICTS)} |", "| --- | --- |" + " ---: |" * len(VERDICTS)]
    for name in dict.fromkeys(row["item"] for row in found):
        verdicts = [row["verdict"] for row in found if row["item"] == name]
        lines.append(_line(f"`{name}`", items[name].title, *(verdicts.count(v) or "" for v in VERDICTS)))
    verdicts = [row["verdict"] for row in found]
    lines.append(_line("**all**", f"{len(found)} claims", *(f"**{verdicts.count(v)}**" for v in VERDICTS)))
    lines += ["", "Every line that is not `within`:", ""]
    lines += ["| verdict | item | claim | paper | ours | seeds | diverged |", "|" + " --- |" * 7]
    rest = [row for row in found if row["verdict"] != WITHIN]
    for row in sorted(rest, key=lambda row: WORST_FIRST.index(row["verdict"])):
        about = (row["claim"], row["paper"], _ours(row), row["seeds"], row["diverged"])
        lines.append(_line(row["verdict"], f"`{row['item']}`", *about))
    return "\n".join(lines) + "\n"


def _ours(row: dict[str, str]) -> str:
    found = number(float(row["ours"] or "nan"), 4 if row["seeds"] else 6)
    return found + (f" ± {number(float(row['std']), 2)}" if row["std"] else "")


def _line(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |"


def write() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + tables() + END + rest.split(END)[1], encoding="utf-8")


def run() -> None:
    out = ROOT / "build" / "reproduction"
    results = reproduce(["all"], out, processes=2)
    write_page(out, results)
    KEPT.parent.mkdir(exist_ok=True)
    shutil.copy(out / "verdicts.csv", KEPT)
    took = {result.item.name: round(result.seconds, 1) for result in results}
    SECONDS.write_text(json.dumps(took, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.run:
        run()
    if asked.run or asked.write:
        write()
    else:
        print(tables(), end="")
