"""Cells by setting, expectations, and the ways in which the studies on quadratics are compared."""

import math

import numpy as np
import pandas as pd
import pytest
from quadratics import made, verdicts

from zocosmo.problems.quadratic import quadratic
from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import complete_law
from zocosmo_paper.claim import Printed, close
from zocosmo_paper.items.studies import (
    Quote,
    Spot,
    by_spot,
    expected_batch,
    expected_gap,
    expected_path,
    expected_paths,
    problems_of,
    row_claims,
    row_table,
    run_claims,
    text,
)

LOW, HIGH = Spot("ring", "G", 0.004, 2.0, 0.6), Spot("ring", "I", 0.004, 2.0, 0.6)
ROW = Quote("cell", LOW, Printed(1.0, 0.2, 4), HIGH)
EVEN = {LOW: np.array([1.0]), HIGH: np.array([3.0])}


def log_of(problem, method, trials=2):
    rows = [
        {"trial": k, "problem": problem, "graph": "ring", "method": method, "seed": str(k), "round": t}
        for k in range(trials)
        for t in (0, 1600)
    ]
    last = {"n": 8, "bits": 204800.0, "queries": 25600, "objective": 1.0, "diverged": False}
    return pd.DataFrame(
        [row | (last if row["round"] else last | {"bits": 0.0, "queries": 0}) for row in rows]
    )


def test_a_cell_is_known_by_its_labels():
    log = log_of("quadratic omega=0.6 zeta=2 sigma=0.5", "edge_local eta=0.04 beta=0.9 coupling=S")
    assert list(by_spot(log)) == [Spot("ring", "S", 0.04, 2.0, 0.6, 0.5, 0.9)]


def test_what_does_not_vary_has_its_default():
    log = log_of("quadratic zeta=0.5", "edge_local eta=0.0001 coupling=G")
    assert list(by_spot(log)) == [Spot("ring", "G", 1e-4, 0.5)]


def test_the_expectation_of_a_cell_is_that_of_theory_on_its_problem():
    spot = Spot("complete", "S", 0.01, 2.0, 0.6, 0.5, 0.9)
    drawn = quadratic(8, 3, d=32, omega=0.6, zeta=2.0, sigma=0.5)
    told = expectation(
        Quadratics(2 * drawn.half, drawn.b, 0.5),
        complete_law(8),
        coupling="S",
        q=4,
        eta=0.01,
        beta=0.9,
        rounds=5,
        x0=drawn.x0,
    )
    assert (expected_path(spot, 3, 5) == told.F).all()


def test_expectations_are_means_over_the_problems_of_the_seeds():
    found = expected_paths([HIGH], [0, 1], 3, processes=1)[HIGH]
    assert (found == np.mean([expected_path(HIGH, seed, 3) for seed in (0, 1)], axis=0)).all()


def test_common_directions_on_one_curvature_need_one_problem():
    """Linear terms cancel, so that expectations on two problems differ by rounding alone."""
    spot = Spot("ring", "G", 0.004, 2.0)
    assert problems_of(spot, [4, 5]) == [4]
    assert problems_of(HIGH, [4, 5]) == [4, 5]
    np.testing.assert_allclose(expected_path(spot, 4, 5), expected_path(spot, 5, 5), rtol=1e-13)


@pytest.mark.slow
def test_expectations_do_not_depend_on_processes():
    one, two = (expected_paths([LOW, HIGH], [0, 1], 20, processes) for processes in (1, 2))
    assert all((one[spot] == two[spot]).all() for spot in one)


@pytest.mark.parametrize(
    ("mean", "rival", "verdict"),
    [(1.1, 3.0, "within"), (1.5, 3.0, "ordering"), (1.5, 1.0, "no")],
)
def test_a_printed_cell_is_judged_by_its_distance_and_then_by_its_ordering(mean, rival, verdict):
    cells = {LOW: made(mean, 0.1), HIGH: made(rival, 0.1)}
    assert row_claims([ROW], cells, EVEN)[0].verdict == verdict


@pytest.mark.parametrize(("printed", "verdict"), [(1.0, "within"), (1.3, "ordering"), (9.0, "ordering")])
def test_a_wrong_printed_value_is_found_by_the_expectation(printed, verdict):
    cells = {LOW: made(1.0, 0.1), HIGH: made(3.0, 0.1)}
    row = ROW._replace(printed=Printed(printed, 0.2, 4))
    assert verdicts(row_claims([row], cells, EVEN))["cell: expectation"] == verdict


def test_a_std_of_ours_never_widens_the_tolerance_where_one_is_printed():
    """Off by 0.5: beyond the printed std of 0.2, and within 2 standard errors only by our wider one, 0.8."""
    cells = {LOW: made(1.0, 0.8), HIGH: made(9.0, 0.8)}
    row = ROW._replace(printed=Printed(0.5, 0.2, 4))
    found = verdicts(row_claims([row], cells, EVEN))
    assert (found["cell"], found["cell: expectation"]) == ("ordering", "ordering")


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "within"), (4.0, "no")])
def test_on_a_log_scale_a_cell_is_held_against_the_log_normal_of_the_printed_moments(factor, verdict):
    """exp(s z) has mean exp(s²/2); four z of mean 0 and std 1 then have the middle that is expected."""
    s = 0.5
    logs = made(math.log(factor), s).values
    ours = made(factor, 1.0)._replace(values={seed: math.exp(value) for seed, value in logs.items()})
    mean = math.exp(s * s / 2)
    row = ROW._replace(log_normal=True, printed=Printed(mean, mean * math.sqrt(math.expm1(s * s)), 4))
    claim = row_claims([row], {LOW: ours, HIGH: made(9.0, 1.0)}, EVEN)[2]
    assert (claim.paper, claim.verdict) == ("0 ± 0.217", verdict)


@pytest.mark.parametrize(("other", "verdict"), [(1.4, "within"), (3.0, "no")])
def test_means_are_close_where_the_spread_over_seeds_covers_their_difference(other, verdict):
    assert close("", "", made(1.0, 0.1), made(other, 0.5)).verdict == verdict


def test_missing_runs_and_other_spending_are_found():
    log = log_of("quadratic zeta=2", "edge_local eta=0.004 coupling=G")
    assert set(verdicts(run_claims(log, "8", 2)).values()) == {"within"}
    short, dear = log[log["trial"] == 0], log.assign(bits=2 * log["bits"])
    assert verdicts(run_claims(short, "8", 2))["runs"] == "no"
    assert verdicts(run_claims(dear, "8", 2))["bits sent by a node"] == "no"


def test_a_run_that_diverged_is_found():
    log = log_of("quadratic zeta=2", "edge_local eta=0.004 coupling=G").assign(diverged=True)
    assert verdicts(run_claims(log, "8", 2))["runs that diverged"] == "no"


def test_that_all_runs_are_finite_is_no_constant():
    log = log_of("quadratic zeta=2", "edge_local eta=0.004 coupling=G")
    (finite,) = (claim for claim in run_claims(log, "8", 2) if claim.words == "runs that diverged")
    assert (finite.kind, finite.paper, finite.note) == ("ordering", "all runs are finite", "of 2")


def test_a_row_of_the_table_has_paper_and_ours_side_by_side():
    cells = {LOW: made(1.1, 0.1), HIGH: made(3.0, 0.1)}
    (row,) = row_table([ROW], cells, EVEN)
    assert row[:3] == ["cell", "1.000 ± 0.200", "1.100 ± 0.100"]
    assert row[4] == text(1.0)


@pytest.mark.parametrize("spot", [HIGH, Spot("complete", "S", 0.01, 2.0, 0.6, 0.5, 0.9)])
def test_problems_at_once_are_problems_one_by_one(spot):
    """Rows of a product may round otherwise in a larger one, so close and not equal."""
    batch = expected_batch(spot, [0, 3], 30)
    np.testing.assert_allclose(batch, [expected_path(spot, seed, 30) for seed in (0, 3)], rtol=1e-12)


def test_a_difference_that_is_not_known_is_nan():
    assert expected_gap(EVEN, LOW, HIGH) == -2.0
    assert math.isnan(expected_gap({}, LOW, HIGH))
