"""docs/reproduction.md shows the verdicts that are kept; and, slowly, a rerun finds the same."""

import csv
import importlib.util
import re
from html import unescape
from pathlib import Path

import pytest

from browser import browser, opened
from zocosmo_paper import reproduce
from zocosmo_paper.board import headline_of
from zocosmo_paper.claim import Claim
from zocosmo_paper.forty import kept
from zocosmo_paper.item import Findings
from zocosmo_paper.items import all_items
from zocosmo_paper.page import render, write_page
from zocosmo_paper.run import ItemResult

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
    """Each row is counted under one verdict or as not counted, and is listed in one table."""
    found = script.rows()
    total = next(line for line in script.tables().splitlines() if line.startswith("| **all**"))
    assert sum(int(cell.strip(" *")) for cell in total.split("|")[3:-1]) == len(found)
    parts = script.tables().split("\n### ")
    lines = {part.splitlines()[0]: part.count("\n| ") - 2 for part in parts[1:]}  # less heading and rule
    turned = lines.pop("What 40 seeds turn")
    assert sum(lines.values()) == len(found)
    assert turned >= 0


def test_readme_docs_page_and_csv_have_one_headline(script, tmp_path, monkeypatch):
    """N, a, b, c and m are counted from the lines, and stand in README, docs, page and CSV."""
    told = script.told(script.rows())
    words = " ".join(told.sentence.split())
    every = told.all
    numbers = every.total, every.agree, every.order_only, every.no, every.model
    assert tuple(map(int, re.findall(r"\d+", words.replace("7B", "")))) == numbers
    for path in (ROOT / "README.md", script.PAGE):
        text = " ".join(path.read_text(encoding="utf-8").split())
        assert words in text
        assert " ".join(told.details.split()) in text
    kept = list(csv.reader(script.COUNTS.read_text(encoding="utf-8").splitlines()))
    assert kept == told.rows
    assert headline_of(as_results(script.rows())) == told
    page = unescape(" ".join(render(as_results(script.rows()), tmp_path).split()))
    assert f"<b>{words}</b> {' '.join(told.details.split())}" in page


def as_results(rows):
    """The kept lines as results of items, as a page shows them."""
    items, found = all_items(), {}
    for row in rows:
        ours = float(row["ours"] or "nan")
        claim = Claim(row["claim"], row["paper"], ours, row["verdict"], note=row["note"], kind=row["kind"])
        found.setdefault(row["item"], []).append(claim._replace(fitted=row["fitted"]))
    return [ItemResult(items[name], Findings(claims), ROOT, 0.0, "") for name, claims in found.items()]


@pytest.mark.parametrize(
    ("paper", "ours", "far"),
    [
        ("0.083 ± 0.006", "0.089", False),
        ("0.083 ± 0.006", "0.0891", True),
        ("(1.160 ± 0.421)e-7", "1.582e-7", True),
        ("about 6.1 %", "0.1", False),
    ],
)
def test_a_mean_beyond_the_printed_std_is_told_from_one_that_is_not(script, paper, ours, far):
    assert script.beyond_std({"paper": paper, "ours": ours}) == far


def test_every_ordering_and_figure_has_its_numbers_in_public(script):
    """Mean, n and, for orderings between runs, the paired interval; a note where a run was lost."""
    for row in script.rows():
        if row["kind"] == "ordering" and row["verdict"] in ("ordering", "no") and row["seeds"]:
            assert row["low"] or (row["expected"] == "" and int(row["seeds"]) < 2), row["claim"]
            assert row["note"], row["claim"]


def test_forty_seeds_speak_to_every_line_that_depends_on_seeds(script):
    """Stale? python results/reproduction.py --forty"""
    seeded = {(r["item"], r["claim"]) for r in script.rows() if r["seeds"] and r["kind"] != "statement"}
    assert seeded == set(kept())


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
