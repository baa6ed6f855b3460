"""The tutorials: each notebook is its page, and prints what the page shows when its cells are run."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from notebook_cells import run_cells

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def notebooks():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells_of(name, folder):
    text = (ROOT / "docs" / "tutorials" / f"{name}.ipynb").read_text(encoding="utf-8")
    return run_cells(json.loads(text), folder)


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


def test_there_is_one_for_each_kind_of_user():
    assert [page.stem for page in PAGES] == ["compare", "language-model", "rigs"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_says_what_its_page_says(page):
    """Stale? make generated"""
    made = notebooks().notebook(page.read_text(encoding="utf-8"))
    assert page.with_suffix(".ipynb").read_text(encoding="utf-8") == made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_one(page):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(page.with_suffix(".ipynb"), as_version=4))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_a_cell_or_for_reading(page):
    text = page.read_text(encoding="utf-8")
    cells = json.loads(notebooks().notebook(text))["cells"]
    commands = re.findall(r"^\$ ", text, re.M)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == len(re.findall(r"^```python$", text, re.M)) + len(commands)
    assert set(re.findall(r"^```(\w+)$", text, re.M)) <= {"python", "console", "text"}


@pytest.mark.parametrize("name", ["rigs", "compare"])
def test_cells_print_what_the_page_shows(name, tmp_path):
    for source, shown, printed in cells_of(name, tmp_path):
        assert lines(printed) == lines(shown), source


@pytest.mark.slow
def test_a_language_model_is_tuned_as_the_page_shows(tmp_path):
    """Words and layout; digits of a loss may differ between builds of torch."""
    pytest.importorskip("peft")
    for source, shown, printed in cells_of("language-model", tmp_path):
        assert re.sub(r"\d", "#", "\n".join(lines(printed))) == re.sub(r"\d", "#", "\n".join(lines(shown))), (
            source
        )
    found = (tmp_path / "runs" / "reviews" / "adapter" / "adapter_model.safetensors").stat().st_size
    assert found > 2048 * 4
