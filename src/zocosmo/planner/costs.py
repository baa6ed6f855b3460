"""What a round of each method costs in bits and time, and what a budget buys.

Time of a round: all nodes start together, evaluate two queries, then wait for each link stage in turn. Links
are full duplex, and a node's messages share its uplink:

    round = 2 · query + stages · latency + bits sent by the busiest node / bandwidth

Not included: codecs, drawing supports, applying updates, lost messages, slow nodes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from zocosmo.errors import InputError, check_whole
from zocosmo.planner.network import NetworkShape, Pairing
from zocosmo.theory.payload import affordable_rounds, link_costs, marina_cost, marina_rounds, marina_total

INDEXED = "cosmo indexed"  # as logs label it: the kind, then the codec
METHODS = ("cosmo", "edge_local", "flood", "dense", INDEXED, "marina_type")


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Where the nodes run and what they may spend: in seconds, bits per second and bits per node."""

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
        for name in ("d", "budget", "value_bits", "seed_bits", "scalar_bits", "period"):
            check_whole(name, vars(self)[name], 0 if name == "seed_bits" else 1)
        for name in ("bandwidth", "latency", "query_time"):
            object.__setattr__(self, name, _exactly(name, vars(self)[name]))
        if not self.bandwidth:
            raise InputError("bandwidth must be above 0 bits per second, got 0")

    @property
    def flooded_bits(self) -> int:
        """b: a seed and a scalar."""
        return self.seed_bits + self.scalar_bits

    @property
    def wait(self) -> Fraction:
        """Seconds of a one-stage round without transfer: two queries and a latency."""
        return 2 * self.query_time + self.latency


def _exactly(name: str, given: Fraction | float) -> Fraction:
    """A finite number, 0 or more, as a fraction."""
    try:
        number = Fraction(given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a finite number, got {given!r}") from None
    if number < 0:
        raise InputError(f"{name} must be 0 or more, got {given}")
    return number


class RoundTraffic(NamedTuple):
    """Messages of one round of a method."""

    message: Fraction  # bits; the mean over a cycle where rounds differ
    mean: Fraction  # messages sent per node, on average
    busiest: Fraction  # messages sent by the busiest node
    stages: int


@dataclass(frozen=True)
class MethodCost:
    """One method within the budget. Bits are per node, times are in seconds."""

    method: str
    bits: Fraction  # of a round
    link_ratio: Fraction | None  # message size over q bare values; None where that does not apply
    stages: int
    rounds: int  # within the budget, and within the time if one is given
    total_bits: Fraction
    queries: Fraction  # seconds of a round
    waiting: Fraction
    transfer: Fraction
    total_seconds: Fraction
    contraction: float  # of disagreement per round; 1 where nodes agree exactly
    exposure: Fraction  # mean visits to a coordinate of a node
    coverage: float  # expected share of coordinates visited

    @property
    def parts(self) -> dict[str, Fraction]:
        """Seconds of a round, by what takes them."""
        return {"queries": self.queries, "latency": self.waiting, "transfer": self.transfer}

    @property
    def seconds(self) -> Fraction:
        """Of a round."""
        return self.queries + self.waiting + self.transfer

    @property
    def agrees(self) -> bool:
        return self.method in ("flood", "marina_type")

    @property
    def contraction_per_mbit(self) -> float | None:
        """Per Mbit that a node sends; None where nodes agree exactly."""
        return None if self.agrees else self.contraction / float(self.bits) * 1e6


def rows(
    setting: Deployment, q: int, net: NetworkShape, pairs: Pairing, seconds: Fraction | None = None
) -> list[MethodCost]:
    """The cost of every method with supports of size q, in the order of METHODS."""
    if check_whole("q", q, 1) > setting.d:
        raise InputError(f"q must be at most d = {setting.d}, got {q}; lower q")
    return [_row(setting, q, net, pairs, method, seconds) for method in METHODS]


def traffic(setting: Deployment, q: int, net: NetworkShape, pairs: Pairing, method: str) -> RoundTraffic:
    """Messages and their sizes   [tab:public_randomness_operators, eq:appendix_sparse_costs]"""
    costs, near = link_costs(setting.d, q, setting.value_bits), (net.mean_degree, Fraction(net.max_degree), 1)
    everywhere = Fraction(net.graph.n - 1), net.load, net.diameter
    if method == "edge_local":
        return RoundTraffic(Fraction(costs.values), pairs.matched, Fraction(1), 1)
    if method == "flood":
        return RoundTraffic(Fraction(setting.flooded_bits), *everywhere)
    if method == "marina_type":
        return RoundTraffic(marina_cost(setting.d, q, K=setting.period, B=setting.value_bits), *everywhere)
    bits = {"cosmo": costs.values, INDEXED: costs.coordinate_list, "dense": costs.dense}[method]
    return RoundTraffic(Fraction(bits), *near)


def _row(
    setting: Deployment, q: int, net: NetworkShape, pairs: Pairing, method: str, seconds: Fraction | None
) -> MethodCost:
    use, form = traffic(setting, q, net, pairs, method), {"K": setting.period, "B": setting.value_bits}
    bits, slice_bits = use.message * use.mean, q * setting.value_bits
    queries, waiting = 2 * setting.query_time, use.stages * setting.latency
    rounds = affordable_rounds(setting.budget, bits)
    if method == "marina_type":
        rounds = marina_rounds(setting.d, q, budget=setting.budget / use.mean, **form)

    def sent(T: int) -> Fraction:
        """Bits of T rounds of messages to one other node."""
        is_even = method != "marina_type"
        return T * use.message if is_even else Fraction(marina_total(setting.d, q, T=T, **form))

    def clock(T: int) -> Fraction:
        return T * (queries + waiting) + sent(T) * use.busiest / setting.bandwidth

    if seconds is not None:
        rounds = _in_time(rounds, seconds, clock)
    ratio = None if method == "flood" else use.message / slice_bits
    times = queries, waiting, use.message * use.busiest / setting.bandwidth, clock(rounds)
    effects = _contraction(setting, q, net, pairs, method), *_visits(setting, q, pairs, method, rounds)
    return MethodCost(method, bits, ratio, use.stages, rounds, sent(rounds) * use.mean, *times, *effects)


def _in_time(rounds: int, seconds: Fraction, clock: Callable[[int], Fraction]) -> int:
    """The most rounds, up to `rounds`, that end in time; by bisection."""
    low, high = 0, rounds
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if clock(middle) <= seconds else (low, middle - 1)
    return low


def _contraction(setting: Deployment, q: int, net: NetworkShape, pairs: Pairing, method: str) -> float:
    """p (1 − ρ²) with all neighbours, p λ₂/2 in pairs; p = q/d, and 1 for dense messages

    [eq:masked_contraction_witness, eq:edge_spectral_contraction]
    """
    if method in ("flood", "marina_type"):
        return 1.0
    p = 1.0 if method == "dense" else q / setting.d
    return p * (pairs.gap / 2 if method == "edge_local" else 1 - net.rho**2)


def _visits(setting: Deployment, q: int, pairs: Pairing, method: str, rounds: int) -> tuple[Fraction, float]:
    """Exposure and expected coverage, averaged over the nodes   [eq:coordinate_exposure_v24]"""
    p = Fraction(q, setting.d)
    dense = {"dense": rounds, "flood": rounds, "marina_type": -(-rounds // setting.period)}.get(method, 0)
    if dense:
        return dense + (rounds - dense) * p, 1.0
    if method != "edge_local":
        return rounds * p, _covered(p, rounds)
    found = {  # by the share of rounds in which a node has a partner: in fixed turns, or at random
        often: _covered(p, float(rounds * often)) if pairs.in_turn else _covered(p * often, rounds)
        for often in set(pairs.active)
    }
    coverage = math.fsum(found[often] for often in pairs.active) / len(pairs.active)
    return rounds * p * pairs.matched, coverage


def _covered(p: Fraction, rounds: float) -> float:
    """1 − (1 − p)^rounds"""
    return float(rounds > 0) if p == 1 else -math.expm1(rounds * math.log1p(-float(p)))
