"""A comparison that takes a second: three methods, a dozen runs each, and one of them with a server."""

import re

from zocosmo.compare.config import read_comparison
from zocosmo.compare.contest import Candidate
from zocosmo.experiments.config import Config

TINY = """\
problems:
  bowl: {kind: quadratic, d: 8, zeta: 1.0}
graph: {kind: ring, n: 4}
rounds: 30
log_every: 5
budgets: [1_000, 3_000]
queries: 40
mu: 1.0e-3
seeds: [1, 2, 3]
tune: {seeds: [101, 102], settings: 4, eta: [1.0e-3, 0.1]}
methods:
  - {kind: cosmo, q: 2}
  - {kind: edge_local, q: 2, tune: {coupling: [G, I]}}
  - {kind: decomfl, label: served}
"""


def changed(old, new):
    """The config with one line, or a part of it, replaced."""
    assert old in TINY
    return TINY.replace(old, new)


def with_method(entry):
    """The config with one more method."""
    return f"{TINY}  - {entry}\n"


def read(text=TINY):
    return read_comparison(Config(text, "tiny.yaml"), "tiny")


def line_of(text, part):
    """The number of the first line that holds `part`."""
    return next(k for k, line in enumerate(text.splitlines(), 1) if re.search(re.escape(part), line))


def candidate(*etas, label="m", **lists):
    """A candidate as a config would make it, with one list beside eta at most."""
    rest = [{key: value} for key, values in lists.items() for value in values] or [{}]
    return Candidate(
        label, "cosmo", 0, {}, tuple({"eta": eta, **each} for eta in etas for each in rest), etas
    )
