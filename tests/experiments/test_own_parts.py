"""Users' own methods, graphs and wires, by module:name and through entry points."""

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

from zocosmo import minimize
from zocosmo.core.wires import WIRES
from zocosmo.entries import Table
from zocosmo.errors import InputError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.graphs import GRAPHS
from zocosmo.methods import METHODS
from zocosmo.sim import Simulation

PAGE = (Path(__file__).parents[2] / "docs" / "own-parts.md").read_text(encoding="utf-8")
STUDY = next(block for block in re.findall(r"```text\n(.*?)```", PAGE, re.S) if "problem:" in block)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The module of the page, in the current folder."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    parts = "\n".join(block for block in blocks if "minimize" not in block)
    (tmp_path / "mine.py").write_text(parts, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mine", None)
    for table in (METHODS, GRAPHS, WIRES):
        table._found.clear()


def plan_of(text):
    return read_plan(Config(text, "own.yaml"), "own")


def test_the_page_s_method_is_twenty_lines():
    source = next(
        block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "SignStep(Sparse)" in block
    )
    body = source[source.index("@dataclass") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20


def test_the_page_s_study_runs(mine):
    plan = plan_of(STUDY)
    sim = Simulation([plan.trials[0].run()], wire=plan.wire)
    for _ in range(3):
        sim.round()
    assert plan.trials[0].method.kind == "sign_step"
    assert (plan.trials[0].graph_of().name, plan.wire) == ("chords", "mine:Thirds")
    assert sim.checkpoint().bits["values"][0].sum() > 0


def test_a_name_does_for_minimize(mine):
    result = minimize(
        lambda x: float(x @ x), [1.0] * 4, n=3, method="mine:SignStep", rounds=5, q=1, eta=0.1, mu=0.1
    )
    assert result.method.kind == "sign_step"
    suggested = minimize(lambda x: float(x @ x), [1.0] * 4, n=3, method="mine:SignStep", rounds=200)
    assert suggested.fun < 1.0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("mine:SignStep", "mine:Nothing", "module 'mine' has no 'Nothing'"),
        ("mine:SignStep", "nowhere:Step", "no module 'nowhere'"),
        ("mine:SignStep", "mine:chords", "mine:chords is no method; give a frozen dataclass"),
        ("mine:chords", "mine:SignStep", "is no graph; give a function of n"),
        ("mine:Thirds", "mine:chords", "is no wire; give a class under"),
        ('entry: "mine:SignStep", ', "", "lacks 'entry', such as entry: mine:SignStep"),
        ("mine:SignStep", "SignStep", "entry must be module:name, got 'SignStep'"),
        ("hop: 3", "hops: 3", "unknown key 'hops'"),
    ],
)
def test_mistakes_are_refused_with_their_line(mine, old, new, words):
    with pytest.raises(InputError) as caught:
        plan_of(STUDY.replace(old, new))
    assert words in str(caught.value)
    assert str(caught.value).startswith("own.yaml:")


def test_installed_packages_offer_parts_by_name(mine, monkeypatch):
    entry = importlib.metadata.EntryPoint("sign_step", "mine:SignStep", "zocosmo.methods")
    sys.path.insert(0, str(mine))

    def entry_points(*, group, name):
        return [entry] if (group, name) == (entry.group, entry.name) else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert "sign_step" in METHODS
    assert METHODS["sign_step"].kind == "sign_step"
    assert "sign_step" not in list(METHODS)
    assert "other" not in METHODS


def test_a_package_that_cannot_be_loaded_is_named(monkeypatch):
    broken = importlib.metadata.EntryPoint("gone", "no_such_module:X", "some.group")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group, name: [broken])
    with pytest.raises(
        InputError, match=r"gone of an unknown package cannot be loaded \(ModuleNotFoundError"
    ):
        Table({}, "some.group", lambda name, found: found)["gone"]
