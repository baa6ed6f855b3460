"""Items run: what is written, the same again and after a stop, and the order of the board."""

import csv
import json
from dataclasses import replace

import pytest
from fakes import ITEMS, NEEDY, SMALL, small  # noqa: F401

from zocosmo.errors import InputError
from zocosmo.experiments import run as studies
from zocosmo_paper import reproduce, run
from zocosmo_paper.board import all_claims, board, counts
from zocosmo_paper.item import Findings
from zocosmo_paper.page import write_page
from zocosmo_paper.plans import config_text, load_config
from zocosmo_paper.run import COLUMNS, How, load_plans, pick

pytestmark = pytest.mark.usefixtures("small")


def written(out):
    """All files but manifests, which have the time in them."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", ".lock")
    }


def test_an_item_writes_logs_tables_figures_and_verdicts(tmp_path):
    reproduce(["small"], tmp_path)
    kinds = {f"small/small{suffix}" for suffix in (".md", ".csv", ".tex")}
    kinds |= {f"small/curve{suffix}" for suffix in (".png", ".svg", ".pdf")}
    assert (
        set(written(tmp_path))
        == {"headline.csv", "verdicts.csv", "small/tab-small/log.parquet", "small/tab-small/plan.json"}
        | kinds
    )


def test_verdicts_have_a_line_for_each_claim(tmp_path):
    reproduce(["small"], tmp_path, seeds=2)
    rows = list(csv.DictReader((tmp_path / "verdicts.csv").read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert [row["verdict"] for row in rows] == ["within", "no", "ordering", "within", "not run"]
    assert {row["command"] for row in rows} == {"zocosmo reproduce small --seeds 2"}


def test_the_same_seeds_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_page(tmp_path / name, reproduce(["small"], tmp_path / name, processes=1 + (name == "b")))
    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_other_seeds_give_other_tables(tmp_path):
    for seeds in (2, 4):
        reproduce(["small"], tmp_path / str(seeds), seeds=seeds)
    assert written(tmp_path / "2")["small/small.csv"] != written(tmp_path / "4")["small/small.csv"]


def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    reproduce(["small"], whole)

    def stop(item, doing, progress):
        if doing == "tables and figures":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(["small"], tmp_path / "stopped", tick=stop)
    manifest = (tmp_path / "stopped/small/manifest.json").read_bytes()
    monkeypatch.setattr(studies, "run_batch", None)  # nothing is left to run
    reproduce(["small"], tmp_path / "stopped", resume=True)
    assert written(tmp_path / "stopped") == written(whole)
    assert (tmp_path / "stopped/small/manifest.json").read_bytes() == manifest


def test_the_manifest_is_there_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "run_plan", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reproduce(["small"], tmp_path)
    found = json.loads((tmp_path / "small/manifest.json").read_text())
    assert found["configs"]["tab-small"]["config"]["rounds"] == 20
    assert {"begun", "source", "versions", "ours", "labels"} <= set(found)


def test_a_damaged_manifest_is_written_anew(tmp_path):
    reproduce(["small"], tmp_path)
    (tmp_path / "small/manifest.json").write_text("{")
    reproduce(["small"], tmp_path, resume=True)
    assert json.loads((tmp_path / "small/manifest.json").read_text())["item"] == "small"


def test_all_leaves_out_what_needs_a_model():
    assert pick(["all"]) == [SMALL]
    assert pick(["all"], model=True) == pick(["all", "needy"]) == [SMALL, NEEDY]


def test_an_unknown_item_is_refused_with_those_there_are():
    with pytest.raises(InputError, match="item 'large' is not known; choose from all, small, needy"):
        pick(["small", "large"])


def test_seeds_begin_with_the_first_of_the_config():
    assert load_config("tab-small", 5).config["seeds"] == [1, 2, 3, 4, 5]
    assert load_config("tab-small", None).config["seeds"] == [1, 2, 3]


def test_settings_reach_models_studies_only():
    assert load_config("model/x", None, ["rounds=40"]).last == 40
    assert load_config("tab-small", None, ["rounds=40"]).last == 20


def test_what_needs_a_model_runs_nothing_without_one():
    needy = replace(SMALL, needs="a model", configs=("model/x",))
    assert load_plans(needy, How(None, False, 1, ["rounds=40"])) == {}


def test_the_board_has_what_does_not_hold_first(tmp_path):
    results = reproduce(["small"], tmp_path)
    verdicts = [line.claim.verdict for line in board(results)]
    assert verdicts == ["no", "not run", "ordering", "within", "within"]
    assert counts(all_claims(results)) == {"within": 2, "ordering": 1, "no": 1, "not run": 1}


def test_a_config_that_only_a_clone_has_is_asked_for_in_words(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"configs/model/absent.yaml was not found; run this in a clone"):
        config_text("model/absent")


def test_an_item_without_findings_is_no_mistake(tmp_path):
    assert [result.findings for result in reproduce(["needy"], tmp_path)] == [Findings([])]
    assert ITEMS["needy"].needs == "a model"
