"""Pair invariance, momentum moments and convergence bounds: they agree, and stop agreeing when changed."""

import pytest

from zocosmo.checks import check_plans, guarantees, run
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.theory import bounds, momentum

TEXT = """
problem: {{kind: quadratic, d: 6, omega: 0.5, zeta: 2.0, sigma: {sigma}}}
graphs: [{graph}]
methods: [{method}]
seeds: [3]
rounds: 30
"""
PAIRS = "{kind: edge_local, coupling: S, q: 2, eta: 0.02, mu: 1.0e-3, beta: 0.9}"
COSMO = "{kind: cosmo, q: 2, eta: 1.0e-3, mu: 1.0e-3}"
RING = "{kind: ring, n: 6, schedule: iid}"


def verdicts(monkeypatch, check, method=PAIRS, graph=RING, sigma=0.5, tapes=200):
    monkeypatch.setattr(run, "CHECKS", (check,))
    text = TEXT.format(method=method, graph=graph, sigma=sigma)
    return {row.verdict for row in check_plans([read_plan(Config(text, "small"), "small")], tapes)}


@pytest.mark.parametrize(
    ("check", "setting"),
    [
        (guarantees.INVARIANCE, {}),
        (guarantees.INVARIANCE, {"graph": "{kind: star, n: 5}"}),
        (guarantees.STORED, {}),
        (guarantees.STORED, {"method": PAIRS.replace("beta: 0.9", "beta: 0")}),
        (guarantees.CORE, {"method": COSMO}),
        (guarantees.MOMENTUM, {}),
        (guarantees.MOMENTUM, {"graph": "{kind: ring, n: 6}"}),
    ],
)
def test_theory_and_code_agree(monkeypatch, check, setting):
    assert verdicts(monkeypatch, check, **setting) == {"agrees"}


def test_wrong_moments_are_found(monkeypatch):
    real = momentum.momentum_moments
    wrong = lambda *a, **k: real(*a, **{**k, "beta": 0.8})  # noqa: E731
    monkeypatch.setattr(momentum, "momentum_moments", wrong)
    assert "disagrees" in verdicts(monkeypatch, guarantees.STORED)


@pytest.mark.parametrize(
    ("name", "check", "method"),
    [("core_bound", guarantees.CORE, COSMO), ("momentum_bound", guarantees.MOMENTUM, PAIRS)],
)
def test_a_bound_that_is_too_low_is_found(monkeypatch, name, check, method):
    real = getattr(bounds, name)
    monkeypatch.setattr(bounds, name, lambda *a, **k: real(*a, **k).at(10**9))
    low = bounds.Regime.M2
    monkeypatch.setattr(bounds.Regime, "M2", lambda self, mu: 1e-9 * low(self, mu))
    assert verdicts(monkeypatch, check, method, sigma=0.0) == {"disagrees"}


def test_mixing_that_changes_an_update_is_found(monkeypatch):
    from zocosmo.channel import Channel

    real = Channel.mix_pairs
    monkeypatch.setattr(Channel, "mix_pairs", lambda self, y, *a, **k: 1.5 * real(self, y, *a, **k))
    assert verdicts(monkeypatch, guarantees.INVARIANCE) == {"disagrees"}


@pytest.mark.parametrize(
    ("check", "method"),
    [
        (guarantees.CORE, COSMO.replace("1.0e-3,", "0.9,", 1)),
        (guarantees.CORE, PAIRS),
        (guarantees.STORED, COSMO),
    ],
)
def test_what_a_theorem_does_not_cover_is_said(monkeypatch, check, method):
    assert verdicts(monkeypatch, check, method) == {"not applicable"}
