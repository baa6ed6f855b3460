"""Public names: what __all__ lists is what can be imported. test_docs.py holds docs/reference.md to it."""

import importlib
import subprocess
import sys

import pytest

import zocosmo

MODULES = [
    "zocosmo",
    "zocosmo.core",
    "zocosmo.graphs",
    "zocosmo.methods",
    "zocosmo.problems",
    "zocosmo.sim",
    "zocosmo.dist",
    "zocosmo.torch",
    "zocosmo.llm",
    "zocosmo.theory",
    "zocosmo.planner",
    "zocosmo.checks",
    "zocosmo_paper",
]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_can_be_imported(module):
    loaded = importlib.import_module(module)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []
    assert sorted(set(loaded.__all__)) == sorted(loaded.__all__)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_else_is_public(module):
    loaded = importlib.import_module(module)
    own = {
        n for n, value in vars(loaded).items() if not n.startswith("_") and type(value).__name__ != "module"
    }
    assert own <= set(loaded.__all__)


def test_the_root_stays_small():
    assert len(zocosmo.__all__) <= 40


def test_importing_brings_in_no_heavy_library():
    names = ("torch", "transformers", "peft", "matplotlib", "networkx", "scipy", "pandas", "pyarrow")
    heavy = {*names, "pydantic", "sklearn", "typer"}
    code = f"import sys, zocosmo; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
