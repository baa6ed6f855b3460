"""Comparisons that choose settings at every limit."""

import math
from itertools import pairwise

import pandas as pd
import pytest

from compare.tiny import TINY, line_of
from zocosmo.compare import compare
from zocosmo.compare import run as comparing
from zocosmo.compare.config import growing, read_comparison
from zocosmo.compare.contest import Limit, joint_limits, limits, tuned_at
from zocosmo.compare.figure import family_lines, family_styles
from zocosmo.compare.standings import (
    best_of,
    clauses,
    foremost,
    ours_of,
    sentences,
    standings,
    summary_grid,
    verdicts_grid,
    winner,
)
from zocosmo.compare.tune import choose_all
from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config
from zocosmo.log import read_log
from zocosmo.report.budget import cell

EACH = (
    TINY.replace("settings: 4, eta", "settings: 4, at: each, eta")
    .replace("log_every: 5", "growth: 1.2\nmost_queries: 60")
    .replace("budgets: [1_000, 3_000]", "budgets: [100, 640, 3_000]")
    .replace("rounds: 30", "rounds: 60")
    .replace("q: 2}", "q: 2, family: first}")
    .replace("q: 2, tune", "q: 2, family: first, tune")
) + "  - {kind: mezo}\n"


def read(text=EACH):
    return read_comparison(Config(text, "tiny.yaml"), "tiny")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("each")
    return out, compare(read(), out)[0]


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(comparing, "draw_budgets", lambda results, to: None)


def test_settings_are_chosen_at_every_budget_at_the_queries_and_within_them():
    contest = read().contests[0]
    assert list(tuned_at(contest).values()) == [*limits(contest), *joint_limits(contest)]
    assert list(tuned_at(contest)) == [
        "100 bits", "640 bits", "3,000 bits", "40 queries",
        *(f"{bits} bits within 40 queries" for bits in ("100", "640", "3,000")),
    ]  # fmt: skip


def test_every_choice_is_the_best_of_the_pilot_at_its_own_limit_for_every_method(done):
    """Computed once more from cells; 100 bits pay for no round of cosmo, so the first one chooses."""
    out, result = done
    pilot = read_log(out / "bowl/pilot/log.parquet").rows
    for name, limit in tuned_at(result.contest).items():
        for chosen in result.finals[name].chosen:
            means = {}
            for setting in chosen.candidate.grid:
                part = limit.log(pilot[pilot["method"] == chosen.candidate.name(setting)])
                first = part.loc[part["round"] == 1, "bits"].max()
                means[chosen.candidate.name(setting)] = cell(part, max(limit.most, first), "objective").mean
            assert chosen.candidate.name(chosen.setting) == min(means, key=means.get)
            assert chosen.mean == min(means.values())


def test_the_study_runs_every_chosen_setting_once(done):
    out, result = done
    chosen = {
        c.candidate.name(c.setting) for final in result.finals.values() for c in final.chosen if c.setting
    }
    trials = read_log(out / "bowl/final/log.parquet").rows.drop_duplicates("trial")
    assert sorted(trials["method"]) == sorted([*chosen] * 3)
    assert len(chosen) > len(result.contest.candidates)
    assert not (out / "bowl/final-queries").exists()


def test_runs_end_when_they_have_spent_and_asked_enough_or_asked_the_most(done):
    """128 bits and 2 queries a round, so 24 rounds; mezo sends nothing, and ends at 40 queries."""
    out, _ = done
    log = read_log(out / "bowl/final/log.parquet").rows
    ends = log.groupby(log["method"].str.split().str[0])["round"].max()
    due = growing(1.2, 60, [20])
    assert ends["cosmo"] == min(t for t in due if 128 * t >= 3000 and 2 * t >= 40)
    assert ends["mezo"] == 20


def test_within_queries_is_the_last_checkpoint_that_fits_both(done):
    _, result = done
    limit = Limit("bits", 3000, 40)
    rows = result.at(limit).rows
    part = rows[(rows["method"] == "cosmo") & (rows["bits"] <= 3000) & (rows["queries"] <= 40 * 4)]
    last = part.groupby("seed").tail(1)
    found = next(each for each in standings(result, limit) if each.method == "cosmo")
    assert (found.mean, found.rounds) == (last["objective"].mean(), (20, 20))
    assert (found.queries, found.bits) == (40, 20 * 128)
    free = next(each for each in standings(result, Limit("bits", 3000)) if each.method == "cosmo")
    assert free.rounds[0] > 20


def test_a_budget_without_a_round_shows_the_start_and_says_so(done):
    out, result = done
    found = {each.method: each for each in standings(result, Limit("bits", 100))}
    rows = result.rows[result.rows["round"] == 0].groupby("method")["objective"].mean()
    assert found["cosmo"].at_start
    assert not found["edge_local"].at_start  # 64 bits a round
    assert found["cosmo"].mean == rows["cosmo"]
    text = (out / "bowl/objective.md").read_text()
    assert "∘ not one round fits: the start." in text
    assert "∘ |" in next(line for line in text.splitlines() if line.startswith("| cosmo"))


def test_tables_for_each_limit_are_written(done):
    out, result = done
    text = (out / "bowl/budgets.md").read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(
        tuned_at(result.contest)
    )
    frame = pd.read_csv(out / "budgets.csv")
    assert len(frame) == 7 * 4
    ranked = frame[frame["rank"].notna()]
    assert (ranked.loc[ranked["rank"] == 1, "verdict"] == "best").all()
    rest = ranked[(ranked["rank"] > 1) & ranked["low"].notna()]
    assert ((rest["low"] <= 0) & (rest["high"] >= 0)).eq(rest["verdict"] == "within").all()
    assert frame.loc[frame["method"] == "mezo", "rank"].isna().all()
    assert (out / "bowl/objective-within-queries.md").exists()


def test_ours_is_the_one_that_the_pilot_prefers_not_the_seeds_of_the_study(done):
    _, result = done
    for limit, found in result.standings:
        ours = ours_of(found)
        mine = {c.candidate.label: c.mean for c in result.at(limit).chosen if c.candidate.kind != "mezo"}
        del mine["served"]
        assert ours.method == min(mine, key=mine.get)
    for metric, best in (("objective", "a"), ("accuracy", "b")):
        pair = [ours._replace(method=m, pilot=p, metric=metric, rank=2) for m, p in (("a", 0.1), ("b", 0.2))]
        assert foremost(pair).method == best


def test_a_sentence_says_who_wins_at_every_limit(done):
    out, result = done
    lines = list(sentences(result))
    assert [line.split(":")[0] for line in lines] == [
        "bowl",
        "bowl within 40 queries",
        "bowl at equal queries",
    ]
    for limit, found in result.standings:
        best = best_of(found)
        kind = " at equal queries" if limit.what == "queries" else " within 40 queries" * bool(limit.within)
        line = next(line for line in lines if line.startswith(f"bowl{kind}:"))
        clause = next(part for part in line.split("; ") if f"{limit.most:,.0f}" in part.split(" at ")[-1])
        assert "ours wins" in clause if best.ours and ours_of(found) == best else best.method in clause
    assert (out / "verdicts.md").read_text() == "".join(f"- {line}\n" for line in lines)
    assert len(verdicts_grid([result]).rows) == 7


def test_the_summary_has_a_row_for_bits_and_one_within_the_queries(done):
    out, result = done
    grid = summary_grid([result])
    assert grid.header == ["100 bits", "640 bits", "3,000 bits", "40 queries"]
    assert [name for name, _ in grid.rows] == ["bowl", "bowl, ≤ 40 queries"]
    for (name, entries), within in zip(grid.rows, (None, 40), strict=True):
        for entry, bits in zip(entries, (100, 640, 3000), strict=False):
            found = dict(result.standings)[Limit("bits", bits, within)]
            best = best_of(found)
            assert (name, entry.number.mean) == (name, f"{best.method} {best.mean:.3g}")
            assert entry.best == best.ours
    assert (out / "summary.md").exists()


def test_one_of_ours_may_win_where_the_pilot_preferred_another(done):
    """The cell is bold, and says which one a user would have picked, and how that one stands."""
    _, result = done
    limit, found = next(each for each in result.standings if best_of(each[1]).ours)
    first, second = found[0], found[1]
    apart = second.against._replace(low=0.1, high=0.2)
    other = second._replace(method="other", ours=True, pilot=-1.0, mean=7.0, against=apart)
    entry = winner([first, other])
    assert (entry.best, entry.notes) == (True, "(other 7, outside)")
    preferred = "the pilot preferred other, outside its interval"
    assert list(clauses([(limit, [first, other])])) == [
        f"ours wins ({first.method}; {preferred}) at {limit.most:,.0f} {limit.what}"
    ]


def test_a_family_is_one_line_and_starts_are_not_drawn(done):
    _, result = done
    lines = family_lines([s for s in result.standings if s[0].what == "bits" and s[0].within is None])
    assert set(lines) == {"first", "served"}  # mezo sends nothing and has no rank
    assert all(not each.at_start for line in lines.values() for each in line)
    looks = family_styles([result])
    assert looks["first"]["linewidth"] > looks.get("served", {"linewidth": 0})["linewidth"]


def test_a_second_call_runs_nothing_and_gives_the_same_bytes(done, monkeypatch):
    from zocosmo.experiments import run as runner

    out, _ = done
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    monkeypatch.setattr(runner, "run_batch", None)
    compare(read(), out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_setting_that_diverged_after_the_limit_of_queries_is_out_there_too(done):
    out, result = done
    pilot = read_log(out / "bowl/pilot/log.parquet").rows.copy()
    limit = Limit("bits", 3000, 40)
    before = choose_all(pilot, result.contest, {"here": limit})["here"][0]
    last = pilot.index[pilot["method"] == before.candidate.name(before.setting)][-1]
    assert pilot.loc[last, "queries"] > 40 * 4
    pilot.loc[last, "diverged"] = True
    after = choose_all(pilot, result.contest, {"here": limit})["here"][0]
    assert (after.setting != before.setting, after.lost) == (True, 1)


def test_examples_are_queries_times_the_batch_unless_the_log_counts_them(undrawn, tmp_path):
    text = EACH.replace("{kind: quadratic, d: 8, zeta: 1.0}", "{kind: logistic, batch: 4, metric: accuracy}")
    result = compare(read(text), tmp_path)[0]
    found = list(standings(result, Limit("queries", 40)))
    assert {each.examples for each in found} == {160.0}
    assert "examples" in (tmp_path / "bowl/traits.md").read_text()
    best = best_of(dict(result.standings)[Limit("queries", 40)])
    assert best.mean == max(each.mean for each in found if each.rank is not None)
    counted = {
        name: final._replace(rows=final.rows.assign(examples=final.rows["queries"] * 7))
        for name, final in result.finals.items()
    }
    again = standings(result._replace(finals=counted), Limit("queries", 40))
    assert {each.examples for each in again} == {280.0}


def test_several_graphs_make_a_contest_each(undrawn, tmp_path):
    text = EACH.replace(
        "graph: {kind: ring, n: 4}", "graphs: {ring: {kind: ring, n: 4}, all: {kind: complete, n: 4}}"
    )
    found = compare(read(text), tmp_path)
    assert [r.contest.name for r in found] == ["bowl on ring", "bowl on all"]
    bits = [next(t.bits for t in r.traits if t.method == "cosmo") for r in found]
    assert bits == [2 * 64, 3 * 64]
    assert (tmp_path / "bowl on all/objective.md").exists()


@pytest.mark.parametrize(("growth", "rounds"), [(1.01, 500), (1.02, 12_800), (2.0, 100)])
def test_checkpoints_are_every_round_at_first_and_then_a_share_apart(growth, rounds):
    found = growing(growth, rounds)
    assert (found[0], found[-1]) == (1, rounds)
    gaps = [(b - a, a) for a, b in pairwise(found)]
    assert all(gap == 1 or gap <= (growth - 1) * a for gap, a in gaps)


BAD = {
    "growth: 1.2": ("growth: 1", "growth must be above 1, such as 1.02; got 1"),
    "growth: 1.2\n": ("growth: 1.2\nlog_every: 5\n", "growth replaces log_every; leave one of them out"),
    "most_queries: 60": ("most_queries: 39", "most_queries of bowl = 39 is below its queries = 40; raise it"),
    "at: each": ("at: every", "tune.at: input should be 'largest' or 'each', got 'every'"),
    "graph: {kind: ring, n: 4}": ("graphs: {}", "give one graph, or graphs by name"),
    "graph: {kind: ring": ("graph: {kind: rong", "unknown graph 'rong'"),
}


@pytest.mark.parametrize("old", BAD)
def test_mistakes_have_their_line(old):
    new, said = BAD[old]
    text = EACH.replace(old, new)
    with pytest.raises(ConfigError) as error:
        read(text)
    assert str(error.value).startswith(f"tiny.yaml:{line_of(text, new.splitlines()[0])}: ")
    assert said in str(error.value)


def test_a_mistake_in_one_of_several_graphs_has_its_line():
    text = EACH.replace(
        "graph: {kind: ring, n: 4}", "graphs:\n  a: {kind: ring, n: 4}\n  b: {kind: rung, n: 4}"
    )
    with pytest.raises(ConfigError) as error:
        read(text)
    assert str(error.value).startswith(f"tiny.yaml:{line_of(text, 'rung')}: unknown graph 'rung'")


def test_nothing_chosen_has_no_standing(undrawn, tmp_path):
    lost = EACH.replace("label: served}", "label: served, tune: {eta: [1.0e+3, 1.0e+6]}}")
    result = compare(read(lost.replace("rounds: 60", "rounds: 60\ndiverged_above: 1.0e+3")), tmp_path)[0]
    assert "served" not in {each.method for _, found in result.standings for each in found}
    assert math.isnan(next(c.mean for c in result.chosen if c.candidate.label == "served"))
