"""The ledger of a short run against the payload formulas: == or wrong."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from zocosmo.checks.check import Check
from zocosmo.checks.row import About, Row
from zocosmo.checks.setting import Setting, on_matchings, pairs_of
from zocosmo.sim.engine import Simulation
from zocosmo.theory import coverage, payload

ROUNDS = 4  # of a short run; at least a cycle of what is not the same in every round
MOST_ROUNDS = 1000  # that a budget may pay, to be counted one by one
SEED_BITS = 64


def why_not_bits(setting: Setting) -> str:
    codec, kind = setting.method.codec, setting.method.kind
    if setting.is_large:
        return f"states of {setting.n * setting.d:,} numbers; a bill is the same at a smaller d"
    if codec in ("plain", "delta"):
        return f"the paper has no formula for codec {codec}"
    if kind == "marina_type" and codec != "indexed":
        return "the formula of marina_type counts indices; codec indexed"
    return ""


def size_at(setting: Setting, t: int) -> int:
    """Coordinates of round t, by the rule of the support."""
    d, q = setting.d, setting.q
    if getattr(setting.method, "rule", "uniform") == "uniform":
        return q
    return min(q, d - t % coverage.epoch_length(d, q) * q)


def message_bits(setting: Setting, size: int) -> int:
    costs = payload.link_costs(setting.d, size, setting.value_bits)
    if size == setting.d:  # all coordinates need no index
        return costs.dense
    return costs.values if setting.method.codec == "values" else costs.coordinate_list


def messages_at(setting: Setting, t: int) -> int:
    """Over all links: two on each edge, or two for each pair of the matching."""
    if not on_matchings(setting):
        return 2 * len(setting.graph.edges) * getattr(setting.method, "passes", 1)
    if setting.cycle is not None and setting.cycle.is_perfect:
        return setting.n
    return 2 * len(pairs_of(setting.world.schedule.partners(setting.tape(), t)))


def predicted_bits(setting: Setting, rounds: int) -> Fraction:
    """Bits per node in so many rounds, by formula."""
    n, kind, B = setting.n, setting.method.kind, setting.value_bits
    if kind == "flood":
        return Fraction(rounds * payload.flood_cost(n, SEED_BITS + B))
    if kind == "marina_type":
        K = int(getattr(setting.method, "period", 1))
        return Fraction((n - 1) * payload.marina_total(setting.d, setting.q, K=K, T=rounds, B=B))
    total = sum(messages_at(setting, t) * message_bits(setting, size_at(setting, t)) for t in range(rounds))
    return Fraction(total, n)


def ledger(setting: Setting) -> Iterator[Fraction]:
    """Bits per node after 1, 2, 3, … rounds, as the channel charged them; frames are left out."""
    run = replace(setting.run, problem=setting.stand_in(), seed=setting.seeds()[0])
    sim = Simulation([run], wire=setting.plan.wire)
    while True:
        sim.round()
        yield Fraction(sim.channel.ledger(setting.method.codec).network().payload, setting.n)


def bill(setting: Setting, about: About) -> Iterator[Row]:
    method = setting.method
    rounds = ROUNDS
    if getattr(method, "rule", "") == "balanced":
        rounds = coverage.epoch_length(setting.d, setting.q)
    rounds = min(max(rounds, 1 + int(getattr(method, "period", 1))), MOST_ROUNDS)
    charged = next(itertools.islice(ledger(setting), rounds - 1, None))
    predicted = predicted_bits(setting, rounds)
    yield about.equal(predicted / rounds, charged / rounds, f"over {rounds} rounds")


def why_not_budget(setting: Setting) -> str:
    if why := why_not_bits(setting):
        return why
    if on_matchings(setting) and not (setting.cycle is not None and setting.cycle.is_perfect):
        return "nodes idle, so what a round costs depends on the matching"
    if getattr(setting.method, "rule", "uniform") == "balanced" and setting.d % setting.q:
        return "q does not divide d, so rounds of an epoch cost unequal amounts"
    return ""


def affordable(setting: Setting, budget: int) -> int:
    """Rounds that a budget per node pays, by formula."""
    if setting.method.kind == "marina_type":
        K = int(getattr(setting.method, "period", 1))
        link = Fraction(budget, setting.n - 1)
        return payload.marina_rounds(link, setting.d, setting.q, K=K, B=setting.value_bits)
    return payload.affordable_rounds(budget, predicted_bits(setting, 1))


def budgets(setting: Setting) -> list[int]:
    """Those of the plan that can be counted out, or one that pays ten rounds and a half."""
    given = [b for b in setting.plan.budgets if 0 < affordable(setting, b) <= MOST_ROUNDS]
    return given or [int(Fraction(21, 20) * predicted_bits(setting, 10))]


def paid(setting: Setting, about: About) -> Iterator[Row]:
    for budget in budgets(setting):
        counted = next(rounds for rounds, bits in enumerate(ledger(setting)) if bits > budget)
        yield about.equal(affordable(setting, budget), counted, f"for {budget:,} bits per node")


def _words(setting: Setting) -> str:
    where = setting.on_schedule if on_matchings(setting) else setting.on_graph
    return f"{setting.of_messages} {setting.method.codec}, d={setting.d}, {where}"


BITS = Check("bits per node and round", "eq:appendix_sparse_costs", why_not_bits, _words, bill)
BUDGET = Check("rounds a budget pays", "eq:budget_T_cosmo", why_not_budget, _words, paid)
