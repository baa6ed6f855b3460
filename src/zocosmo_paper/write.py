"""A table as Markdown, CSV and LaTeX."""

from pathlib import Path

from zocosmo.files import replace_file
from zocosmo.report.tables import csv_text, latex_lines, markdown_lines, tex
from zocosmo_paper.item import Table


def write_table(folder: Path, table: Table) -> None:
    """Write NAME.md, NAME.csv and NAME.tex; equal cells give equal bytes."""
    for suffix, text in ((".md", as_markdown), (".csv", as_csv), (".tex", as_latex)):
        write_text(folder / f"{table.name}{suffix}", text(table))


def as_markdown(table: Table) -> str:
    lines = markdown_lines([table.columns, ["---"] * len(table.columns), *table.rows])
    notes = ["", table.notes] if table.notes else []
    return "\n".join([f"**{table.title}**", "", *lines, *notes]) + "\n"


def as_csv(table: Table) -> str:
    return csv_text([table.columns, *table.rows])


def as_latex(table: Table) -> str:
    header, *rows = ([*map(tex, row)] for row in (table.columns, *table.rows))
    return "\n".join([*latex_lines(header, rows, "l" * len(header)), ""])


def write_text(to: Path, text: str) -> None:
    """Write a file atomically; make its folder if necessary."""
    to.parent.mkdir(parents=True, exist_ok=True)
    replace_file(to, lambda path: path.write_text(text, encoding="utf-8"))
