import math
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from report.logs import hand_made_log, part_of
from zocosmo.errors import InputError
from zocosmo.report import curves
from zocosmo.report.curves import curve, figure

LOG = hand_made_log()


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draws, and gives back the figure in place of writing it."""

    def draw(log, **choices):
        kept = []
        monkeypatch.setattr(curves, "save_figure", lambda canvas, to, dpi: kept.append(canvas))
        figure(log, tmp_path / "a.svg", **choices)
        return kept[0]

    yield draw
    from matplotlib import pyplot as plt

    plt.close("all")


def labels_of(canvas):
    return [text.get_text() for text in canvas.legends[0].get_texts()]


def test_a_curve_is_the_mean_of_runs_at_equal_rounds():
    points, diverged = curve(part_of(LOG, graph="ring", method="sparse"), "objective")
    assert points["mean"].tolist() == [8.0, 4.0, 2.0]
    assert points["std"].tolist() == [0.0, 2.0, 1.0]
    assert diverged == 0


def test_bits_are_averaged_where_seeds_differ_in_their_graphs():
    """15, 15 and 18 bits a round."""
    log = part_of(LOG, graph="grid", method="sparse").copy()
    log.loc[log["seed"] == "3", "bits"] *= 18 / 17
    assert curve(log, "objective").points["bits"].tolist() == [0.0, 160.0, 320.0]


def test_a_run_leaves_the_mean_at_the_row_where_it_diverged():
    points, diverged = curve(part_of(LOG, graph="ring", method="dense"), "objective")
    assert points["mean"].tolist() == [8.0, 4.0, 1.5]
    assert diverged == 1


def test_a_curve_ends_where_a_run_still_going_ends():
    log = part_of(LOG, graph="ring", method="sparse")
    short = log[~((log["seed"] == "2") & (log["round"] == 20))]
    assert curve(short, "objective").points["round"].tolist() == [0, 10]


def test_a_curve_of_runs_that_all_diverge_ends_before_the_last():
    points, diverged = curve(part_of(LOG, graph="grid", method="dense"), "objective")
    assert points["mean"].tolist() == [16.0, 24.0]
    assert diverged == 2


def test_there_is_a_panel_per_graph_and_a_line_per_method(drawn):
    canvas = drawn(LOG, x="round")
    assert [axes.get_title() for axes in canvas.axes] == ["ring", "grid"]
    line = canvas.axes[1].lines[0]
    assert line.get_xdata().tolist() == [0, 10, 20]
    assert line.get_ydata().tolist() == [16.0, 8.0, 4.0]


def test_several_problems_are_named_in_titles(drawn):
    canvas = drawn(pd.concat([LOG, LOG.assign(problem="well", trial=LOG["trial"] + 100)]))
    assert [axes.get_title() for axes in canvas.axes] == [
        "bowl, ring",
        "bowl, grid",
        "well, ring",
        "well, grid",
    ]
    assert labels_of(canvas)[1].startswith("dense (1 diverged on bowl, ring, 2 diverged on bowl, grid, ")


def test_the_legend_counts_diverged_runs_by_graph(drawn):
    assert labels_of(drawn(LOG)) == ["sparse", "dense (1 diverged on ring, 2 diverged on grid)"]
    assert labels_of(drawn(part_of(LOG, graph="grid"))) == ["sparse", "dense (2 diverged)"]


def test_positive_values_get_a_log_axis_and_others_a_linear_one(drawn):
    assert {axes.get_yscale() for axes in drawn(LOG).axes} == {"log"}
    assert {axes.get_yscale() for axes in drawn(LOG.assign(objective=0.0)).axes} == {"linear"}


def test_round_0_without_disagreement_does_not_cost_the_log_axis(drawn):
    axes = drawn(LOG, metric="disagreement", x="round").axes[0]
    assert axes.get_yscale() == "log"
    assert axes.lines[0].get_xdata().tolist() == [10, 20]


def test_a_band_on_a_log_axis_stops_at_the_lowest_run(drawn):
    """4, 4 and 40 have a mean of 16 and a std of 20.8: the band would reach −4.8."""
    log = part_of(LOG, graph="ring", method="sparse").assign(
        objective=[4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 40.0, 4.0]
    )
    band = drawn(log).axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == 4.0
    assert band.max() == 16 + math.sqrt(432)


def test_budgets_are_dashed_verticals_in_the_unit_of_the_axis(drawn):
    axes = drawn(LOG, budgets=[500, 2000]).axes[0]
    dashed = [line.get_xdata() for line in axes.lines if line.get_linestyle() == "--"]
    assert [at[0] for at in dashed if len(at)] == [0.5, 2.0]
    assert labels_of(axes.figure)[-1] == "budgets"
    assert axes.get_xlabel() == "kbit per node"


def test_methods_look_different_up_to_twenty_one(drawn):
    looks = curves.styles([str(k) for k in range(21)])
    assert len({tuple(look.values()) for look in looks.values()}) == 21


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_same_log_gives_the_same_file(tmp_path, suffix, magic):
    for name in ("a", "b"):
        figure(LOG, tmp_path / f"{name}{suffix}", budgets=[1000])
    data = (tmp_path / f"a{suffix}").read_bytes()
    assert data.startswith(magic)
    assert data == (tmp_path / f"b{suffix}").read_bytes()


def test_one_seed_is_a_line_without_a_band(tmp_path):
    figure(part_of(LOG, trial=0), tmp_path / "a.svg")
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("log", "choices", "message"),
    [
        (LOG, {"x": "time"}, "x 'time' is not known; choose from bits, round"),
        (LOG, {"metric": "loss"}, "metric 'loss' is not known"),
        (LOG, {"x": "round", "budgets": [1]}, "budgets need x='bits', got x='round'"),
        (LOG[:0], {}, "0 rows"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, log, choices, message):
    with pytest.raises(InputError, match=message):
        figure(log, tmp_path / "a.png", **choices)


def test_examples_are_an_axis_where_they_are_counted(drawn):
    counted = LOG.assign(examples=16.0 * LOG["round"])
    axes = drawn(counted, x="examples").axes[0]
    assert axes.get_xlabel() == "examples evaluated per node"
    assert max(axes.lines[0].get_xdata()) == 16 * LOG["round"].max()
    with pytest.raises(InputError, match="the log does not count examples"):
        drawn(LOG, x="examples")
