"""Every check agrees on small settings, and stops agreeing when either side is changed."""

from fractions import Fraction

import numpy as np
import pytest

from zocosmo.checks import bits, check_plans, default_plans, difference, draws, mix, paths, run, updates
from zocosmo.core.coupling import COUPLINGS
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.graphs.matching import IndependentPhases
from zocosmo.theory import coverage, exact, mixing, moments, payload, rates, ring, steps

TAPES = 128
PAIRS = "{kind: edge_local, coupling: S, q: 2, eta: 0.02, mu: 1.0e-3}"
RING = "{kind: ring, n: 6, schedule: iid}"
LISTED = "{kind: path, n: 4, schedule: {matchings: [[[0, 1], [2, 3]], [[1, 2]]], weights: [3, 1]}}"
LOSSES = "{kind: quadratic, d: 6, omega: 0.5, zeta: 2.0}"


def plan_of(method=PAIRS, graph=RING, problem=LOSSES, budgets="[2000]", seeds="[3]"):
    top = {"problem": problem, "graphs": f"[{graph}]", "methods": f"[{method}]", "budgets": budgets}
    lines = [f"{key}: {value}" for key, value in {**top, "seeds": seeds, "rounds": 50}.items()]
    return read_plan(Config("\n".join(lines), "small"), "small")


@pytest.fixture
def rows(monkeypatch):
    """Rows of one check on one setting."""

    def call(check, tapes=TAPES, **setting):
        monkeypatch.setattr(run, "CHECKS", (check,))
        return check_plans([plan_of(**setting)], tapes)

    return call


def verdicts(rows):
    return {row.verdict for row in rows}


CASES = {
    "bits": (bits.BITS, {}),
    "bits of a flood": (bits.BITS, {"method": "{kind: flood, eta: 0.01, mu: 1.0e-3}"}),
    "bits among neighbours": (bits.BITS, {"method": "{kind: cosmo, q: 2, eta: 0.01, mu: 1.0e-3, passes: 2}"}),
    "budget": (bits.BUDGET, {}),
    "marginals": (draws.MARGINALS, {}),
    "coverage": (draws.COVERAGE, {}),
    "edges": (draws.EDGES, {}),
    "edges in turn": (draws.EDGES, {"graph": "{kind: path, n: 5, schedule: round_robin}"}),
    "gap": (draws.GAP, {"graph": "{kind: complete, n: 6}"}),
    "mixing": (mix.MIXING, {}),
    "mixing among neighbours": (mix.MIXING, {"method": "{kind: cosmo, q: 2, eta: 0.01, mu: 1.0e-3}"}),
    "block": (mix.BLOCK, {"graph": "{kind: ring, n: 6}"}),
    "moments": (updates.MOMENTS, {}),
    "step": (updates.STEP, {}),
    "bias": (difference.BIAS, {}),
    "bias of a quartic": (difference.BIAS, {"problem": "{kind: rosenbrock, d: 6}"}),
    "edges of a list": (draws.EDGES, {"graph": LISTED}),
    "mixing on a list": (mix.MIXING, {"graph": LISTED}),
    "expected": (paths.EXPECTED, {}),
    "expected in turn": (paths.EXPECTED, {"graph": "{kind: ring, n: 4}"}),
}


@pytest.mark.parametrize(("check", "setting"), CASES.values(), ids=CASES)
def test_theory_and_code_agree(rows, check, setting):
    assert verdicts(rows(check, **setting)) == {"agrees"}


@pytest.mark.parametrize("check", [updates.CERTIFIED, paths.STABLE], ids=["certified", "stable"])
@pytest.mark.parametrize("how", ["eta: 0.001, decay: {kind: cosine, rounds: 50}", "eta: 0.0"])
def test_what_holds_of_a_constant_step_is_said_of_no_other(rows, check, how):
    """Of a first step that later ones leave, and of η = 0, whose radius is 1 give or take rounding."""
    method = f"{{kind: edge_local, q: 2, mu: 1.0e-3, {how}}}"
    assert verdicts(rows(check, method=method)) == {"not applicable"}


def scaled(function, factor, field=None):
    """The same function with its result, or one field of it, off by a factor."""

    def wrong(*given, **named):
        told = function(*given, **named)
        return told * factor if field is None else told._replace(**{field: getattr(told, field) * factor})

    return wrong


MUTANTS = {
    "bits": (payload, "link_costs", 2, "values"),
    "bits of a flood": (payload, "flood_cost", 2, None),
    "bits among neighbours": (payload, "link_costs", 2, "values"),
    "budget": (payload, "affordable_rounds", 2, None),
    "marginals": (coverage, "exposure", Fraction(11, 10), None),
    "coverage": (coverage, "expected_coverage", Fraction(9, 10), None),
    "mixing": (mixing, "energy_after", Fraction(9, 10), None),
    "mixing among neighbours": (mixing, "masked_energy", 0.9, None),
    "block": (ring, "block_gap", 1 / ring.looseness(6, q=2, d=6, common=True), None),
    "moments": (moments, "coupling_moments", 1.2, "V"),
    "step": (steps, "disagreement_step", 0.9, "after"),
    "bias of a quartic": (rates, "bias_scale", 0.5, None),
    "expected": (exact, "expectation", 0.9, "F"),
    "expected in turn": (exact, "expectation", 0.75, "disagreement"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_formula_turns_the_row_to_disagrees(rows, monkeypatch, name):
    module, function, factor, field = MUTANTS[name]
    monkeypatch.setattr(module, function, scaled(getattr(module, function), factor, field))
    check, setting = CASES[name]
    assert "disagrees" in verdicts(rows(check, tapes=400, **setting))


def test_the_published_block_bound_does_not_pass_for_the_exact_one(rows, monkeypatch):
    monkeypatch.setattr(ring, "block_gap", lambda n, *, d, q, common: ring.paper_block_gap(n, d=d, q=q))
    check, setting = CASES["block"]
    assert verdicts(rows(check, **setting)) == {"disagrees"}


def test_a_coupling_that_draws_other_directions_is_found_out(rows, monkeypatch):
    monkeypatch.setattr(updates, "COUPLINGS", {**COUPLINGS, "S": COUPLINGS["G"]})
    assert "disagrees" in verdicts(rows(updates.MOMENTS))


def test_matchings_that_favour_a_phase_are_found_out(rows, monkeypatch):
    fair = IndependentPhases.partners

    def loaded(self, tape, t):
        drawn = fair(self, tape, t)
        return np.where((np.asarray(t) % 8 == 0)[..., None], self._by_phase[0], drawn)

    monkeypatch.setattr(IndependentPhases, "partners", loaded)
    assert verdicts(rows(draws.EDGES)) == {"disagrees"}


def test_supports_that_never_leave_the_first_coordinates_are_found_out(rows, monkeypatch):
    monkeypatch.setattr(draws, "supports", lambda case, tape, t: np.zeros((*np.shape(t), 1), np.int64))
    assert verdicts(rows(draws.MARGINALS)) == {"disagrees"}


@pytest.mark.parametrize(
    ("check", "setting", "why"),
    [
        (
            bits.BITS,
            {"method": "{kind: cosmo, q: 2, eta: 0.1, mu: 0.1, codec: delta}"},
            "no formula for codec delta",
        ),
        (bits.BUDGET, {"graph": "{kind: star, n: 5}"}, "nodes idle"),
        (draws.COVERAGE, {"method": "{kind: dense, eta: 0.1, mu: 0.1}"}, "no support of q coordinates"),
        (draws.EDGES, {"method": "{kind: cosmo, q: 2, eta: 0.1, mu: 0.1}"}, "not on matchings"),
        (draws.GAP, {"graph": "{kind: torus, n: 30}"}, "too many maximal matchings"),
        (mix.MIXING, {"method": "{kind: rand_k, q: 2, eta: 0.1, mu: 0.1}"}, "no formula for how it mixes"),
        (mix.BLOCK, {}, "alternating schedule"),
        (updates.MOMENTS, {"problem": "{kind: rosenbrock, d: 6}"}, "not of rosenbrock"),
        (updates.STEP, {"graph": "{kind: star, n: 5}"}, "perfect matchings"),
        (updates.CERTIFIED, {"graph": "{kind: ring, n: 6}"}, "independent matchings"),
        (updates.CERTIFIED, {"problem": "{kind: quadratic, d: 6, sigma: 1.0}"}, "without momentum and noise"),
        (difference.BIAS, {"problem": "{kind: logistic, data: digits}"}, "not of logistic"),
        (paths.STABLE, {"graph": "{kind: ring, n: 18}"}, "too many second moments"),
    ],
)
def test_what_does_not_apply_says_why(rows, check, setting, why):
    (row,) = rows(check, **setting)
    assert row.verdict == "not applicable"
    assert why in row.note


@pytest.mark.parametrize(("eta", "verdict"), [(1e-4, "certified"), (0.02, "not certified")])
def test_a_step_is_certified_or_not_and_by_how_much(rows, eta, verdict):
    (row,) = rows(updates.CERTIFIED, method=f"{{kind: edge_local, q: 2, eta: {eta}, mu: 1.0e-3}}")
    assert (row.verdict, row.measured) == (verdict, eta)
    assert f"{eta / row.predicted:.3g} × the limit" in row.note


@pytest.mark.parametrize(("eta", "verdict"), [(0.02, "stable"), (2.0, "unstable")])
def test_a_step_is_stable_or_not(rows, eta, verdict):
    (row,) = rows(paths.STABLE, method=f"{{kind: edge_local, q: 2, eta: {eta}, mu: 1.0e-3}}")
    assert (row.verdict, row.predicted < 1) == (verdict, verdict == "stable")


def test_settings_that_a_formula_cannot_tell_apart_are_checked_once(rows):
    both = "{kind: edge_local, coupling: [G, S], q: 2, eta: [0.01, 0.02], mu: 1.0e-3}"
    assert len(rows(draws.EDGES, method=both)) == 1
    assert len(rows(mix.MIXING, method=both)) == 1
    assert len(rows(updates.STEP, method=both)) == 4


def test_other_seeds_of_a_plan_change_nothing(rows):
    assert rows(updates.STEP, seeds="[3, 4, 5]") == rows(updates.STEP)


def test_the_built_in_settings_have_something_for_every_formula():
    due, _ = run.sorted_out(each for plan in default_plans() for each in run.cases_of(plan, TAPES))
    assert {about.formula for about in due} == {check.formula for check in run.CHECKS}


def test_progress_is_told_before_every_check(monkeypatch):
    monkeypatch.setattr(run, "CHECKS", (bits.BITS, draws.EDGES))
    told = []
    check_plans([plan_of()], TAPES, lambda *now: told.append(now))
    assert told == [(0, 2, "bits per node and round"), (1, 2, "edge law P(e ∈ M)")]


@pytest.mark.parametrize("tapes", [29, 0, 10**6])
def test_too_few_or_too_many_tapes_are_refused(tapes):
    with pytest.raises(ValueError, match="between 30 and 100000"):
        check_plans([plan_of()], tapes)


@pytest.mark.slow
def test_all_built_in_rows_agree():
    assert "disagrees" not in verdicts(check_plans(default_plans(), 256))
