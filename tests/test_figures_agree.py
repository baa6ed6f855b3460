"""Figures that several pages repeat are those of results/, to the digits shown."""

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

from zocosmo import METHODS
from zocosmo.log import read_log

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def words(page):
    """The page's text on one line, without marks of emphasis."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").replace("**", "").split())


def shown(page, pattern):
    found = re.search(pattern, words(page))
    assert found, f"{page} has no sentence like {pattern!r}"
    return list(found.groups())


def is_rounded(text, value):
    """Whether `text` is `value`, rounded to the digits that it has."""
    digits = len(text.partition(".")[2])
    return abs(float(text.replace(",", "")) - value) <= 0.5001 * 10**-digits


def rows_of(path):
    lines = (RESULTS / path).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def objective(method, bits):
    """Of the field's quadratic, at equal bits and any number of queries."""
    keys = {"equal": "bits", "most": str(bits), "within": "", "problem": "quadratic", "metric": "objective"}
    found = [row for row in rows_of("field/budgets.csv") if row.items() >= {**keys, "method": method}.items()]
    assert len(found) == 1
    return float(found[0]["mean"])


def ends(log):
    """(accuracy in %, Mbit per node) at the start and at the end, means over seeds."""
    rows = read_log(RESULTS / log).rows
    at = rows[rows["round"].isin([0, rows["round"].max()])].groupby("round")[["accuracy", "bits"]].mean()
    return [(100 * row["accuracy"], row["bits"] / 1e6) for _, row in at.iterrows()]


def second(study):
    """By settings: rounds, Mbit per node, accuracies in %."""
    found = defaultdict(list)
    for row in rows_of(f"second-smollm2/{study}.csv"):
        found[row["settings"]].append(row)
    return [
        (int(rows[0]["rounds"]), fmean(float(row["bits"]) for row in rows) / 1e6, [accuracy(r) for r in rows])
        for rows in found.values()
    ]


def accuracy(row):
    return 100 * float(row["accuracy"])


def test_the_readme_has_the_quadratic_of_the_field():
    number = r"([\d.]+)"
    two = rf"at {number} and {number}"
    sentence = rf"quadratic {number} at 10,000 bits a node, where the paper's methods are {two}"
    texts = shown("README.md", rf"{sentence} and after 400,000 bits {two}[ ,]")
    cells = [("edge_local 2", 10_000), *[(m, b) for b in (10_000, 400_000) for m in ("edge_local", "cosmo")]]
    assert [is_rounded(text, objective(*cell)) for text, cell in zip(texts, cells, strict=True)] == [True] * 5


def test_the_readme_has_the_accuracies_of_the_small_model():
    texts = shown(
        "README.md",
        r"go from ([\d.]+) to ([\d.]+) % in 1,540 rounds for ([\d.]+) Mbit "
        r".*? to ([\d.]+) % for ([\d.]+) Mbit",
    )
    (start, _), (end, bits) = ends("small-models/sst2-i-1540.csv")
    _, less, each = second("batch16")[0]
    values = [start, end, bits, fmean(each), less]
    assert [is_rounded(text, value) for text, value in zip(texts, values, strict=True)] == [True] * 5


def test_the_page_of_fine_tuning_has_the_first_generation():
    texts = shown(
        "docs/finetune.md", r"start at ([\d.]+) %; the first generation ends at ([\d.]+) % for ([\d.]+) Mbit"
    )
    (start, _), (end, bits) = ends("small-models/sst2-i-1540.csv")
    assert [is_rounded(t, v) for t, v in zip(texts, (start, end, bits), strict=True)] == [True] * 3


@pytest.mark.parametrize(("study", "batch"), [("batch16", 16), ("batch32", 32), ("batch8", 8), ("tree8", 8)])
def test_the_page_of_fine_tuning_has_the_second_generation(study, batch):
    """A row of its table for each setting: rounds and batch first; Mbit, mean and seeds last."""
    page = words("docs/finetune.md")
    for rounds, bits, each in second(study):
        row = rf"\| {rounds:,} of {batch}[^|]*\|[^|]*\| ([\d.]+) \| ([\d.]+) % \| ([\d. ]+) \|"
        found = [match for match in re.findall(row, page) if is_rounded(match[0], bits)]
        assert len(found) == 1, (study, bits)
        texts = [found[0][1], *found[0][2].split()]
        assert all(is_rounded(t, v) for t, v in zip(texts, [fmean(each), *each], strict=True))


@pytest.mark.parametrize("page", ["docs/field-details.md", "docs/model-results.md"])
def test_other_pages_repeat_the_first_generation(page):
    (_, _), (end, _) = ends("small-models/sst2-i-1540.csv")
    assert f"{end:.1f} %" in words(page)


def test_the_readme_has_the_reruns_of_rosenbrock():
    found = {row["claim"]: row for row in rows_of("reproduction/verdicts.csv") if row["item"] == "rosenbrock"}
    for graph, column in (("ring", 0), ("grid", 1)):
        row = found[f"{graph}, ZO-COSMO: objective at 0.1 Mbit"]
        cells = shown(
            "README.md", r"\| ZO-COSMO \| ([\d.]+) ± ([\d.]+) .*? \| [\d.]+ \| ([\d.]+) ± ([\d.]+) "
        )
        assert is_rounded(cells[2 * column], float(row["ours"]))
        assert is_rounded(cells[2 * column + 1], float(row["std"]))


def test_the_readme_has_the_headline_of_the_reruns():
    row = next(row for row in rows_of("reproduction/headline.csv") if row["kind"] == "all")
    sentence = (
        r"Of (\d+) figures .*?, (\d+) agree, (\d+) agree in order only, (\d+) do not; (\d+) need a 7B model"
    )
    assert shown("README.md", sentence) == [
        row[key] for key in ("reruns", "agree", "order only", "do not", "need a 7B model")
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_pages_count_the_methods_that_there_are(page):
    assert shown(page, r"(\d+) methods") == [str(len(METHODS))]


def table(heading):
    """Rows of the table under a heading of minimize-results.md."""
    text = (ROOT / "docs" / "minimize-results.md").read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    rows = [
        row.strip("|").split("|") for row in text.partition("\n## ")[0].splitlines() if row.startswith("| ")
    ]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_page_of_minimize_counts_as_its_results_do():
    wrong, runs = shown("docs/minimize.md", r"at 1e-2 it was (\d+) of (\d+)")
    found = {row[0]: row for row in table("Is a success one?")}
    assert [found["1e-2"][3], found["1e-2"][1], found["1e-4"][3]] == [wrong, runs, "0"]


def test_the_results_of_minimize_name_the_winner_of_their_table():
    most, of = shown("docs/minimize-results.md", r"needs the fewest queries on (\d+) of the (\d+)")
    numbers = [[float(c.replace(",", "").replace("–", "inf")) for c in row[1:6]] for row in table("One node")]
    assert [str(sum(min(row) == row[3] for row in numbers)), str(len(numbers))] == [most, of]
