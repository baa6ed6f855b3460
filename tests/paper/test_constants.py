"""Constants of the paper: which are right, and that a wrong one would be told."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from zocosmo.experiments.run import run_plan
from zocosmo_paper.item import Evidence
from zocosmo_paper.items import constants
from zocosmo_paper.items.constants import OPERATORS, Fact, beside, check, exactly
from zocosmo_paper.plans import load_config

NOTHING = Evidence({}, None, Path("nowhere"))
ALONE = [item for item in constants.ITEMS if not item.configs]


@pytest.fixture(scope="module")
def log():
    return run_plan(load_config(OPERATORS, None)).rows


def operators(log):
    return constants.find_operators(Evidence({OPERATORS: log}, None, Path("nowhere")))


def misses(found):
    return {(claim.words, claim.paper) for claim in found.claims if claim.verdict != "within"}


def test_all_constants_but_the_misprints_are_right():
    """80.6M and 341.6K come of 2.52M, a rounded d; 434.6K of 6.53B, all that is printed of it."""
    found = [claim for item in ALONE for claim in item.find(NOTHING).claims]
    assert {(c.words, c.paper) for c in found if c.verdict == "no"} == {
        ("LoRA: dense", "80.6M"),
        ("LoRA: entropy bound", "≥ 341.6K"),
        ("full model: entropy bound at d = 6,525,621,760", "≥ 434.6K"),
    }
    assert {c.verdict for c in found} == {"within", "no"}
    assert len(found) == 12 + 10 + 13 + 14 + 4


def test_the_rounded_dimensions_explain_all_three_misprints(monkeypatch):
    monkeypatch.setattr(constants, "LORA", 2_520_000)
    monkeypatch.setattr(constants, "FULL", constants.PRINTED_FULL)
    found = misses(constants.find_payload(NOTHING))
    assert found == {("LoRA: first dense message, in the text", "80.740M")}


@pytest.mark.parametrize("printed", ["261.9K", "262.2K", "1.69", "2.62e4"])
def test_another_printed_number_would_be_told(printed):
    assert (
        check([Fact("a message", "262.1K", 262_144), Fact("a message", printed, 262_144)])[1].verdict == "no"
    )


def test_a_sign_is_shown_and_softens_nothing():
    row = Fact("a bound", "341.6K", 341_657, sign="≥")
    assert check([row])[0][1:4] == ("≥ 341.6K", 341_657.0, "no")
    assert row.both == "≥ 341.6K / 341,657"


def test_tables_have_the_paper_beside_ours():
    rows = [Fact("share", "40.7%", Fraction(22, 54)), Fact("list", "1.02", Fraction(1633, 1600))]
    assert beside("x", "X", rows).rows == [["share", "40.7%", "40.7407%"], ["list", "1.02", "1.02062"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(341_656.9, "341,656.9"), (208_819_896_320, "208,819,896,320"), (Fraction(1, 3), "0.333333")],
)
def test_numbers_keep_the_digits_that_matter(value, text):
    assert exactly(value) == text


def test_the_period_of_dense_rounds_decides_the_multiplier(monkeypatch):
    monkeypatch.setattr(constants, "PERIOD", 24)
    assert ("LoRA: MARINA-type multiplier, K = 24", "13.94") in misses(constants.find_multipliers(NOTHING))


def test_the_ledger_bills_what_the_table_of_protocols_says(log):
    found = operators(log)
    assert misses(found) == set()
    assert len(found.claims) == 3 * 5 - 2 + 3 * 5  # bits, but edge-local where nodes idle, and stages


@pytest.mark.parametrize(("column", "what"), [("value_bits", "bits per node"), ("stages", "link stages")])
def test_a_bill_that_is_one_too_high_is_told(log, column, what):
    """Compared exactly: one bit in 20 rounds of 8 nodes is no rounding."""
    wrong = log.assign(**{column: log[column] + (log["trial"] == 0)})
    assert {words for words, _ in misses(operators(wrong)) if what in words} != set()
    assert all(words.startswith("ring of 8: global") for words, _ in misses(operators(wrong)))


def test_rows_of_the_protocol_table_name_formula_and_count(log):
    table = operators(log).tables[0]
    assert table.rows[5] == [
        "ring, N = 64",
        "seed–scalar flood",
        "every node",
        "(N − 1)b = 6,048",
        "6,048",
        "D_G = 32",
        "32",
    ]
    assert table.rows[10][3:5] == ["qB = 512", "451.2"]


def test_a_shorter_run_is_billed_the_same_by_round():
    log = run_plan(replace(load_config(OPERATORS, None), rounds=10)).rows
    assert misses(operators(log)) == set()
