"""Tables as files: the same cells in three formats."""

import csv

from zocosmo_paper.item import Table
from zocosmo_paper.write import as_csv, as_latex, as_markdown, write_table

TABLE = Table("ends", "Ends", ("method", "ours"), [("a|b", "1 ± 2"), ("50 % & more, so", "3_4")], "A note.")


def test_markdown_escapes_what_would_split_a_cell():
    lines = as_markdown(TABLE).splitlines()
    assert lines[0] == "**Ends**"
    assert lines[2:6] == [
        "| method | ours |",
        "| --- | --- |",
        r"| a\|b | 1 ± 2 |",
        "| 50 % & more, so | 3_4 |",
    ]
    assert lines[-1] == "A note."


def test_csv_reads_back_to_the_same_cells():
    assert [tuple(row) for row in csv.reader(as_csv(TABLE).splitlines())] == [TABLE.columns, *TABLE.rows]


def test_latex_escapes_what_latex_would_read():
    text = as_latex(TABLE)
    assert r"50 \% \& more, so & 3\_4 \\" in text
    assert text.startswith(r"\begin{tabular}{ll}")
    assert text.endswith("\\end{tabular}\n")


def test_a_folder_gets_all_three_and_the_same_bytes_again(tmp_path):
    write_table(tmp_path / "new", TABLE)
    first = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    write_table(tmp_path / "new", TABLE)
    assert sorted(first) == ["ends.csv", "ends.md", "ends.tex"]
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
