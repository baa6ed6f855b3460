"""The placement audit finds nothing where there is nothing, and something where there is."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from typer.testing import CliRunner  # noqa: E402

from llm.tiny import tiny_folder  # noqa: E402
from zocosmo.cli import app  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.experiments.plan import load_plan  # noqa: E402
from zocosmo.llm.subject import open_subject  # noqa: E402
from zocosmo_paper import audit as module  # noqa: E402
from zocosmo_paper.audit import audit  # noqa: E402

STUDY = """\
problem:
  {kind: llm, task: toy, device: cpu, threads: 1, queries: one_by_one, batch: 2, max_tokens: 24,
   train_rows: 40, validation_rows: 9}
graphs: [{kind: ring, n: 4}]
methods:
  - {kind: cosmo, q: 64, eta: 1.0e-3, mu: 1.0e-2, beta: 0.9}
  - {kind: edge_local, q: 64, eta: 1.0e-3, mu: 1.0e-2, beta: 0.9, codec: [values, indexed]}
seeds: [1]
rounds: 4
dtype: float32
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    yield tiny_folder(tmp_path_factory.mktemp("tiny"))
    open_subject.cache_clear()


@pytest.fixture
def study(tmp_path, model):
    def load(*overrides):
        path = tmp_path / "study.yaml"
        path.write_text(STUDY)
        return load_plan(path, overrides=[f"problem.model={model}", *overrides])

    return load


def nudged(subject):
    """A copy of the backbone one of whose weights is not the same."""
    twin = copied(subject)
    with torch.no_grad():
        next(iter(twin.backbone.model.parameters())).mul_(1.001)
    return twin


copied = module.copied


def test_every_trajectory_is_the_same_in_all_four_runs(study):
    found = list(audit(study("problem.dtype=bfloat16")))
    assert [verdict.run for verdict in found] == ["one copy", "2 copies", "again", "measured at 2"] * 2
    assert all(verdict.is_equal for verdict in found)
    assert {verdict.queries for verdict in found} == {2 * 4 * 4}  # sides, nodes, rounds
    assert len({verdict.states for verdict in found}) == 2  # one for each method


def test_idle_nodes_are_placed_too(study):
    found = list(audit(study("graphs=[{kind: ring, n: 5}]", "methods.0.q=32"), rounds=3))
    assert all(verdict.is_equal for verdict in found)
    assert found[4].queries < 2 * 5 * 3  # of five nodes one has no partner


def test_a_copy_that_differs_is_found(study, monkeypatch):
    monkeypatch.setattr(module, "copied", nudged)
    verdicts = {verdict.run: verdict for verdict in list(audit(study()))[:4]}
    assert [name for name, verdict in verdicts.items() if not verdict.is_equal] == ["2 copies"]
    two = verdicts["2 copies"]
    assert two.states_differ
    assert two.queries_differ >= 16  # all answers of the nodes on the second copy
    assert "objective at 4" in two.measures_differ


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("problem.queries=fused", "one_by_one"),
        (
            "problem={kind: quadratic, d: 100}",
            "an audit needs adapters of a language model, got quadratic",
        ),
        ("graphs=[{kind: path, n: 1}]", "2 copies need at least as many nodes, got 1"),
        ("rounds=1", "rounds must be 2 or more"),
    ],
)
def test_what_cannot_be_audited_is_refused(tmp_path, model, override, says):
    (tmp_path / "study.yaml").write_text(STUDY.replace("edge_local", "cosmo"))
    given = [f"problem.model={model}", "methods.1.eta=1e-4", override]
    with pytest.raises(InputError, match=says):
        list(audit(load_plan(tmp_path / "study.yaml", overrides=given)))


def test_the_command_prints_a_table_and_its_exit_code_says_it(tmp_path, model, monkeypatch):
    (tmp_path / "study.yaml").write_text(STUDY)
    line = ["audit", str(tmp_path / "study.yaml"), "--rounds", "2", "--set", f"problem.model={model}"]
    good = CliRunner().invoke(app, line)
    assert (good.exit_code, good.output.splitlines()[-1]) == (0, "all equal to the bit")
    monkeypatch.setattr(module, "copied", nudged)
    bad = CliRunner().invoke(app, [*line, "--json"])
    assert (bad.exit_code, json.loads(bad.output)["equal"]) == (1, False)


def test_the_config_of_the_audit_is_there():
    assert (Path(__file__).parents[2] / "configs" / "model" / "placement_audit.yaml").exists()
