"""The committed results: what the page says of them is what the script computes from the logs."""

import importlib.util
from pathlib import Path

import pytest

from zocosmo.log import read_log
from zocosmo_paper import small_models

ROOT = Path(__file__).parents[1]
LOGS = sorted((ROOT / "results" / "small-models").glob("*.csv"))


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "results" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def logs():
    return script("verdicts").LOGS


@pytest.mark.parametrize("name", ["field", "field-details"])
def test_the_pages_of_the_field_show_what_the_comparisons_wrote(name):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    field = script("field")
    field.check_marks()
    assert field.filled(page) == page


def test_the_page_of_the_second_generation_shows_what_the_comparison_wrote():
    page = (ROOT / "docs" / "second.md").read_text(encoding="utf-8")
    assert script("second").filled(page) == page
    assert script("second")._short("(8.0 ± 1.5)e-4 †") == "8.0e-4"


def test_a_new_comparison_replaces_all_that_the_pages_show(tmp_path, monkeypatch):
    """Two problems at two limits; the page is then one screen of text."""
    field, run = script("field"), tmp_path / "run"
    files = {
        "summary.md": "| s |\n",
        "verdicts.md": "- v\n",
        "winners.md": "w\n",
        "digits/accuracy.md": "| a |\n",
    }
    for name, text in {
        **files,
        "digits/accuracy-within-queries.md": "| b |\n",
        "field.svg": "<svg/>",
    }.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(text, encoding="utf-8")
    (tmp_path / "field/quadratic").mkdir(parents=True)
    (tmp_path / "field/quadratic/objective.md").write_text("| old |\n", encoding="utf-8")
    monkeypatch.setattr(field, "FIELD", tmp_path / "field")
    monkeypatch.setattr(field, "MANY", tmp_path / "many")
    field.take(run, field.FIELD, tmp_path / "field.svg")
    field.take(run, field.MANY, tmp_path / "field-64.svg")
    found = field.sections()
    assert (found["summary"], found["verdicts"]) == ("| s |\n", "- v\n")
    assert "With 64 nodes" in found["summary 64"]
    assert ["| a |" in found["tables"], "| b |" in found["tables"], "old" in found["tables"]] == [1, 1, 0]
    page = field.filled((ROOT / "docs" / "field.md").read_text(encoding="utf-8"))
    assert "earlier rule" not in page
    assert "<!-- summary -->\n| s |\n<!-- end -->\n" in page


@pytest.mark.parametrize("metric", ["accuracy", "objective"])
def test_cells_of_the_field_on_a_model_are_those_of_its_log(metric):
    """Of each method at 100 Mbit: mean and std of the log's rows, as the table has them."""
    from zocosmo.report.budget import cell
    from zocosmo.report.tables import rounded

    folder = ROOT / "results" / "field-smollm2"
    log, table = read_log(folder / "final.csv").rows, (folder / f"{metric}.md").read_text(encoding="utf-8")
    shown = {row.split("|")[1].split()[0]: row.split("|")[4] for row in table.splitlines()[2:13]}
    for method, part in log.groupby("method", observed=True):
        found = cell(part, 100_000_000, metric)
        mean, std, _ = rounded(found.mean, found.std, 2)
        assert f"{mean} ± {std}" in shown[str(method)]


def test_the_page_shows_what_the_logs_say(logs):
    page = (ROOT / "docs" / "model-results.md").read_text(encoding="utf-8")
    assert f"<!-- verdicts -->\n{logs.tables()}<!-- end -->\n" in page


@pytest.mark.parametrize(
    ("name", "cut"), [("sst2-core", "5 of 5, to 0.125"), ("sst2-s", "0 of 5"), ("sst2-i-large", "–")]
)
def test_runs_whose_step_the_guard_has_cut_are_counted(logs, name, cut):
    assert small_models.cut(logs.rows(name)) == cut


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_is_of_the_config_of_its_name(path):
    import yaml

    config = yaml.safe_load(
        (ROOT / "configs" / "small-models" / f"{path.stem}.yaml").read_text(encoding="utf-8")
    )
    kept = read_log(path).header["config"]
    assert {key: kept[key] for key in ("problem", "graphs", "methods", "rounds")} == {
        key: config[key] for key in ("problem", "graphs", "methods", "rounds")
    }


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_round_cost_what_the_formula_says(path, logs):
    """q values of 32 bits to each peer: one in a pair, two on a ring."""
    rows = logs.rows(path.stem)
    links = 2 if "global" in path.stem else 1
    assert (rows["bits"] == rows["round"] * links * 8192 * 32).all()
