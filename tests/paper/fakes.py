"""Two small items: one runs a config and finds of every kind, one needs a model. No number of the paper's."""

from fractions import Fraction

import pytest

from zocosmo.report.budget import cell
from zocosmo.report.figures import new_figure, save_figure
from zocosmo_paper import items, page, plans, run
from zocosmo_paper.claim import Printed, constant, figure, order, unknown
from zocosmo_paper.item import Findings, Item, Picture, Table

CONFIG = """\
# Small   [tab:small]
problem: {kind: quadratic, d: 4, zeta: 1.0}
graphs: [{kind: ring, n: 4}]
methods: [{kind: cosmo, q: 2, eta: 0.02, mu: 1.0e-3}, {kind: edge_local, q: 2, eta: 0.02, mu: 1.0e-3}]
seeds: [1, 2, 3]
rounds: 20
log_every: 10
"""
TITLE = "Small & <sound>"


def find_small(evidence):
    rows = evidence.logs["tab-small"]
    ends = {name: cell(rows[rows["method"] == name], None, "objective") for name in ("cosmo", "edge_local")}
    values = {name: end.values for name, end in ends.items()}
    claims = [
        figure("cosmo ends near 1", Printed(1.0, 9.0), values["cosmo"]),
        figure("cosmo ends at 7", Printed(7.0, 1e-9), values["cosmo"], diverged=1),
        order(
            "edge-local ends below 9", "below", values["edge_local"], dict.fromkeys(values["edge_local"], 9.0)
        ),
        constant("a third", "0.333", Fraction(1, 3)),
        unknown("a model learns", "80 %", "run: something else"),
    ]
    paper = ("(2.5 ± 1)e-3", "0.01 ± 0.1", "80.7K", "", "lower")
    cells = [(name, "1.0", f"{end.mean:.6f}") for name, end in ends.items()]
    cells += [(f"row {k}", text, "−2") for k, text in enumerate(paper)]
    table = Table("small", "Ends, small", ("method", "paper", "ours"), cells, "A note on <it>.")
    return Findings(claims, [table], [Picture("curve", "A line", "From 0 to 1 & back", draw)])


def draw(to):
    drawn, axes = new_figure(to, (3, 2))
    axes.plot([0, 1], [1, 0])
    save_figure(drawn, to)


SMALL = Item(
    "small",
    TITLE,
    ("tab:small",),
    "That things get smaller.",
    find_small,
    configs=("tab-small",),
    ours={"start": "the origin, since none is printed"},
    draws=True,
)
NEEDY = Item("needy", "Needy", ("fig:needy",), "More.", lambda evidence: Findings([]), needs="a model")
ITEMS = {item.name: item for item in (SMALL, NEEDY)}


@pytest.fixture
def small(monkeypatch):
    """The two items in place of the paper's."""
    for module in (items, run, page):
        monkeypatch.setattr(module, "all_items", lambda: ITEMS)
    for module in (plans, page):
        monkeypatch.setattr(module, "config_text", lambda name: CONFIG)
    return SMALL
