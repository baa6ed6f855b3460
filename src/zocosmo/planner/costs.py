"""What a round costs in bits and in time, method by method, and what a budget buys.

The clock of a round. All nodes start together, ask their two queries, and then wait for as many link stages
as the method has. Links are full duplex, and a node's sends share its uplink:

    round = 2 · query + stages · latency + bits that the busiest node sends / bandwidth

Not in it: codecs, drawing supports, applying updates, lost messages, nodes that are slower than others.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from zocosmo.errors import InputError, check_whole
from zocosmo.planner.network import Network, Pairing
from zocosmo.theory.payload import affordable_rounds, link_costs, marina_cost, marina_rounds, marina_total

METHODS = ("global", "edge_local", "flooding", "dense", "indexed", "marina_type")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where the nodes run and what they may spend: seconds, bits a second, bits per node."""

    d: int
    bandwidth: Fraction
    latency: Fraction
    query_time: Fraction
    budget: int
    value_bits: int = 32
    seed_bits: int = 64  # of a flooded message, with its scalar
    scalar_bits: int = 32
    period: int = 25  # of dense rounds, MARINA-type

    def __post_init__(self) -> None:
        for name in ("d", "budget", "value_bits", "scalar_bits", "period"):
            check_whole(name, getattr(self, name), 1)
        check_whole("seed_bits", self.seed_bits)
        for name in ("bandwidth", "latency", "query_time"):
            object.__setattr__(self, name, _exactly(name, getattr(self, name)))
        if not self.bandwidth:
            raise InputError("bandwidth must be above 0 bits a second, got 0")

    @property
    def flooded_bits(self) -> int:
        """b: a seed and a scalar."""
        return self.seed_bits + self.scalar_bits

    @property
    def wait(self) -> Fraction:
        """Seconds of a one-stage round in which no bit of ours moves: two queries and a latency."""
        return 2 * self.query_time + self.latency


def _exactly(name: str, given: Fraction | float) -> Fraction:
    """A number that is finite and not negative, as a fraction."""
    try:
        number = Fraction(given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a finite number, got {given!r}") from None
    if number < 0:
        raise InputError(f"{name} must be 0 or more, got {given}")
    return number


class Traffic(NamedTuple):
    """A round of a method on the links."""

    message: Fraction  # bits, over a cycle where rounds differ
    mean: Fraction  # messages that a node sends on average
    busiest: Fraction  # that the busiest node sends
    stages: int


@dataclass(frozen=True)
class Row:
    """One method within the budget. Bits are per node, times in seconds."""

    method: str
    bits: Fraction  # of a round
    link_ratio: Fraction | None  # a message against q values; None: it is another object
    stages: int
    rounds: int  # that the budget pays, and that fit into the time if there is one
    total_bits: Fraction
    queries: Fraction  # seconds of a round
    waiting: Fraction
    transfer: Fraction
    total_seconds: Fraction
    contraction: float  # of disagreement in a round; 1 where nodes agree exactly
    exposure: Fraction  # visits to a coordinate of a node
    coverage: float  # expected share of coordinates that were visited

    @property
    def seconds(self) -> Fraction:
        """Of a round."""
        return self.queries + self.waiting + self.transfer

    @property
    def agrees(self) -> bool:
        return self.method in ("flooding", "marina_type")

    @property
    def contraction_per_mbit(self) -> float | None:
        """Of bits that a node sends; None where there is nothing to contract."""
        return None if self.agrees else self.contraction / float(self.bits) * 1e6


def rows(
    setting: Setting, q: int, net: Network, pairs: Pairing, seconds: Fraction | None = None
) -> list[Row]:
    """All methods with supports of q, in the order of METHODS; no round ends after the time."""
    if check_whole("q", q, 1) > setting.d:
        raise InputError(f"a support has at most d = {setting.d} coordinates, got q = {q}; lower q")
    return [_row(setting, q, net, pairs, method, seconds) for method in METHODS]


def traffic(setting: Setting, q: int, net: Network, pairs: Pairing, method: str) -> Traffic:
    """Messages and their sizes   [tab:public_randomness_operators, eq:appendix_sparse_costs]"""
    costs, near = link_costs(setting.d, q, setting.value_bits), (net.mean_degree, Fraction(net.max_degree), 1)
    everywhere = Fraction(net.graph.n - 1), net.load, net.diameter
    if method == "edge_local":
        return Traffic(Fraction(costs.values), pairs.matched, Fraction(1), 1)
    if method == "flooding":
        return Traffic(Fraction(setting.flooded_bits), *everywhere)
    if method == "marina_type":
        return Traffic(marina_cost(setting.d, q, K=setting.period, B=setting.value_bits), *everywhere)
    bits = {"global": costs.values, "indexed": costs.coordinate_list, "dense": costs.dense}[method]
    return Traffic(Fraction(bits), *near)


def _row(
    setting: Setting, q: int, net: Network, pairs: Pairing, method: str, seconds: Fraction | None
) -> Row:
    use, form = traffic(setting, q, net, pairs, method), {"K": setting.period, "B": setting.value_bits}
    bits, slice_bits = use.message * use.mean, q * setting.value_bits
    queries, waiting = 2 * setting.query_time, use.stages * setting.latency
    rounds = affordable_rounds(setting.budget, bits)
    if method == "marina_type":
        rounds = marina_rounds(setting.d, q, budget=setting.budget / use.mean, **form)

    def sent(T: int) -> Fraction:
        """Bits of the messages of T rounds to one other node."""
        return (
            Fraction(marina_total(setting.d, q, T=T, **form)) if method == "marina_type" else T * use.message
        )

    def clock(T: int) -> Fraction:
        return T * (queries + waiting) + sent(T) * use.busiest / setting.bandwidth

    if seconds is not None:
        rounds = _in_time(rounds, seconds, clock)
    exposure, coverage = _visits(setting, q, pairs, method, rounds)
    return Row(
        method,
        bits,
        None if method == "flooding" else use.message / slice_bits,
        use.stages,
        rounds,
        sent(rounds) * use.mean,
        queries,
        waiting,
        use.message * use.busiest / setting.bandwidth,
        clock(rounds),
        _contraction(setting, q, net, pairs, method),
        exposure,
        coverage,
    )


def _in_time(rounds: int, seconds: Fraction, clock: Callable[[int], Fraction]) -> int:
    """The most rounds, up to those that are paid, whose clock does not go beyond the time; by halving."""
    low, high = 0, rounds
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if clock(middle) <= seconds else (low, middle - 1)
    return low


def _contraction(setting: Setting, q: int, net: Network, pairs: Pairing, method: str) -> float:
    """p (1 − ρ²) with all neighbours, p λ₂/2 in pairs; p = q/d, and 1 for dense messages

    [eq:masked_contraction_witness, eq:edge_spectral_contraction]
    """
    if method in ("flooding", "marina_type"):
        return 1.0
    p = 1.0 if method == "dense" else q / setting.d
    return p * (pairs.gap / 2 if method == "edge_local" else 1 - net.rho**2)


def _visits(setting: Setting, q: int, pairs: Pairing, method: str, rounds: int) -> tuple[Fraction, float]:
    """Exposure and expected coverage, averaged over the nodes   [eq:coordinate_exposure_v24]"""
    p = Fraction(q, setting.d)
    dense = {"dense": rounds, "flooding": rounds, "marina_type": -(-rounds // setting.period)}.get(method, 0)
    if dense:
        return dense + (rounds - dense) * p, 1.0
    if method != "edge_local":
        return rounds * p, _covered(p, rounds)
    found = {often: _covered_in_pairs(p, often, rounds, pairs.in_turn) for often in set(pairs.active)}
    coverage = math.fsum(found[often] for often in pairs.active) / len(pairs.active)
    return rounds * p * pairs.matched, coverage


def _covered_in_pairs(p: Fraction, often: Fraction, rounds: int, in_turn: bool) -> float:
    """A node that is paired so often: in so many rounds if by turns, else by chance in each."""
    return _covered(p, float(rounds * often)) if in_turn else _covered(p * often, rounds)


def _covered(p: Fraction, rounds: float) -> float:
    """1 − (1 − p)^rounds"""
    return float(rounds > 0) if p == 1 else -math.expm1(rounds * math.log1p(-float(p)))
