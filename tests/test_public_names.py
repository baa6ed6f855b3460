"""Public names: what __all__ lists is what can be imported, and what docs/reference.md describes."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import zocosmo

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"
MODULES = ["zocosmo", "zocosmo.core", "zocosmo.graphs"]


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


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_the_public_names_and_no_others(module):
    section = re.search(
        rf"^## `{re.escape(module)}`$(.*?)(?=^## |\Z)", REFERENCE.read_text(encoding="utf-8"), re.M | re.S
    )
    listed = re.findall(r"^\| `(\w+)`", section.group(1), re.M)
    assert listed == sorted(importlib.import_module(module).__all__)


def test_the_errors_listed_are_the_errors_there_are():
    errors = importlib.import_module("zocosmo.errors")
    section = re.search(
        r"^## `zocosmo.errors`$(.*?)(?=^## |\Z)", REFERENCE.read_text(encoding="utf-8"), re.M | re.S
    )
    there = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert set(re.findall(r"^\| `(\w+)`", section.group(1), re.M)) == there


def test_importing_brings_in_no_heavy_library():
    heavy = "{'torch', 'matplotlib', 'networkx', 'scipy', 'typer'}"
    code = f"import sys, zocosmo; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
