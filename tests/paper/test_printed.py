"""Every number in the paper column of a counted line is a number that the paper prints."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "paper.tex"
KEPT = ROOT / "results" / "reproduction" / "verdicts.csv"
NUMBER = r"\d+(?:\.\d+)?"


def digits(number):
    """Significant digits: 0.0530, 5.30e-2 and 53 have the same."""
    return number.replace(".", "").strip("0")


def counted():
    lines = csv.DictReader(KEPT.read_text(encoding="utf-8").splitlines())
    return [row for row in lines if row["kind"] in ("constant", "figure", "ordering")]


def numbers(text):
    """Numbers of a paper column; a power of ten has no digits of its own."""
    return re.findall(rf"({NUMBER})(?:e-?\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text))


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
def test_counted_lines_have_printed_numbers():
    text = PAPER.read_text(encoding="utf-8").replace("{,}", "")
    printed = {digits(number) for number in re.findall(NUMBER, text)}
    off = {
        (row["claim"], number)
        for row in counted()
        for number in numbers(row["paper"])
        if digits(number) not in printed and digits(number)
    }
    assert off == set()


def test_no_counted_constant_shows_a_formula():
    assert [r["claim"] for r in counted() if r["kind"] == "constant" and " = " in r["paper"]] == []


def test_digits_are_compared_without_their_power_of_ten():
    assert numbers("1.16e-07 ± 4.21e-08, 1,536") == ["1.16", "4.21", "1536"]
    assert digits("0.0530") == digits("53") == "53"
