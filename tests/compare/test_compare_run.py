import csv
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from compare.tiny import changed, read, with_method
from zocosmo.compare import compare
from zocosmo.compare import run as comparing
from zocosmo.compare.contest import Limit
from zocosmo.compare.winners import competing, ranked, standing, winners_grid
from zocosmo.errors import InputError
from zocosmo.experiments import run as runner
from zocosmo.log import read_log
from zocosmo.report.budget import Cell, cell, cells
from zocosmo.trace import FOLDER

SILENT = with_method("{kind: mezo}")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A comparison with a method that sends nothing, its folder, and what it found."""
    out = tmp_path_factory.mktemp("done")
    return out, compare(read(SILENT), out)[0]


def test_values_are_those_of_the_final_log(done):
    out, _ = done
    log = read_log(out / "bowl/final/log.parquet").rows.assign(problem="bowl")
    found = pd.read_csv(out / "cells.csv").query("equal == 'bits'").reset_index(drop=True)
    ours = pd.concat([cells(log, [bits]) for bits in (1000, 3000)], ignore_index=True)
    names = ["method", "mean", "std", "seeds", "diverged", "ended"]
    assert_frame_equal(found[names], ours[names], check_dtype=False, check_exact=True)


def test_workers_of_an_executor_give_the_same_files_and_figures_can_be_left_out(done, tmp_path):
    with ThreadPoolExecutor(2) as threads:
        compare(read(SILENT), tmp_path, executor=threads, figures=False)
    there, here = files_below(done[0]), files_below(tmp_path)
    assert set(there) - set(here) == set(comparing.FIGURES)
    assert here.items() <= there.items()


def files_below(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and FOLDER not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_equal_queries_are_the_last_checkpoint_that_asked_no_more(done):
    out, _ = done
    log = read_log(out / "bowl/final-queries/log.parquet").rows
    rows = log[(log["method"] == "cosmo") & (log["queries"] == 40 * 4)]
    found = pd.read_csv(out / "cells.csv").query("equal == 'queries' and method == 'cosmo'")
    assert list(found["mean"]) == [rows["objective"].mean()]
    assert list(found["rounds_max"]) == [20]


def test_for_equal_queries_the_same_pilot_chooses_once_more(undrawn, tmp_path):
    """5 rounds fit into 640 bits, and all 30 into 60 queries: a step that is best early is not best late."""
    text = changed("[1_000, 3_000]", "[640]").replace("queries: 40", "queries: 60")
    result = compare(read(text), tmp_path)[0]
    pilot = read_log(tmp_path / "bowl/pilot/log.parquet").rows.query("method.str.startswith('cosmo')")
    for what, t in (("bits", 5), ("queries", 30)):
        means = pilot[pilot["round"] == t].groupby("method", observed=True)["objective"].mean()
        chosen = result.finals[what].chosen[0]
        assert chosen.candidate.name(chosen.setting) == means.idxmin()
    assert result.finals["bits"].chosen[0].setting != result.finals["queries"].chosen[0].setting


def test_all_methods_were_tried_equally_often(done):
    """Runs of the pilot, by the method's own label; and nobody was tuned on the study's seeds."""
    out, _ = done
    log = read_log(out / "bowl/pilot/log.parquet").rows.drop_duplicates("trial")
    assert log["method"].str.split().str[0].value_counts().to_dict() == dict.fromkeys(
        ("cosmo", "edge_local", "served", "mezo"), 8
    )
    assert set(log["seed"]) == {"101", "102"}
    assert set(read_log(out / "bowl/final/log.parquet").rows["seed"]) == {"1", "2", "3"}


def test_the_choice_is_the_best_of_the_pilot_and_what_was_run(done):
    out, result = done
    log = read_log(out / "bowl/pilot/log.parquet").rows
    means = {
        name: cell(part, 3000, "objective").mean for name, part in log.groupby("method") if "served" in name
    }
    with (out / "settings.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["method"] == "served")
    assert f"served eta={row['eta']}" == min(means, key=means.get)
    plan = result.contest.final(result.chosen, (1,))
    assert [t.method.eta for t in plan.trials if t.labels[2] == "served"] == [float(row["eta"])]


def test_a_method_that_sends_nothing_is_marked_and_does_not_compete(done):
    out, result = done
    assert result.silent == {"mezo"}
    text = (out / "bowl/objective.md").read_text()
    assert "§ |" in text
    assert "§ sends nothing" in text
    assert "mezo" not in competing(result, Limit("bits", 3000))
    assert "mezo" not in (out / "field.svg").read_text()


def test_the_winner_has_the_least_mean_and_ours_are_told_apart_from_it(done):
    _, result = done
    found = competing(result, Limit("bits", 3000))
    best = min(found, key=lambda name: found[name].mean)
    grid = winners_grid([result])
    told = dict(grid.rows)["bowl, 3,000 bits"]
    assert told[0].number.mean == best
    assert grid.header == ["best", "without a server", "cosmo", "edge_local"]
    assert told[1].number.mean == min(("cosmo", "edge_local"), key=lambda name: found[name].mean)
    assert [entry.number.mean == "1/3 best" for entry in told[2:]] == [best == "cosmo", best == "edge_local"]


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ([1.0, 2.0], "2/2 +0.5 [+0.5, +0.5] behind"),
        ([-0.5, 2.7], "2/2 +0.1 [-1, +1.2] within"),
    ],
)
def test_within_is_an_interval_that_holds_0(ours, said):
    """Two pairs: the bootstrap's ends are the two differences."""
    seeds = {"a": dict(zip("12", ours, strict=True)), "b": {"1": 0.5, "2": 1.5}}
    found = {name: Cell(sum(values.values()) / 2, 0.0, values, 0, (1, 1)) for name, values in seeds.items()}
    assert standing(found, ranked(found, "objective"), "a", "objective") == said


@pytest.mark.parametrize(
    ("metric", "ranks"), [("objective", {"a": 1, "b": 1, "c": 3}), ("accuracy", {"a": 2, "b": 2, "c": 1})]
)
def test_equals_share_a_rank_and_whoever_lost_a_run_has_none(metric, ranks):
    means = {"a": 1.0, "b": 1.0, "c": 2.0, "lost": 0.5}
    found = {name: Cell(mean, 0.0, {"1": mean}, int(name == "lost"), (1, 1)) for name, mean in means.items()}
    assert ranked(found, metric) == ranks


def test_a_second_call_runs_nothing_and_gives_the_same_bytes(done, monkeypatch):
    out, _ = done
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    monkeypatch.setattr(runner, "run_batch", None)
    compare(read(SILENT), out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take longer than all runs of these tests."""
    monkeypatch.setattr(comparing, "draw_field", lambda results, to: None)


@pytest.mark.parametrize("stop", [2, 5, 8])
def test_a_comparison_that_was_stopped_goes_on_to_the_same_bytes(done, undrawn, tmp_path, monkeypatch, stop):
    """Stopped in the second of five batches of the pilot, in the last, and in the third of the study."""
    advance, begun = runner._advance, itertools.count(1)

    def stopped(*given):
        if next(begun) == stop:
            raise KeyboardInterrupt
        advance(*given)

    monkeypatch.setattr(runner, "_advance", stopped)
    with pytest.raises(KeyboardInterrupt):
        compare(read(SILENT), tmp_path)
    compare(read(SILENT), tmp_path)
    out, _ = done
    files = [Path(name) for name in files_below(out) if "field" not in Path(name).name]
    assert [p for p in files if (out / p).read_bytes() != (tmp_path / p).read_bytes()] == []


def test_another_config_needs_another_folder(done):
    with pytest.raises(InputError, match="another plan; choose another --out, or start over with --replace"):
        compare(read(), done[0])


def test_methods_of_which_no_setting_came_through_are_told(undrawn, tmp_path):
    text = changed(
        "{kind: decomfl, label: served}", "{kind: decomfl, label: served, tune: {eta: [1.0e+3, 1.0e+6]}}"
    )
    result = compare(read(text.replace("rounds: 30", "rounds: 30\ndiverged_above: 1.0e+3")), tmp_path)[0]
    assert [c.candidate.label for c in result.chosen if c.setting is None] == ["served"]
    assert "No setting came through: served." in (tmp_path / "bowl/objective.md").read_text()
    assert "served,decomfl,bits,,," in (tmp_path / "settings.csv").read_text()


def test_a_metric_that_a_problem_lacks_is_refused_before_anything_runs(tmp_path):
    text = changed("d: 8,", "d: 8, metric: accuracy,")
    with pytest.raises(InputError, match="metric 'accuracy' is not known"):
        compare(read(text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_accuracy_is_tuned_for_and_shown_beside_the_objective(undrawn, tmp_path):
    text = changed("{kind: quadratic, d: 8, zeta: 1.0}", "{kind: logistic, batch: 4, metric: accuracy}")
    result = compare(read(text), tmp_path)[0]
    assert {"accuracy.md", "objective.md"} <= {path.name for path in (tmp_path / "bowl").iterdir()}
    log = read_log(tmp_path / "bowl/pilot/log.parquet").rows
    means = {
        name: cell(part, 3000, "accuracy").mean for name, part in log.groupby("method") if "cosmo" in name
    }
    assert result.chosen[0].mean == max(means.values())
