"""docs/reproduction.md shows the verdicts that are kept; and, slowly, a rerun finds the same."""

import csv
import importlib.util
from pathlib import Path

import pytest
from browser import browser, opened

from zocosmo_paper import reproduce
from zocosmo_paper.page import write_page

ROOT = Path(__file__).parents[2]
TIMED = ("serialisation", "two-process-transfer")  # items that measure time, on whatever machine


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("reproduction", ROOT / "results" / "reproduction.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_verdicts_that_are_kept(script):
    """Stale? python results/reproduction.py --run"""
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert f"{script.BEGIN}{script.tables()}{script.END}" in page


def test_the_board_counts_every_line_once(script):
    verdicts = [row["verdict"] for row in script.rows()]
    total = next(line for line in script.tables().splitlines() if line.startswith("| **all**"))
    assert sum(int(cell.strip(" *")) for cell in total.split("|")[3:-1]) == len(verdicts)
    listed = script.tables().split("Every line")[1].count("\n| ") - 2  # heading and rule
    assert listed == sum(verdict != "within" for verdict in verdicts)


def test_the_readme_counts_what_the_board_has(script):
    verdicts = [row["verdict"] for row in script.rows()]
    within, ordering, no = (verdicts.count(name) for name in ("within", "ordering", "no"))
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"holds {len(verdicts)} claims against reruns" in text
    assert f"{within} are within, of {ordering} the ordering holds, {no} do not hold" in text


@pytest.fixture(scope="module")
def rerun(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    return write_page(out, reproduce(["all"], out, processes=2))


@pytest.mark.slow
def test_a_rerun_finds_the_verdicts_that_are_kept(rerun, script):
    text = (rerun.parents[1] / "verdicts.csv").read_text(encoding="utf-8")
    found = list(csv.DictReader(text.splitlines()))
    assert [r for r in found if r["item"] not in TIMED] == [
        r for r in script.rows() if r["item"] not in TIMED
    ]


@pytest.mark.slow
def test_the_whole_report_opens_on_a_phone_without_a_word(rerun):
    with browser() as found, opened(found, rerun, viewport={"width": 390, "height": 844}) as shown:
        assert shown.said == []
        assert {url for url in shown.asked if not url.startswith("data:")} == {rerun.as_uri()}
        assert shown.evaluate("document.documentElement.scrollWidth") == 390
        assert all(shown.evaluate("Array.from(document.images, i => i.complete && i.naturalWidth > 0)"))
