"""The picture of docs/mixing.md, and the runs that its dots come from."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from zocosmo.theory.law import ring_law
from zocosmo.theory.repeated import energy_path

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def figure():
    spec = importlib.util.spec_from_file_location("mixing_figure", DOCS / "mixing.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figure_is_drawn_and_the_one_in_the_docs_is_small(figure, tmp_path, monkeypatch):
    monkeypatch.setattr(figure, "TAPES", 4)
    figure.mixing_figure(tmp_path / "mixing.png")
    assert (tmp_path / "mixing.png").stat().st_size > 10_000
    assert (DOCS / "img" / "mixing.png").stat().st_size <= 80 * 1024


def test_dots_lie_on_lines(figure):
    """z of the last round from its own variance over 100 tapes."""
    x = np.outer(np.arange(figure.N), np.ones(figure.D))
    seen = figure.simulated_energy("I", x)[-1]
    line = energy_path(x, ring_law(figure.N), figure.ROUNDS, q=figure.Q, common=False)[-1]
    assert abs(seen.mean() - line) < 4 * seen.std(ddof=1) / figure.TAPES**0.5
