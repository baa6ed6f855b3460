"""The complete plan: all methods in one setting, crossovers, the proposal, and the reasons for it."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import Graph
from zocosmo.planner.choice import EXPOSURE, ROUNDS, SLACK, Choice, bits_for_exposure, choose_q
from zocosmo.planner.costs import Deployment, MethodCost, rows
from zocosmo.planner.crossover import Crossover, Family, crossover
from zocosmo.planner.network import NetworkShape, Pairing, network, pairing
from zocosmo.planner.units import show_bits, show_seconds


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user fixes: q, a schedule, and the number of rounds or the time."""

    q: int | None = None
    schedule: str = "auto"
    rounds: int | None = None
    seconds: Fraction | None = None


@dataclass(frozen=True)
class Outlook:
    """What a budget buys with each method, and the proposal."""

    setting: Deployment
    wish: Wish
    net: NetworkShape
    pairs: Pairing
    q: int  # that the rows are computed for
    rows: list[MethodCost]
    cross: Crossover
    choice: Choice

    @property
    def why(self) -> list[str]:
        """The reasons, in a few sentences."""
        reasons = _why_method, _why_q, _why_exposure, _why_schedule, _why_flood
        return [reason(self) for reason in reasons]

    @property
    def is_cut(self) -> bool:
        """Whether pairs run out of time before they run out of budget."""
        row = self.row("edge_local")
        return row.rounds < self.setting.budget // row.bits

    @property
    def is_free(self) -> bool:
        """Whether the link cannot send the whole budget in the time, so that bits are no limit."""
        seconds = self.wish.seconds
        return seconds is not None and self.setting.budget >= int(seconds * self.setting.bandwidth)

    def row(self, method: str) -> MethodCost:
        return next(row for row in self.rows if row.method == method)


def outlook(
    setting: Deployment,
    graph: Graph,
    wish: Wish | None = None,
    *,
    tape: Tape | None = None,
    family: Family | None = None,
) -> Outlook:
    """Compare all methods on a graph; q and the schedule are proposed unless the wish fixes them.

    `family` builds graphs of the same kind with other numbers of nodes, for the crossover in time.
    """
    wish = wish or Wish()
    net = network(graph)
    pairs = pairing(graph, wish.schedule, Tape(0) if tape is None else tape)
    choice = choose_q(setting, pairs.matched, rounds=wish.rounds, seconds=wish.seconds)
    q = choice.q if wish.q is None else wish.q
    table = rows(setting, q, net, pairs, wish.seconds)
    return Outlook(setting, wish, net, pairs, q, table, crossover(setting, q, graph, family), choice)


def _why_method(out: Outlook) -> str:
    """Pairs or a flood: by bits, by time, and by the directions each node must rebuild in a flood."""
    flood, pairs = out.row("flood"), out.row("edge_local")
    signs = f"{(out.net.graph.n - 1) * out.setting.d:,} signs"
    clocks = f"{show_seconds(pairs.seconds)} against {show_seconds(flood.seconds)} a round"
    if flood.bits < pairs.bits and flood.seconds < pairs.seconds:
        slack = show_seconds(pairs.seconds - flood.seconds)
        return (
            f"Method: flooding (flood), if a node rebuilds {signs} a round in less than {slack}: it then "
            f"sends less, is no slower, and nodes agree exactly. Else edge-local (edge_local)."
        )
    if flood.bits < pairs.bits:
        return (
            f"Method: edge-local (edge_local) by the clock, {clocks}; flooding (flood) by bits, where time "
            f"and the {signs} that a node rebuilds a round matter less."
        )
    if flood.seconds < pairs.seconds:
        return f"Method: edge-local (edge_local) by bits; flooding (flood) by the clock, {clocks}."
    return f"Method: edge-local (edge_local): it sends no more than flooding and is no slower, {clocks}."


def _why_q(out: Outlook) -> str:
    setting, choice, row = out.setting, out.choice, out.row("edge_local")
    wait, budget, slack = show_seconds(setting.wait), show_bits(setting.budget), f"{float(SLACK):.0%}"
    reasons = {
        "bits": f"the largest with which {budget} per node last for {_wanted(out.wish)}",
        "time": f"the transfer of more would add over {slack} to the {wait} that a round waits anyway",
        "d": f"all coordinates, as {_wanted(out.wish)} fit into the budget and transfer stays short",
    }
    if out.is_free:
        reasons["d"] = "all coordinates, as their transfer stays short"
    reason = reasons[choice.binding]
    if choice.binding == "bits" and choice.by_bits == 0:
        reason = f"the least there is, as {budget} per node do not last for {_wanted(out.wish)}"
    if choice.binding == "time" and choice.by_time == 0:
        why = f"one value already takes over {slack} of the {wait} that a round waits"
        reason = f"the least there is, as {why}"
    limit = f"{_wanted(out.wish)} hold" if out.is_cut else "the budget pays"
    shown = f"{limit} {row.rounds:,} rounds of {show_seconds(row.seconds)}"
    if out.q == choice.q:
        return f"q = {choice.q:,}: {reason}; {shown}."
    return f"q = {out.q:,} as given: {shown}. The rule would take {choice.q:,}: {reason}."


def _wanted(wish: Wish) -> str:
    if wish.seconds is not None:
        return show_seconds(wish.seconds)
    return f"{ROUNDS if wish.rounds is None else wish.rounds:,} rounds"


def _why_exposure(out: Outlook) -> str:
    row, budget, needed = out.row("edge_local"), out.setting.budget, bits_for_exposure(out.setting)
    visited = f"Exposure {float(row.exposure):.3g}: {row.coverage:.2%} of the coordinates are visited."
    if out.is_cut:
        rounds = math.ceil(EXPOSURE * out.setting.d / (out.pairs.matched * out.q))
        return (
            f"{visited} Time ends the rounds, so visits grow with q: {EXPOSURE} to each take {rounds:,} "
            f"rounds, {show_seconds(rounds * row.seconds)}."
        )
    verdict = "so the budget is enough" if budget >= needed else f"{needed / budget:,.3g} times the budget"
    return (
        f"{visited} That hangs on bits, not on q: {EXPOSURE} visits to each take {show_bits(needed)} per "
        f"node, {verdict}."
    )


def _why_schedule(out: Outlook) -> str:
    pairs, row, about = out.pairs, out.row("edge_local"), "" if out.pairs.exact else "about "
    gain = (row.contraction_per_mbit or 0) / (out.row("cosmo").contraction_per_mbit or 1)
    chosen = "as given" if out.wish.schedule != "auto" else "the fastest of those with a name"
    if out.wish.schedule == "auto" and pairs.name in ("maximal", "round_robin", "perfect"):
        chosen += "; zocosmo schedule finds the best law there is"
    return (
        f"Schedule {pairs.name} ({chosen}): pairs {about}{float(pairs.matched):.0%} of the nodes, λ₂ = "
        f"{about}{pairs.gap:.4g}; for a bit, disagreement contracts {gain:.3g} times as fast as with global "
        f"supports. Of a disagreement at the start, {about}{_left(row)} is left at the end at most."
    )


def _left(row: MethodCost) -> str:
    """(1 − γ)^T: the expected share of an initial disagreement that is left after all rounds."""
    kept = float(row.rounds < 1)
    if row.contraction < 1:
        kept = math.exp(row.rounds * math.log1p(-row.contraction))
    return f"{kept:.2%}" if kept >= 1e-4 else "less than 0.01%"


def _why_flood(out: Outlook) -> str:
    flood, pairs, n = out.row("flood"), out.row("edge_local"), out.net.graph.n
    ratio = float(flood.bits / pairs.bits)
    word = f"{ratio:,.3g} times" if ratio >= 1 else f"1/{round(1 / ratio, 1 if ratio > 0.1 else None):,} of"
    clock = "slower" if flood.seconds > pairs.seconds else "not slower"
    return (
        f"Flooding sends {word} the bits of edge-local at N = {n} and is {clock} by the clock; where all "
        f"are paired, it first sends more at N = {out.cross.bits:,} and is {_first_slower(out.cross)}. Not "
        f"counted: each node rebuilds others' dense directions, {(n - 1) * out.setting.d:,} signs a round."
    )


def _first_slower(cross: Crossover) -> str:
    if cross.seconds is not None:
        return f"first slower at N = {cross.seconds:,}"
    if cross.searched is None:
        return "never slower"
    return f"not slower up to N = {cross.searched}" if cross.searched else "slower at no known N"


def as_report(out: Outlook) -> dict[str, Any]:
    """The plan as data for JSON; bits per node, times in seconds."""
    setting = out.setting
    given = {"d": setting.d, "graph": out.net.graph.name, "nodes": out.net.graph.n, "budget": setting.budget}
    given |= {name: getattr(setting, name) for name in ("value_bits", "flooded_bits", "period")}
    given |= {name: float(getattr(setting, name)) for name in ("bandwidth", "latency", "query_time")}
    given["time"] = None if out.wish.seconds is None else float(out.wish.seconds)
    found = {"mean_degree": float(out.net.mean_degree), "diameter": out.net.diameter, "rho": out.net.rho}
    schedule = {"name": out.pairs.name, "matched": float(out.pairs.matched), "lambda2": out.pairs.gap}
    return {
        "setting": given,
        "q": out.q,
        "network": found,
        "schedule": {**schedule, "exact": out.pairs.exact},
        "methods": [_as_dict(row) for row in out.rows],
        "crossover": out.cross._asdict(),
        "choice": out.choice._asdict(),
        "why": out.why,
    }


def _as_dict(row: MethodCost) -> dict[str, Any]:
    seconds = {part: float(each) for part, each in row.parts.items()}
    return {
        "method": row.method,
        "bits_per_round": float(row.bits),
        "times_values": None if row.link_ratio is None else float(row.link_ratio),
        "rounds": row.rounds,
        "total_bits": float(row.total_bits),
        "stages": row.stages,
        "seconds": {**seconds, "round": float(row.seconds), "total": float(row.total_seconds)},
        "contraction": row.contraction,
        "contraction_per_mbit": row.contraction_per_mbit,
        "exact_agreement": row.agrees,
        "exposure": float(row.exposure),
        "coverage": row.coverage,
    }
