"""A table as Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from zocosmo.files import replace_file
from zocosmo.report.tables import tex
from zocosmo_paper.item import Table


def write_table(folder: Path, table: Table) -> None:
    """Write NAME.md, NAME.csv and NAME.tex; equal cells give equal bytes."""
    texts = {".md": as_markdown(table), ".csv": as_csv(table), ".tex": as_latex(table)}
    for suffix, text in texts.items():
        write_text(folder / f"{table.name}{suffix}", text)


def as_markdown(table: Table) -> str:
    lines = [f"**{table.title}**", "", _line(table.columns), _line(["---"] * len(table.columns))]
    lines += [_line(row) for row in table.rows]
    return "\n".join([*lines, *(["", table.notes] if table.notes else [])]) + "\n"


def as_csv(table: Table) -> str:
    return csv_text([table.columns, *table.rows])


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def as_latex(table: Table) -> str:
    body = [" & ".join(map(tex, row)) + r" \\" for row in table.rows]
    head = " & ".join(map(tex, table.columns)) + r" \\"
    wide = "l" * len(table.columns)
    above = [rf"\begin{{tabular}}{{{wide}}}", r"\toprule", head, r"\midrule"]
    return "\n".join([*above, *body, r"\bottomrule", r"\end{tabular}", ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def write_text(to: Path, text: str) -> None:
    """Write a file atomically; make its folder if necessary."""
    to.parent.mkdir(parents=True, exist_ok=True)
    replace_file(to, lambda path: path.write_text(text, encoding="utf-8"))
