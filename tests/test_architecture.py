"""What docs/architecture.md says of a round is true: short walks, along functions that exist."""

import importlib
import re
import runpy
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST_HOPS = 12

walks = re.findall(r"^### (.+?)\n(.+?)(?=^##)", PAGE, re.M | re.S)


def find(name):
    """What a dotted name under zocosmo stands for: a module, then attributes of it."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(["zocosmo", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[cut:], module)
    raise AssertionError(f"there is no zocosmo.{name}")


def test_there_are_four_walks():
    assert len(walks) == 4


@pytest.mark.parametrize(("title", "text"), walks, ids=[title for title, _ in walks])
def test_a_walk_is_short_and_its_functions_exist(title, text):
    hops = re.findall(r"^\d+\. (.+)$", text, re.M)
    assert 8 <= len(hops) <= MOST_HOPS
    for hop in hops:
        names = re.findall(r"`([a-z_]+(?:\.\w+)+)`", hop)
        assert names, hop
        assert all(callable(find(name)) for name in names)


def test_the_picture_of_the_packages_is_that_of_the_source():
    drawn = runpy.run_path(str(ROOT / "docs" / "packages.py"))["picture"]()
    assert drawn == (ROOT / "docs" / "img" / "packages.svg").read_text(encoding="utf-8")
