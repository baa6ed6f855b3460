"""The residual of unequal curvatures: its formula, a short audit, and the study itself (slow)."""

import numpy as np
import pytest
from quadratics import SEEDS, short, verdicts

from zocosmo.experiments.run import run_plan
from zocosmo.theory.steps import curvature_residual
from zocosmo_paper.items.residual import CONFIG, Audit, claims, residual, table
from zocosmo_paper.run import reproduce

STATES = 96 * SEEDS * 3  # runs of a seed, and three checkpoints


@pytest.fixture(scope="module")
def both():
    plan = short(CONFIG)
    audit = Audit(plan)
    return run_plan(plan).rows, (run_plan(plan, watch=audit), audit.rows())[1]


def test_the_residual_is_that_of_theory():
    """Whole numbers over 4 nodes: nothing rounds."""
    rows = np.arange(24.0).reshape(2, 4, 3)
    H, x = (rows**2) % 7, (rows * 5) % 11
    found = residual(H, np.zeros_like(H), x)
    for k in range(2):
        told = curvature_residual(H[k].astype(int), x[k].astype(int))
        assert (found.r2[k], found.bound[k]) == (float(told.r2), float(told.bound))


def test_equal_curvatures_leave_nothing():
    x = np.arange(12.0).reshape(4, 3)
    assert residual(np.ones((4, 3)), np.zeros((4, 3)), x).r2 == 0


def test_every_logged_state_is_looked_at_and_is_that_of_the_log(both):
    log, seen = both
    assert len(log) == len(seen) == STATES
    assert set(verdicts(claims(log, seen)).values()) == {"within"}


def test_a_state_of_another_run_is_found(both):
    log, seen = both
    other = log.assign(objective=np.nextafter(log["objective"], 2.0))
    assert [claim.verdict for claim in claims(other, seen)] == ["no", "within", "within"]


def test_one_state_above_the_bound_is_found(both):
    log, seen = both
    worse = seen.copy()
    worse.loc[7, "r2"] = 2 * worse.loc[7, "bound"] + 1
    assert [claim.verdict for claim in claims(log, worse)] == ["within", "no", "within"]


def test_a_mean_slope_that_is_off_is_found(both):
    log, seen = both
    assert claims(log, seen.assign(identity=1e-9))[2].verdict == "no"


def test_the_table_counts_all_states(both):
    rows = table(*both).rows
    assert sum(int(row[2]) for row in rows) == STATES
    assert [row[3] for row in rows] == ["0"] * 8


@pytest.mark.slow
def test_the_bound_holds_at_every_logged_state_of_the_study(tmp_path):
    (result,) = reproduce(["curvature-residual"], tmp_path, processes=2)
    assert set(verdicts(result.findings.claims).values()) == {"within"}
    assert result.findings.claims[0].ours == 768 * 81
