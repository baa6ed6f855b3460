"""Counts of the model studies, printed settings, and the pilot on made-up logs."""

import math

import pandas as pd
import pytest

from zocosmo_paper.items import counts, pilot
from zocosmo_paper.items.pilot import GRAPHS, STEPS


def test_factors_payloads_runs_and_settings_are_as_printed():
    claims = [*counts.judged(counts.topology_rows()), *counts.artifact_claims(), *counts.setting_claims()]
    assert {claim.verdict for claim in claims} == {"within"}
    assert len(claims) == 6 + 4 + 4


def test_another_setting_is_found(monkeypatch):
    real = counts.settings_of
    monkeypatch.setattr(counts, "settings_of", lambda name: {**real(name), "d": 21})
    assert {claim.verdict for claim in counts.setting_claims()} == {"no"}


def ends(best):
    """Every method and graph ends lowest with one step, and diverges with the largest."""
    return {
        (method, graph, budget, step): math.inf if step == "0.003" != best else abs(float(step) - float(best))
        for method in pilot.NAMES
        for graph in GRAPHS
        for budget in pilot.BUDGETS
        for step in STEPS
    }


@pytest.mark.parametrize(("best", "verdict"), [("0.0025", "within"), ("0.003", "no"), ("0.0008", "no")])
def test_the_step_of_the_pilot_is_the_best_one_on_seed_0(best, verdict):
    found = pilot.chosen(ends(best), "cosmo", GRAPHS, "0.1")
    assert (found.verdict, found.ours, found.kind) == (verdict, float(best), "figure")


def test_runs_that_diverge_on_other_seeds_are_counted():
    rows = [
        {"trial": k, "problem": "p", "graph": graph, "method": f"{method}", "seed": str(k), "round": t,
         "bits": t, "objective": 1.0, "diverged": method == "com_dszo" and t == 10}
        for method in pilot.NAMES for graph in GRAPHS for k in range(2) for t in (0, 10)
    ]  # fmt: skip
    found = {claim.words: claim for claim in pilot.lost(pd.DataFrame(rows))}
    assert {c.ours for words, c in found.items() if words.startswith("Com-DSZO")} == {2.0}
    assert {c.ours for words, c in found.items() if words.startswith("ZO-COSMO")} == {0.0}
