"""The ledger of a short run against the payload formulas: they must be equal."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from zocosmo.checks.case import Case, pairs_of
from zocosmo.checks.check import Check
from zocosmo.checks.measurement import About, Measurement
from zocosmo.core.signs import most_directions
from zocosmo.methods import TreeMean, TreeSum
from zocosmo.sim.engine import Simulation
from zocosmo.theory import coverage, payload

ROUNDS = 4  # of a short run; longer if rounds differ, to cover a whole cycle
MOST_ROUNDS = 1000  # rounds of a budget that are counted one by one
SEED_BITS = 64
LEVEL_BITS = 16  # of the logarithm of v, with normalised steps
OF_VALUES = ("cosmo", "edge_local", "rand_k", "rand_k_average", "dense", "com_dszo", "choco")
TO_ALL = ("flood", "marina_type", "tree_mean", "tree_sum")
NO_FORMULA = ("plain", "delta", "scaled_signs")  # codecs


def why_not_bits(case: Case) -> str:
    codec, kind = case.method.codec, case.method.kind
    if case.is_large:
        return f"states of {case.n * case.d:,} numbers; bits follow the same formula at a smaller d"
    if kind not in (*OF_VALUES, *TO_ALL):
        return f"there is no formula for the messages of {kind}"
    if codec in NO_FORMULA:
        return f"the paper has no formula for codec {codec}"
    if case.wire.linked:
        return "messages of this wire are wide where the run needs it"
    if kind == "marina_type" and codec != "indexed":
        return "the formula of marina_type counts indices; codec indexed"
    return ""


def size_at(case: Case, t: int) -> int:
    """Coordinates of round t, by the rule of the support."""
    d, q = case.d, case.q
    return q if case.rule == "uniform" else min(q, d - t % coverage.epoch_length(d, q) * q)


def message_bits(case: Case, size: int) -> int:
    costs, head = payload.link_costs(case.d, size, case.value_bits), case.wire.charged.scale_bits
    if size == case.d:  # all coordinates need no index
        return head + costs.dense
    return head + (costs.values if case.method.codec == "values" else costs.coordinate_list)


def messages_at(case: Case, t: int) -> int:
    """Messages on all links in round t: two per edge, or two per pair of the matching."""
    if case.method.talked(t + 1) == case.method.talked(t):
        return 0
    if not case.on_matchings:
        return 2 * len(case.graph.edges) * case.passes
    if case.is_perfect:
        return case.n
    return 2 * len(pairs_of(case.world.schedule.partners(case.tape(), case.method.matching_of(t, case.d))))


def summed_bits(method: TreeMean | TreeSum, case: Case, t: int) -> int:
    """Bits of each message of a sum over the tree in round t."""
    B, head = case.value_bits, case.wire.charged.scale_bits
    if isinstance(method, TreeMean):
        if messages_at(case, t) == 0:
            return 0
        size = size_at(case, t // method.hold)
        return head + most_directions(method.signs, method.directions, size) * B
    words = 1 if t else -(-B // method.bits)  # of an integer, or of a value in the first round
    return method.perturbations * (words * method.bits if method.wraps else B) + (0 if method.wraps else head)


def predicted_bits(case: Case, rounds: int) -> Fraction:
    """Bits per node in `rounds` rounds, by formula."""
    n, kind, B = case.n, case.method.kind, case.value_bits
    if isinstance(case.method, TreeMean | TreeSum):
        sizes = (summed_bits(case.method, case, t) for t in range(rounds))
        return sum((payload.tree_cost(n, size) for size in sizes if size), Fraction(0))
    if kind == "flood":
        return Fraction(rounds * payload.flood_cost(n, SEED_BITS + B))
    if kind == "marina_type":
        return Fraction((n - 1) * payload.marina_total(case.d, case.q, K=case.period, T=rounds, B=B))
    total = sum(messages_at(case, t) * message_bits(case, size_at(case, t)) for t in range(rounds))
    if case.step_rule == "normalised":  # neighbours tell each other v, once a round
        total += sum(messages_at(case, t) // case.passes * LEVEL_BITS for t in range(rounds))
    return Fraction(total, n)


def ledger(case: Case) -> Iterator[Fraction]:
    """Bits per node after 1, 2, 3, … rounds, as the channel charged them, without frames."""
    run = replace(case.run, problem=case.stand_in(), seed=case.seeds()[0])
    sim = Simulation([run], wire=case.plan.wire)
    while True:
        sim.round()
        yield Fraction(sim.channel.ledger(case.method.codec).network().payload, case.n)


def bill(case: Case, about: About) -> Iterator[Measurement]:
    rounds = coverage.epoch_length(case.d, case.q) if case.rule == "balanced" else ROUNDS
    rounds = min(max(rounds * case.hold, 1 + case.period), MOST_ROUNDS)
    charged = next(itertools.islice(ledger(case), rounds - 1, None))
    predicted = predicted_bits(case, rounds)
    yield about.equal(predicted / rounds, charged / rounds, f"over {rounds} rounds")


def why_not_budget(case: Case) -> str:
    if why := why_not_bits(case):
        return why
    if case.hold > 1 or (isinstance(case.method, TreeSum) and case.method.wraps):
        return "rounds do not all cost the same"
    if case.on_matchings and not case.is_perfect:
        return "nodes idle, so the cost of a round depends on the matching"
    if case.rule == "balanced" and case.d % case.q:
        return "q does not divide d, so rounds of an epoch differ in cost"
    return ""


def affordable(case: Case, budget: int) -> int:
    """Rounds that a budget per node pays for, by formula."""
    if case.method.kind == "marina_type":
        link = Fraction(budget, case.n - 1)
        return payload.marina_rounds(case.d, case.q, K=case.period, budget=link, B=case.value_bits)
    return payload.affordable_rounds(budget, predicted_bits(case, 1))


def budgets(case: Case) -> list[int]:
    """Budgets of the plan that are small enough to count, else one that pays for ten rounds and a half."""
    given = [b for b in case.plan.budgets if 0 < affordable(case, b) <= MOST_ROUNDS]
    return given or [int(Fraction(21, 20) * predicted_bits(case, 10))]


def paid(case: Case, about: About) -> Iterator[Measurement]:
    for budget in budgets(case):
        counted = next(rounds for rounds, bits in enumerate(ledger(case)) if bits > budget)
        yield about.equal(affordable(case, budget), counted, f"for {budget:,} bits per node")


def _words(case: Case) -> str:
    return f"{case.of_messages} {case.method.codec}, d={case.d}, {case.where}"


BITS = Check("bits per node and round", "eq:appendix_sparse_costs", why_not_bits, _words, bill)
BUDGET = Check("rounds a budget pays", "eq:budget_T_cosmo", why_not_budget, _words, paid)
