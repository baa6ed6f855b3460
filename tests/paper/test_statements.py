"""Statements by enumeration: all hold, and a wrong one does not."""

import math
from fractions import Fraction

import pytest

from zocosmo_paper.items import statements
from zocosmo_paper.items.enumerated import directions, joint
from zocosmo_paper.items.statements import BOUND, ENUMERATED, STATEMENTS, Statement


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: each.label)
def test_every_statement_holds(statement):
    claim = statement.claim()
    assert (claim.verdict, claim.kind) == ("within", "statement")
    assert claim.ours > 0


def test_all_directions_are_listed_once():
    assert len({tuple(u) for u in directions()}) == math.comb(3, 2) * 4
    assert [sum(1 for _ in joint(coupling)) for coupling in "GSI"] == [12, 3 * 16, 144]


@pytest.mark.parametrize(
    ("done", "pair", "verdict"),
    [
        (ENUMERATED, (Fraction(1, 3), Fraction(1, 3)), "within"),
        (ENUMERATED, (Fraction(1, 3), 1 / 3), "no"),
        (BOUND, (2, 1), "within"),
        (BOUND, (1, 2), "no"),
    ],
)
def test_equal_means_equal_and_a_bound_is_a_bound(done, pair, verdict):
    assert Statement("x", "…", done, lambda: iter([pair])).claim().verdict == verdict


def test_a_wrong_formula_is_found(monkeypatch):
    real = statements.coupling_moments
    monkeypatch.setattr(statements, "coupling_moments", lambda c, **k: real("G", **k))
    found = {each.label: each for each in STATEMENTS}
    assert found["prop:corr_moments"].claim().verdict == "no"


def test_nothing_compared_is_nothing_shown():
    assert Statement("x", "…", BOUND, lambda: iter([])).claim().verdict == "no"
