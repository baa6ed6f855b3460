"""Views: what is sent is new, little, and enough to draw the whole."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched import Writer, small

from zocosmo.errors import InputError
from zocosmo.experiments.run import run_plan
from zocosmo.watch import view as views
from zocosmo.watch.curve import thinned
from zocosmo.watch.study import Study
from zocosmo.watch.view import View

NUMBERS = st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=300)


@given(NUMBERS, st.integers(4, 60))
def test_thinned_rows_keep_both_ends_and_every_extreme(values, most):
    values = np.array(values)
    kept = thinned(values, most)
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert (np.diff(kept) > 0).all()
    assert len(kept) <= most + 2
    finite = np.where(np.isfinite(values), values, 0.0)
    assert {finite[kept].min(), finite[kept].max()} == {finite.min(), finite.max()}


class Page:
    """What a page makes of the news."""

    def __init__(self):
        self.curves, self.points, self.events, self.facts, self.sent = {}, {}, [], {}, 0

    def take(self, news):
        self.sent += len(json.dumps(news))
        if news.get("anew"):
            self.curves, self.points, self.events = {}, {}, []
        self.facts |= {name: news[name] for name in ("about", "status", "nodes", "work") if name in news}
        self.curves |= news.get("curves", {})
        self.events += news.get("events", [])
        for key, part in news.get("points", {}).items():
            kept = {} if part.get("anew") else self.points.get(key, {})
            self.points[key] = {name: [*kept.get(name, []), *part[name]] for name in ("round", "bits", "y")}


def test_a_page_that_adds_up_the_news_has_every_row(tmp_path):
    writer, study, page = Writer(tmp_path / "run"), Study(tmp_path / "run"), Page()
    view = View(study)
    for t in range(0, 100, 5):
        writer.row(t)
        study.refresh()
        page.take(view.news())
        assert view.news() is None
    assert page.points["1"]["round"] == list(range(0, 100, 5))
    assert page.points["1"]["y"] == [float(f"{2 / (t + 1):.7g}") for t in range(0, 100, 5)]
    assert [event["what"] for event in page.events] == ["started"]


def test_one_more_row_costs_one_more_row(tmp_path):
    writer, study = Writer(tmp_path / "run", trials=1, rounds=10_000), Study(tmp_path / "run")
    for t in range(300):
        writer.row(t)
    study.refresh()
    view, page = View(study), Page()
    page.take(view.news())
    first = page.sent
    writer.row(300)
    study.refresh()
    page.take(view.news())
    assert page.sent - first < 1000 < first
    assert page.points["0"]["round"][-1] == 300


def test_curves_stay_within_what_a_screen_can_show(tmp_path, monkeypatch):
    monkeypatch.setattr(views, "MOST_EACH", 20)
    writer, study, page = Writer(tmp_path / "run", trials=1, rounds=10_000), Study(tmp_path / "run"), Page()
    view, most = View(study), 0
    for t in range(1000):
        writer.row(t, value=1e6 if t == 500 else 1.0 / (t + 1))
        study.refresh()
        page.take(view.news())
        most = max(most, len(page.points["0"]["y"]))
    assert most <= 42
    assert max(page.points["0"]["y"]) == 1e6  # the one outlier is still there
    assert (page.points["0"]["round"][0], page.points["0"]["round"][-1]) == (0, 999)


def test_many_trials_are_sampled_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(views, "MOST_CURVES", 10)
    writer, study = Writer(tmp_path / "run", trials=25), Study(tmp_path / "run")
    writer.row(10)
    study.refresh()
    news = View(study).news()
    assert (len(news["curves"]), news["sampled"]) == (9, 3)


def test_a_metric_can_be_chosen_and_an_unknown_one_is_refused(tmp_path):
    run_plan(small(tmp_path), tmp_path / "out", job="run")
    study = Study(tmp_path / "out")
    study.refresh()
    news = View(study, "disagreement").news()
    assert news["about"]["metric"] == "disagreement"
    assert news["about"]["metrics"] == ["objective", "local", "disagreement"]
    assert news["points"]["0"]["y"][0] == 0
    with pytest.raises(InputError, match="metric 'x' is not known"):
        View(study, "x").news()


def test_news_is_json_without_nan(tmp_path):
    writer, study = Writer(tmp_path / "run"), Study(tmp_path / "run")
    writer.row(10, value=float("inf"))
    study.refresh()
    text = json.dumps(View(study).news(), allow_nan=False)
    assert json.loads(text)["points"]["0"]["y"] == [None]
