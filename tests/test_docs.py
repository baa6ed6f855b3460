"""Every code block in README and docs runs: `python` page by page, `console` typed and compared."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return [
        (text[: m.start()].count("\n") + 2, m.group(2))
        for m in FENCE.finditer(text)
        if m.group(1) == language
    ]


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page):
    names = {"__name__": "__docs__"}
    for line, source in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + source, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks_print_what_they_show(page, tmp_path):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for _, block in blocks(page, "console"):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            result = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
            )
            printed = [line.rstrip() for line in (result.stdout + result.stderr).splitlines()]
            assert "\n".join(printed).strip() == shown.strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_block_escapes_the_tests(page):
    """`text` is for what is neither typed nor executed; other languages would go unchecked."""
    text = page.read_text(encoding="utf-8")
    found = [m.group(1) for m in FENCE.finditer(text)]
    assert set(found) <= {"python", "console", "text"}
    assert 2 * len(found) == len(re.findall(r"^\s*```", text, re.M))


def test_blocks_are_found_where_there_are_some():
    assert len(blocks(ROOT / "README.md", "python")) == len(blocks(ROOT / "README.md", "console")) == 1


@pytest.mark.parametrize("page", ["reference.md", "commands.md"])
def test_generated_pages_are_current(page):
    """Stale? make generated"""
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == generator().PAGES[page]()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
