import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compare.tiny import TINY, changed, line_of, read, with_method
from zocosmo.compare.contest import Contest
from zocosmo.compare.grid import spaced
from zocosmo.errors import ConfigError


def grids(text=TINY):
    return {c.label: c.grid for c in read(text).contests[0].candidates}


def test_every_method_gets_the_same_number_of_settings():
    assert {len(grid) for grid in grids().values()} == {4}


def test_own_lists_take_points_from_eta():
    etas = [setting["eta"] for setting in grids()["cosmo"]]
    assert etas == [0.001, 0.00464, 0.0215, 0.1]
    own = [{"eta": eta, "coupling": c} for eta in (0.001, 0.1) for c in "GI"]
    assert list(grids()["edge_local"]) == own


def test_a_method_may_narrow_its_eta():
    text = with_method("{kind: dense, tune: {eta: [0.1, 0.8]}}")
    assert [setting["eta"] for setting in grids(text)["dense"]] == [0.1, 0.2, 0.4, 0.8]


@given(st.floats(1e-8, 1.0), st.floats(1.0, 1e8), st.integers(2, 40))
def test_points_are_as_many_as_asked_and_rise_between_the_ends(least, ratio, points):
    if ratio < 1.5:
        return
    found = spaced(least, least * ratio, points)
    assert len(set(found)) == points
    assert found == sorted(found)
    assert math.isclose(found[0], least, rel_tol=6e-3)
    assert math.isclose(found[-1], least * ratio, rel_tol=6e-3)  # three digits


def test_one_point_is_the_middle():
    assert spaced(0.01, 1.0, 1) == [0.1]


def test_mu_is_the_same_for_all_unless_stated():
    text = with_method("{kind: dense, mu: 0.5}") + "  - {kind: flood, tune: {mu: [0.1, 0.2]}}\n"
    found = {c.label: c.fixed.get("mu") for c in read(text).contests[0].candidates}
    assert found == {"cosmo": 1e-3, "edge_local": 1e-3, "served": 1e-3, "dense": 0.5, "flood": None}
    assert [setting["mu"] for setting in grids(text)["flood"]] == [0.1, 0.2, 0.1, 0.2]


TWO = changed("  bowl:", "  cup: {kind: quadratic, d: 4}\n  bowl:").replace(
    "budgets: [1_000, 3_000]", "budgets: {cup: [500], bowl: [3_000, 1_000, 1_000]}"
)


def test_budgets_may_differ_by_problem():
    assert [contest.budgets for contest in read(TWO).contests] == [(500,), (1000, 3000)]


def test_a_method_may_be_for_some_problems_only():
    text = TWO.replace("label: served", "label: served, only: [cup]")
    found = [[c.label for c in contest.candidates] for contest in read(text).contests]
    assert found == [["cosmo", "edge_local", "served"], ["cosmo", "edge_local"]]


def test_a_method_may_differ_by_problem():
    text = TWO.replace("cosmo, q: 2", "cosmo, q: 2, on: {cup: {q: 1}}")
    assert [contest.candidates[0].fixed["q"] for contest in read(text).contests] == [1, 2]


def test_both_plans_are_ordinary_ones():
    comparison = read(changed("label: served", "label: served, codec: values"))
    plan = comparison.contests[0].pilot(comparison.pilot_seeds)
    assert (plan.rounds, plan.log_every, plan.budgets) == (30, 5, (1000, 3000))
    assert len(plan.trials) == 3 * 4 * 2
    assert {trial.seed for trial in plan.trials} == {101, 102}
    assert {trial.method.codec for trial in plan.trials if trial.method.server} == {"values"}


BAD = {  # what is changed: to what, and what is said; the line is that of the change
    "rounds: 30": ("round: 30", "unknown key 'round' in the file, did you mean 'rounds'?"),
    "settings: 4": ("settings: 5", "methods[1].tune makes 2 choices, which do not divide tune.settings = 5"),
    "seeds: [101, 102]": ("seeds: [3, 101]", "seed 3 is also a seed of the study"),
    "eta: [1.0e-3, 0.1]": ("eta: [0.1, 1.0e-3]", "tune.eta must be the smallest and the largest to try"),
    "cosmo, q: 2": ("cosmo, q: 2, eta: 0.1", "eta is tuned for every method alike"),
    "cosmo, q:": ("cosmo, p:", "unknown key 'p' in methods[0]"),
    "{kind: cosmo,": ("{kind: cosma,", "a method must be a mapping with a kind: cosmo, "),
    "q: 2}": ("q: [1, 2]}", "methods[0].q is a list; move it to tune: {q: [1, 2]}"),
    "q: 2, tune": ("q: 9, tune", "q = 9 coordinates of d = 8"),
    "coupling: [G, I]": ("coupling: []", "methods[1].tune.coupling is an empty list"),
    "{coupling:": ("{coupled:", "unknown key 'coupled' in methods[1].tune, did you mean 'coupling'?"),
    "label: served": ("label: cosmo", "two methods on bowl are both called 'cosmo'"),
    "label: served}": ("only: [cup]}", "unknown key 'cup' in methods[2].only (known: bowl)"),
    "d: 8": ("d: [8, 9]", "problems.bowl.d is a list"),
    "d: 8,": ("dd: 8,", "unknown key 'dd' in problem"),
    "n: 4": ("n: [4, 5]", "graph.n is a list"),
    "{kind: ring": ("{kind: ringg", "unknown graph 'ringg'"),
    "budgets: [1_000, 3_000]": ("budgets: {cup: [1]}", "unknown key 'cup' in budgets"),
    "[1_000, 3_000]": ("[0, 3_000]", "budgets of bowl must be 1 or more, got 0"),
    "queries: 40": ("queries: 0", "queries of bowl must be 1 or more, got 0"),
    "log_every: 5": ("log_every: 31", "log_every must be between 1 and 30, got 31"),
    "  bowl:": ("  bo/wl:", "names of problems may have letters"),
}


@pytest.mark.parametrize("old", BAD)
def test_mistakes_are_told_with_their_line(old):
    new, said = BAD[old]
    text = changed(old, new)
    with pytest.raises(ConfigError) as error:
        read(text)
    assert said in str(error.value)
    place = "coupling" if said.startswith("methods[1]") else new
    assert str(error.value).startswith(f"tiny.yaml:{line_of(text, place)}: ")


def test_entries_are_counted_as_in_the_file_though_plans_have_many_more():
    with pytest.raises(ConfigError, match=r"tiny\.yaml:15: methods\[3\] lacks 'q'"):
        read(with_method("{kind: rand_k}"))


def test_a_final_plan_holds_what_was_chosen_and_no_other():
    from zocosmo.compare.contest import Chosen

    contest: Contest = read().contests[0]
    chosen = [Chosen(c, c.grid[2], 1.0, 0, False) for c in contest.candidates[:2]]
    chosen.append(Chosen(contest.candidates[2], None, math.nan, 4, False))
    plan = contest.final(chosen, (1, 2, 3))
    assert {(t.labels[2], t.method.eta) for t in plan.trials} == {("cosmo", 0.0215), ("edge_local", 0.1)}
