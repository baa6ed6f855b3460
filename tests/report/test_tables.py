import csv
import math
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from report.logs import hand_made_log, part_of
from zocosmo.errors import InputError
from zocosmo.report.budget import cells
from zocosmo.report.tables import FORMATS, render_cells, rich_cells, rounded

LOG = hand_made_log()
FRAME = cells(LOG, [1000])


@pytest.mark.parametrize(
    ("mean", "std", "shown"),
    [
        (0.08312, 0.00412, ("0.08312", "0.00412", 0)),
        (4.0, 2.0, ("4.00", "2.00", 0)),
        (12345.6, 2345.6, ("12346", "2346", 0)),
        (8.0, 0.0, ("8.000", "0", 0)),
        (0.0, 0.0, ("0.000", "0", 0)),
        (8.0, math.nan, ("8.000", "", 0)),
        (1.234e-7, 4.567e-9, ("1.2340", "0.0457", -7)),
        (99999.0, 2.5, ("99999.00", "2.50", 0)),
        (100000.0, 2500.0, ("1.0000", "0.0250", 5)),
        (0.001, 0.0005, ("0.001000", "0.000500", 0)),
        (0.0009, 0.0005, ("9.00", "5.00", -4)),
        (-2.5e12, 1e11, ("-2.500", "0.100", 12)),
        (10.0, 1e-12, ("10.00000000", "1e-12", 0)),
        (5e-324, math.nan, ("5.000", "", -324)),
        (math.inf, math.nan, ("inf", "", 0)),
    ],
)
def test_a_number_shows_three_digits_of_its_deviation(mean, std, shown):
    assert rounded(mean, std) == shown


@given(mean=st.floats(-1e300, 1e300), std=st.floats(1e-300, 1e300), digits=st.integers(1, 5))
def test_what_is_shown_is_within_half_a_unit_of_the_last_place(mean, std, digits):
    text, _, exponent = rounded(mean, std, digits)
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    rounding = 1e-12 * abs(float(text))  # of the division below
    assert abs(float(text) - mean / 10.0**exponent) <= half + rounding


def test_markdown_marks_the_best_and_counts_the_diverged():
    assert render_cells(FRAME, "markdown").splitlines()[:4] == [
        "| method | ring | grid |",
        "| --- | ---: | ---: |",
        "| sparse | **2.00 ± 1.00** † | **4.00 ± 2.00** † |",
        "| dense | 4.00 ± 1.41 (1 diverged) | 16.00 ± 0 |",
    ]


def test_completed_rounds_stand_in_brackets():
    lines = render_cells(cells(LOG, [160]), "markdown", rounds=True, digits=1).splitlines()
    assert lines[2] == "| sparse | **4 ± 2** (10) | **9 ± 6** (0–10) |"
    assert "(rounds) completed" in lines[-1]


def test_a_cell_with_nothing_to_average_shows_a_dash():
    lines = render_cells(cells(LOG, [None]), "markdown").splitlines()
    assert lines[3] == "| dense | 1.500 ± 0.707 (1 diverged) | – (2 diverged) |"


def test_a_mean_without_its_diverged_runs_is_never_the_best():
    """Dense has the lower mean on the ring, 1.5 against 2, over two of three seeds."""
    assert "**2.00 ± 1.00**" in render_cells(cells(LOG, [None]), "markdown")
    assert "| dense | 4.00 ± 1.41 (1 diverged) | **4" in render_cells(FRAME.assign(mean=4.0), "markdown")


def test_equal_means_are_both_the_best():
    assert render_cells(cells(LOG, [0]), "markdown").count("**8.000 ± 0**") == 2


def test_the_greatest_accuracy_is_the_best():
    frame = cells(LOG.assign(accuracy=LOG["objective"]), [160], metric="accuracy")
    assert render_cells(frame, "markdown").count("| dense | **8.000 ± 0** | **16.00 ± 0** |") == 1


def test_a_method_alone_is_not_the_best():
    assert "**" not in render_cells(cells(part_of(LOG, method="sparse"), [160]), "markdown")


def test_several_budgets_and_problems_become_columns():
    log = part_of(LOG, graph="ring")
    frame = cells(log.assign(problem=log["method"]), [100, None])
    lines = render_cells(frame, "markdown").splitlines()
    assert lines[0].startswith(
        "| method | sparse, ring, 100 bits | sparse, ring, last checkpoint | dense, ring,"
    )
    assert lines[2] == "| sparse | 4.00 ± 2.00 | 2.00 ± 1.00 | – | – |"


@pytest.mark.parametrize(
    ("frame", "note"),
    [
        (FRAME, "bowl: objective, mean ± std over 2–3 seeds, at 1,000 bits per node. † rounds were over"),
        (
            cells(part_of(LOG, trial=0), [None], relative=True),
            "objective relative to round 0, one seed, at the last",
        ),
    ],
)
@pytest.mark.parametrize("fmt", FORMATS)
def test_the_last_line_says_what_is_shown(frame, note, fmt):
    last = render_cells(frame, fmt).splitlines()[-1]
    assert note in last.replace(r"$\pm$", "±").replace("--", "–").replace(r"$\dag$", "†")


def test_csv_has_a_row_per_method():
    rows = list(csv.reader(render_cells(cells(LOG, [100, 1000]), "csv").splitlines()))
    assert rows[0] == ["method", "ring, 100 bits", "ring, 1,000 bits", "grid, 100 bits", "grid, 1,000 bits"]
    assert [row[1] for row in rows[1:3]] == ["4.00 ± 2.00", "8.000 ± 0"]


def test_latex_is_math_and_labels_are_escaped():
    frame = cells(LOG.assign(method=LOG["method"] + "_10%"), [1000])
    lines = render_cells(frame, "latex").splitlines()
    assert lines[4] == r"sparse\_10\% & $\mathbf{2.00 \pm 1.00}$ $\dag$ & $\mathbf{4.00 \pm 2.00}$ $\dag$ \\"
    assert lines[5].startswith(r"dense\_10\% & $4.00 \pm 1.41$ (1 diverged) & ")


@pytest.mark.parametrize(
    ("fmt", "shown"), [("text", "(1.60 ± 0.80)e-6"), ("latex", r"$(1.60 \pm 0.80)\times 10^{-6}$")]
)
def test_extreme_means_share_a_power_of_ten_with_their_deviation(fmt, shown):
    """2, 1, 3 times 0.8e-6 are 1.6e-6 ± 0.8e-6."""
    frame = cells(part_of(LOG, method="sparse", graph="ring"), [None])
    frame[["mean", "std"]] *= 0.8e-6
    assert shown in render_cells(frame, fmt, digits=2)


def test_text_lines_up_and_brackets_are_no_markup():
    frame = cells(LOG.assign(method="[bold]" + LOG["method"]), [1000])
    lines = render_cells(frame, "text").splitlines()
    assert lines[2].startswith("  [bold]sparse ")
    assert len({len(line) for line in lines[2:4]}) == 1


def test_a_terminal_shows_the_best_in_bold():
    console = Console(width=100, color_system="standard", force_terminal=True)
    with console.capture() as capture:
        console.print(rich_cells(FRAME))
    assert re.search("\x1b\\[1m *2.00 ± 1.00 †\x1b", capture.get())
    assert not re.search("\x1b\\[1m *4.00 ± 1.41", capture.get())


@pytest.mark.parametrize(
    ("frame", "fmt", "message"),
    [
        (FRAME, "html", "format 'html' is not known; choose from text, markdown, csv, latex"),
        (FRAME[:0], "text", "0 cells"),
        (pd.concat([FRAME, cells(LOG, [1], metric="local")]), "text", "one metric"),
        (pd.concat([FRAME, FRAME]), "text", "same problem, graph, method and budget"),
    ],
)
def test_what_cannot_be_a_table_is_refused(frame, fmt, message):
    with pytest.raises(InputError, match=message):
        render_cells(frame, fmt)
