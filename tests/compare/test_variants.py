"""Groups of parameters that are tuned together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compare.tiny import TINY, changed, line_of, read
from zocosmo.errors import ConfigError

PAIRS = "tune: {variants: [{q: 1, beta: 0.5}, {q: 2}]}"
OLD = "{kind: cosmo, q: 2}"


def grid(entry, text=TINY, problem=0):
    found = read(text.replace(OLD, f"{{kind: cosmo, {entry}}}"))
    return [dict(setting) for setting in found.contests[problem].candidates[0].grid]


def test_members_of_a_group_change_together():
    assert grid(PAIRS) == [
        {"eta": eta, **group} for eta in (0.001, 0.1) for group in ({"q": 1, "beta": 0.5}, {"q": 2})
    ]


def test_groups_and_lists_multiply_and_take_points_from_eta():
    found = grid("tune: {variants: [{q: 1}, {q: 2}], beta: [0.0, 0.5]}")
    assert [(s["q"], s["beta"]) for s in found] == [(1, 0.0), (1, 0.5), (2, 0.0), (2, 0.5)]
    assert {s["eta"] for s in found} == {0.01}


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 30))
def test_nobody_has_more_settings_than_others(groups, betas, settings):
    variants = [f"{{q: {k + 1}}}" for k in range(groups)]
    entry = f"tune: {{variants: [{', '.join(variants)}], beta: {[k / 8 for k in range(betas)]}}}"
    text = TINY.replace("settings: 4", f"settings: {settings}").replace(
        "tune: {coupling: [G, I]}", "coupling: G"
    )
    if settings % (groups * betas):
        with pytest.raises(ConfigError, match=f"makes {groups * betas} choices"):
            grid(entry, text)
    else:
        assert len(grid(entry, text)) == settings


TWO = changed("  bowl:", "  cup: {kind: quadratic, d: 4}\n  bowl:")


def test_lists_may_differ_by_problem():
    entry = "tune: {q: [1, 2]}, on: {bowl: {tune: {q: [3, 4], eta: [0.5, 1.0]}}}"
    assert [s["q"] for s in grid(entry, TWO, 0)] == [1, 2, 1, 2]
    assert grid(entry, TWO, 1) == [{"eta": eta, "q": q} for eta in (0.5, 1.0) for q in (3, 4)]


def test_the_plan_holds_the_groups():
    comparison = read(TINY.replace(OLD, f"{{kind: cosmo, {PAIRS}}}"))
    plan = comparison.contests[0].pilot((101,))
    found = {(t.method.q, t.method.beta) for t in plan.trials if t.method.kind == "cosmo"}
    assert found == {(1, 0.5), (2, 0.0)}


BAD = {
    "q: 2, tune: {variants: [{q: 1}, {beta: 0.5}]}": "methods[0].tune.variants.q is tuned and set to 2",
    "tune: {variants: [{q: 1}, {q: 1}]}": "methods[0].tune.variants[1] is the same as an earlier one",
    "tune: {variants: [{q: 1}, {q: 2}], q: [1, 2]}": "unknown key 'q' in methods[0].tune.variants[0]",
    "tune: {variants: [{q: 1, eta: 0.1}, {q: 2}]}": "unknown key 'eta' in methods[0].tune.variants[0]",
    "tune: {variants: [1, 2]}": "methods[0].tune.variants[0] must be a mapping, got 1",
    "tune: {variants: []}": "methods[0].tune.variants is an empty list; give it values to try",
    "q: 2, on: {bowl: {tune: {bata: [0.5]}}}": "unknown key 'bata' in methods[0].on.bowl.tune",
}


@pytest.mark.parametrize("entry", BAD)
def test_mistakes_in_groups_have_their_line(entry):
    text = TINY.replace(OLD, f"{{kind: cosmo, {entry}}}")
    with pytest.raises(ConfigError) as error:
        read(text)
    assert str(error.value).startswith(f"tiny.yaml:{line_of(text, entry)}: {BAD[entry]}")
