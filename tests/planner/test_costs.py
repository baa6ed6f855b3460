"""Rows of the plan: the paper's multipliers, the ledger of real runs, and a clock read round by round."""

import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo import Tape
from zocosmo.errors import InputError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.graphs import GRAPHS, complete, ring, star
from zocosmo.methods import METHODS as KINDS
from zocosmo.planner import Deployment, crossover, network, pairing, rows
from zocosmo.planner.costs import METHODS
from zocosmo.theory.coverage import expected_coverage
from zocosmo.theory.payload import marina_total

LORA, FULL, Q = 2_523_136, 6_525_621_760, 8192
QWEN = Deployment(
    d=LORA, bandwidth=10**8, latency=Fraction(1, 50), query_time=Fraction(1, 2), budget=403_701_760
)
SMALL = dataclasses.replace(QWEN, d=24, period=3, budget=20_000)

STUDY = """\
problem: {{kind: quadratic, d: 24}}
graphs: {graphs}
methods:
  - {{kind: cosmo, q: 5, eta: 0.01, mu: 0.001, codec: [values, indexed]}}
  - {{kind: edge_local, q: {sizes}, eta: 0.01, mu: 0.001}}
  - {{kind: flood, eta: 0.01, mu: 0.001}}
  - {{kind: dense, eta: 0.01, mu: 0.001}}
{more}
seeds: [1]
rounds: 6
log_every: 6
"""
MARINA = "  - {kind: marina_type, q: 5, eta: 0.01, mu: 0.001, period: 3}"
NAMES = {
    ("cosmo", "values"): "cosmo",
    ("cosmo", "indexed"): "cosmo indexed",
    ("edge_local", "values"): "edge_local",
    ("flood", "seed_scalar"): "flood",
    ("dense", "dense"): "dense",
    ("marina_type", "indexed"): "marina_type",
}


def bills(kind, sizes, q="5", more=""):
    """Of real runs of 6 rounds: payload of the whole network by (nodes, method of the plan, q)."""
    graphs = "[" + ", ".join(f"{{kind: {kind}, n: {n}}}" for n in sizes) + "]"
    plan = read_plan(Config(STUDY.format(graphs=graphs, sizes=q, more=more), "study.yaml"), "study")
    log = run_plan(plan).rows
    last = log[log["round"] == 6].set_index("trial")
    paid = last[["value_bits", "index_bits", "control_bits"]].sum(axis=1)
    keys = {
        trial.number: (
            trial.graph_of().n,
            NAMES[trial.method.kind, trial.method.codec],
            getattr(trial.method, "q", 5),
        )
        for trial in plan.trials
    }
    return {keys[number]: int(bits) for number, bits in paid.items()}


def planned(setting, graph, q):
    net, pairs = network(graph), pairing(graph, "auto", Tape(0))
    return {row.method: row for row in rows(setting, q, net, pairs)}


@pytest.mark.parametrize(
    ("kind", "sizes"), [("complete", [2, 3, 4, 5, 8]), ("ring", [2, 4, 5, 6]), ("star", [4])]
)
def test_bits_are_those_that_the_ledger_of_a_run_has(kind, sizes):
    """Six rounds are two cycles of the MARINA-type, which needs a complete graph; maximal matchings of a ring
    of 5 are all of 2 pairs, those of a star of one."""
    found = bills(kind, sizes, more=MARINA if kind == "complete" else "")
    assert len(found) == len(sizes) * (6 if kind == "complete" else 5)
    for (n, method, _), bits in found.items():
        assert bits == 6 * n * planned(SMALL, GRAPHS[kind](n), 5)[method].bits


@pytest.mark.parametrize("kind", ["ring", "complete"])
def test_the_crossover_is_where_simulated_floods_begin_to_cost_more(kind):
    """Nodes 2, 4, … 14, so that all are paired: the first at which the flood's bill is larger."""
    sizes, supports = range(2, 15, 2), [1, 3, 5, 6, 7, 9, 12, 13, 20, 24]
    found = bills(kind, sizes, q=str(supports))
    for q in supports:
        first = next(n for n in sizes if found[n, "flood", 5] > found[n, "edge_local", q])
        cross = crossover(SMALL, q, GRAPHS[kind](2)).bits
        assert first == cross + cross % 2


@pytest.mark.parametrize(
    ("d", "indexed", "marina"), [(LORA, "1.69", "13.94"), (FULL, "2.03", "3.19e+04")], ids=["LoRA", "full"]
)
def test_the_multipliers_of_the_paper(d, indexed, marina):
    """One message against q values, with a dense round in 25."""
    found = planned(dataclasses.replace(QWEN, d=d), complete(2), Q)
    assert f"{float(found['cosmo indexed'].link_ratio):.2f}" == indexed
    assert f"{float(found['marina_type'].link_ratio):{'.2f' if d == LORA else '.2e'}}" == marina
    assert found["cosmo"].link_ratio == found["edge_local"].link_ratio == 1


def test_the_long_study_of_the_paper():
    """403.702 Mbit: 1540 rounds of values and 912 of indexed ones, exposure 5 and coverage 99.33 %."""
    found = planned(QWEN, ring(4), Q)
    pairs = found["edge_local"]
    assert (pairs.rounds, pairs.exposure, f"{pairs.coverage:.2%}") == (1540, 5, "99.33%")
    assert pairs.coverage == pytest.approx(float(expected_coverage(LORA, Q, 1540)), rel=1e-12)
    assert planned(QWEN, complete(2), Q)["cosmo indexed"].rounds == 912


def test_a_first_dense_message_above_the_budget_pays_no_round():
    row = planned(dataclasses.replace(QWEN, budget=80_740_351), complete(2), Q)["marina_type"]
    assert (row.rounds, row.total_bits, row.total_seconds, row.exposure, row.coverage) == (0, 0, 0, 0, 0.0)


@pytest.mark.parametrize("graph", [ring(8), complete(5), star(6)], ids=str)
def test_budgets_are_kept_and_not_by_a_round_too_many(graph):
    for row in planned(SMALL, graph, 5).values():
        assert row.total_bits <= SMALL.budget
        if row.method != "marina_type":
            assert row.total_bits + row.bits > SMALL.budget
            assert row.total_seconds == row.rounds * row.seconds


def test_refreshed_rounds_are_timed_round_by_round():
    """Two queries, two stages on a star, and the centre's (N − 1)² messages of every round's own size."""
    row, K = planned(SMALL, star(6), 5)["marina_type"], SMALL.period
    sent = sum(
        25 * (marina_total(24, 5, K=K, T=t + 1) - marina_total(24, 5, K=K, T=t)) for t in range(row.rounds)
    )
    assert row.rounds > K
    assert row.total_seconds == row.rounds * (1 + 2 * SMALL.latency) + sent / SMALL.bandwidth


def test_the_clock_adds_queries_stages_and_the_busiest_uplink():
    """A star of 6: its centre has five neighbours, and relays everybody's message to everybody."""
    found = planned(SMALL, star(6), 5)
    busiest = {"cosmo": 5 * 160, "edge_local": 160, "dense": 5 * 768, "flood": 25 * 96}
    for method, bits in busiest.items():
        stages = 2 if method == "flood" else 1
        assert found[method].seconds == 1 + stages * Fraction(1, 50) + Fraction(bits, 10**8)


def test_contractions_of_complete_graphs():
    """ρ = 0, so all neighbours lose all disagreement on p of the coordinates; pairs p/2 · N/(N − 1)."""
    found = planned(SMALL, complete(8), 6)
    assert found["cosmo"].contraction == pytest.approx(1 / 4, rel=1e-12)
    assert found["edge_local"].contraction == pytest.approx(1 / 8 * 8 / 7, rel=1e-12)
    assert found["dense"].contraction == pytest.approx(1, rel=1e-12)
    assert found["flood"].contraction_per_mbit is None


@given(st.integers(1, 24), st.integers(1, 10**6))
def test_exposure_hangs_on_the_budget_and_not_on_q(q, budget):
    """b/(dB), but for the last round that is not paid in full; here with one node of five idle."""
    row = planned(dataclasses.replace(SMALL, budget=budget), complete(5), q)["edge_local"]
    share = Fraction(budget, 24 * 32)
    assert share - Fraction(4 * q, 5 * 24) < row.exposure <= share


def test_coverage_is_averaged_over_nodes_that_are_paired_unlike():
    """A star of 5 and maximal matchings: the centre is always paired, a leaf in a round out of four."""
    net, pairs = network(star(5)), pairing(star(5), "maximal", Tape(0))
    row = rows(SMALL, 5, net, pairs)[1]
    centre, leaf = (1 - math.pow(1 - chance, row.rounds) for chance in (5 / 24, 5 / 96))
    assert row.coverage == pytest.approx((centre + 4 * leaf) / 5, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"bandwidth": 0}, "got 0"),
        ({"latency": -1}, "got -1"),
        ({"query_time": math.nan}, "got nan"),
        ({"bandwidth": math.inf}, "got inf"),
        ({"budget": 0}, "got 0"),
        ({"d": 2.5}, "2.5"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, found):
    with pytest.raises(InputError, match=found):
        dataclasses.replace(SMALL, **change)


def test_a_support_is_no_larger_than_the_vector():
    with pytest.raises(InputError, match="at most d = 24, got 25"):
        planned(SMALL, ring(4), 25)


def test_methods_are_named_by_their_kinds():
    assert {name.split()[0] for name in METHODS} <= set(KINDS)
