"""A table as Markdown, CSV and LaTeX."""

import csv
import io
from pathlib import Path

from zocosmo.files import replace_file
from zocosmo.report.tables import tex
from zocosmo_paper.item import Table


def write_table(folder: Path, table: Table) -> None:
    """NAME.md, NAME.csv and NAME.tex in a folder: the same bytes for the same cells."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, render in ((".md", as_markdown), (".csv", as_csv), (".tex", as_latex)):
        _write(folder / f"{table.name}{suffix}", render(table))


def as_markdown(table: Table) -> str:
    lines = [f"**{table.title}**", "", _line(table.columns), _line(["---"] * len(table.columns))]
    lines += [_line(row) for row in table.rows]
    return "\n".join([*lines, *(["", table.notes] if table.notes else [])]) + "\n"


def as_csv(table: Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def as_latex(table: Table) -> str:
    body = [" & ".join(map(tex, row)) + r" \\" for row in table.rows]
    head = " & ".join(map(tex, table.columns)) + r" \\"
    wide = "l" * len(table.columns)
    return (
        "\n".join(
            [
                rf"\begin{{tabular}}{{{wide}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )
        + "\n"
    )


def _line(cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |"  # type: ignore[attr-defined]


def _write(to: Path, text: str) -> None:
    replace_file(to, lambda path: path.write_text(text, encoding="utf-8"))
