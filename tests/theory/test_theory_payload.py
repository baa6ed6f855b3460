"""Costs against exact integers, against counting message by message, and against the paper's tables."""

import itertools
import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core import CODECS, log2_binomial
from zocosmo.graphs import GRAPHS
from zocosmo.theory import payload
from zocosmo.theory.payload import (
    affordable_rounds,
    diameter,
    flood_cost,
    flood_crossover,
    index_bits,
    index_share,
    link_costs,
    marina_cost,
    marina_multiplier,
    marina_rounds,
    marina_total,
    operators,
    reuse_multiplier,
    seed_cost,
    support_entropy,
    sync_bits,
)

LORA, FULL, Q = 2_523_136, 6_525_621_760, 8192

small = st.integers(1, 60).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d)))


@given(st.integers(1, 3000).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d))))
def test_the_entropy_agrees_with_exact_integers(size):
    """math.log2 of an integer is right to a unit in the last place, the sum to some more."""
    d, q = size
    assert support_entropy(d, q) == pytest.approx(math.log2(math.comb(d, q)), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize(("d", "q"), [(LORA, Q), (FULL, Q), (FULL, 1), (10**18, 999), (40_001, 20_000)])
def test_the_entropy_of_large_supports_agrees_with_exact_integers(d, q):
    assert support_entropy(d, q) == pytest.approx(math.log2(math.comb(d, q)), rel=1e-13)


@pytest.mark.parametrize("q", [2**16, 2**16 + 1, 10**6, FULL // 2, FULL - 3])
def test_the_entropy_agrees_with_another_expansion_where_integers_would_be_too_long(q):
    """Terms one by one and Euler–Maclaurin here, Stirling's series for three factorials there."""
    assert support_entropy(FULL, q) == pytest.approx(log2_binomial(FULL, q), rel=1e-12)


@pytest.mark.parametrize("q", [1, 5, 50, 700])
def test_head_and_tail_of_the_entropy_meet_anywhere(q, monkeypatch):
    """Ends are corrected up to the first derivative; the third leaves 2/(720 · 1000³) at most."""
    summed = support_entropy(10_000, 1000 + q)
    monkeypatch.setattr(payload, "HEAD", 1000)
    assert support_entropy(10_000, 1000 + q) == pytest.approx(summed, rel=1e-13)


def test_a_fixed_length_code_needs_as_many_words_as_there_are_supports():
    """Count the supports of d = 8, q = 3: 56 of them, 2^entropy."""
    count = sum(1 for _ in itertools.combinations(range(8), 3))
    assert 2 ** support_entropy(8, 3) == pytest.approx(count, rel=1e-14)


@given(small, st.sampled_from([1, 8, 16, 32, 64]))
def test_messages_cost_what_is_in_them(size, B):
    (d, q), costs = size, link_costs(*size, B)
    named = q * B + sum(len(f"{d - 1:b}") if d > 1 else 0 for _ in range(q))
    assert (costs.values, costs.coordinate_list, costs.dense) == (q * B, named, d * B)
    assert costs.entropy - costs.values == pytest.approx(support_entropy(d, q), abs=1e-9)


@pytest.mark.parametrize("d", [20, LORA, FULL])
def test_codecs_charge_what_the_theory_says(d):
    """All but the padding to whole bytes."""
    q = min(d, Q)
    bits = {name: CODECS[name].bits(d, q).payload for name in ("values", "indexed", "dense")}
    costs = link_costs(d, q)
    assert bits == {"values": costs.values, "indexed": costs.coordinate_list, "dense": costs.dense}


def test_the_payload_table():
    """262.1K, 442.4K, 532.5K as printed; 80.740M, 341.657K and 434.546K where the paper rounded d first."""
    lora, full = link_costs(LORA, Q), link_costs(FULL, Q)
    assert (lora.values, lora.coordinate_list, full.coordinate_list) == (262_144, 442_368, 532_480)
    assert (round(lora.entropy), round(full.entropy)) == (341_657, 434_546)
    assert (lora.dense, f"{full.dense:.2e}") == (80_740_352, "2.09e+11")


@pytest.mark.parametrize(
    ("d", "shares"), [(LORA, "40.7 57.9 73.3 95.7"), (FULL, "50.8 67.3 80.5 97.1")], ids=["LoRA", "full"]
)
def test_the_table_of_index_shares(d, shares):
    assert " ".join(f"{100 * float(index_share(d, B)):.1f}" for B in (32, 16, 8, 1)) == shares


@given(small, st.sampled_from([1, 8, 32]))
def test_the_index_share_is_what_public_supports_save(size, B):
    costs = link_costs(*size, B)
    assert index_share(size[0], B) == Fraction(costs.coordinate_list - costs.values, costs.coordinate_list)


def test_the_multipliers_of_the_paper():
    multipliers = [reuse_multiplier(d, K=1) for d in (LORA, FULL)]
    assert [f"{float(times):.2f}" for times in multipliers] == ["1.69", "2.03"]
    assert f"{float(marina_multiplier(LORA, Q, K=25)):.2f}" == "13.94"
    assert f"{float(marina_multiplier(FULL, Q, K=25)):.2e}" == "3.19e+04"


def test_a_list_that_is_kept_costs_less_and_less():
    assert [f"{float(reuse_multiplier(FULL, K=k)):.2f}" for k in (1, 10, 50)] == ["2.03", "1.10", "1.02"]


@given(small, st.integers(1, 9), st.sampled_from([1, 8, 32]))
def test_reuse_spreads_one_list_over_its_rounds(size, K, B):
    """K rounds added up: q values each, and one list."""
    (d, q), costs = size, link_costs(*size, B)
    assert K * costs.values * reuse_multiplier(d, K=K, B=B) == K * costs.values + q * index_bits(d)


@given(st.integers(1, 3000))
def test_seed_and_counters_are_added_up_over_the_rounds(T):
    control = 128 + sum(32 for t in range(1, T + 1) if t % 100 == 0)
    assert seed_cost(5, T=T) == 5 * 32 + Fraction(control, T)
    assert seed_cost(5, T=T) - 160 <= Fraction(128, T) + Fraction(32, 100)
    assert sync_bits(T) == control - 128


def test_the_seed_is_nothing_beside_the_indices():
    """The full model: 262,144 bits of values and 270,336 of indices a round, 0.45 of seed and counter."""
    values, indices = 262_144, 8192 * index_bits(FULL)
    assert indices == 270_336
    assert seed_cost(Q, T=1000) - values == Fraction(448, 1000)
    assert seed_cost(Q, T=1000, sync=0, seed=0) == values


@given(small, st.integers(1, 7), st.integers(0, 40))
def test_refreshes_are_added_up_round_by_round(size, K, T):
    costs = link_costs(*size)
    rounds = [costs.dense if t % K == 0 else costs.coordinate_list for t in range(T)]
    assert marina_total(*size, K=K, T=T) == sum(rounds)
    assert marina_cost(*size, K=K) == Fraction(marina_total(*size, K=K, T=3 * K), 3 * K)
    assert marina_multiplier(*size, K=K) == marina_cost(*size, K=K) / costs.values


@given(small, st.integers(1, 7), st.integers(0, 40), st.integers(-1, 1))
def test_refreshed_rounds_are_the_most_that_the_budget_pays(size, K, T, off):
    budget = max(0, marina_total(*size, K=K, T=T) + off)
    rounds = marina_rounds(*size, K=K, budget=budget)
    totals = [marina_total(*size, K=K, T=t) for t in (rounds, rounds + 1)]
    assert totals[0] <= budget < totals[1]


def test_a_budget_below_the_first_dense_message_pays_no_round():
    assert marina_rounds(LORA, Q, K=25, budget=80_740_351) == 0
    assert marina_rounds(LORA, Q, K=25, budget=80_740_352) == 1


@given(st.fractions(0, 10**6), st.fractions(Fraction(1, 9), 10**4))
def test_affordable_rounds_fit_and_one_more_does_not(budget, cost):
    rounds = affordable_rounds(budget, cost)
    assert rounds * cost <= budget < (rounds + 1) * cost


def test_the_rounds_of_the_long_study():
    """403.702 Mbit: 1540 rounds of values, 912 of indexed values."""
    costs = link_costs(LORA, Q)
    assert affordable_rounds(403_701_760, costs.values) == 1540
    assert affordable_rounds(403_701_760, costs.coordinate_list) == 912


@pytest.mark.parametrize("n", [2, 3, 6])
def test_a_flood_takes_a_delivery_for_every_source_and_every_other_node(n):
    deliveries = list(itertools.permutations(range(n), 2))
    assert n * flood_cost(n, 96) == 96 * len(deliveries)


@given(st.integers(1, 5000), st.sampled_from([8, 16, 32, 64]), st.integers(1, 200))
def test_the_crossover_is_the_first_size_at_which_a_flood_costs_more(q, B, b):
    N = flood_crossover(q, B=B, b=b)
    assert flood_cost(N, b) > q * B
    assert N == 2 or flood_cost(N - 1, b) <= q * B


@pytest.mark.parametrize("kind", ["ring", "path", "star", "complete", "grid", "hypercube"])
def test_the_diameter_is_that_of_the_graph(kind):
    graph = GRAPHS[kind](8)
    assert diameter(graph.n, graph.edges) == nx.diameter(graph.to_networkx())


def test_the_table_of_operators():
    """A ring of 10 at 64 + 32 bits for a seed and a scalar: 2 q B, q B and 9 · 96 bits; 1, 1 and 5 stages."""
    ring = GRAPHS["ring"](10)
    found = operators(10, ring.edges, q=4)
    assert found == {"global": (256, 1), "edge_local": (128, 1), "flooding": (864, 5)}
    assert operators(10, ring.edges, q=4, matched=Fraction(1, 2))["edge_local"].bits == 64


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 2**40, 2**40 + 1])
def test_index_bits_name_every_coordinate_and_no_bit_fewer_would(d):
    assert 2 ** index_bits(d) >= d
    assert d == 1 or 2 ** (index_bits(d) - 1) < d


def test_sizes_of_numpy_do_not_overflow():
    assert marina_total(np.int64(FULL), np.int32(Q), K=25, T=10**9) == marina_total(FULL, Q, K=25, T=10**9)
    assert link_costs(np.int64(FULL), np.int16(Q)) == link_costs(FULL, Q)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: support_entropy(5, 6), "q = 6"),
        (lambda: index_bits(0), "got 0"),
        (lambda: link_costs(8, 2.5), "2.5"),
        (lambda: link_costs(8, True), "True"),
        (lambda: reuse_multiplier(8, K=0), "got 0"),
        (lambda: affordable_rounds(5, 0), "5 and 0"),
        (lambda: diameter(3, [(0, 1)]), "2 of 3"),
        (lambda: operators(2, [(0, 1)], 1, matched=2), "got 2"),
    ],
)
def test_a_refusal_says_what_was_found(call, found):
    with pytest.raises(ValueError, match=found):
        call()
