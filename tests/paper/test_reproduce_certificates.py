"""Certificates of the mechanism study: verdicts that hold, and that can fail."""

from pathlib import Path

import pytest
from quadratics import verdicts

from zocosmo_paper.item import Evidence
from zocosmo_paper.items import certificates
from zocosmo_paper.items.certificates import chi_claims, find, matchings, power_claims, step_claims, table

NOTHING = Evidence({}, None, Path("none"))


def test_all_that_is_claimed_of_certificates_holds():
    assert set(verdicts(find(NOTHING).claims).values()) == {"within"}


def test_a_step_that_some_cell_does_not_certify_is_found(monkeypatch):
    """0.0002 is above what the ring allows and below what the complete graph does."""
    monkeypatch.setattr(certificates, "CERTIFIED", 2e-4)
    first = step_claims()[0]
    assert (first.verdict, first.ours) == ("no", 3)


def test_a_step_that_is_certified_after_all_is_found(monkeypatch):
    monkeypatch.setattr(certificates, "PRACTICAL", 1e-4)
    assert step_claims()[1].verdict == "no"


def test_eight_nodes_have_105_perfect_matchings():
    found = {frozenset(pairs) for pairs in matchings(tuple(range(8)))}
    assert len(found) == 105
    assert all(sorted(node for pair in pairs for node in pair) == list(range(8)) for pairs in found)


@pytest.mark.parametrize("graph", ["complete", "ring"])
def test_a_wrong_formula_for_chi_is_found(monkeypatch, graph):
    monkeypatch.setitem(certificates.CHI, graph, 0.5)
    assert sorted(claim.verdict for claim in chi_claims()) == ["no", "within"]


def test_a_wrong_power_is_found(monkeypatch):
    monkeypatch.setitem(certificates.POWERS, "G", "0.50")
    assert [claim.verdict for claim in power_claims()] == ["no", "within", "within", "within"]
    assert [claim.kind for claim in power_claims()] == ["constant", "constant", "check", "check"]


def test_no_bound_speaks_before_the_runs_end():
    made = table()
    assert len(made.rows) == 6
    assert min(int(first) for row in made.rows for first in row[-3:]) > certificates.ROUNDS
    assert "at round 5,001" in made.notes
