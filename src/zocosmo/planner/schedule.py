"""The law of matchings that mixes a graph fastest, beside the named schedules."""

from typing import Any

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import MAX_EXACT_NODES, SCHEDULES, expected_laplacian, fits, mean_laplacian
from zocosmo.graphs.weights import laplacian_gap
from zocosmo.methods.base import default_schedule
from zocosmo.theory.schedule import best_schedule, mixing_efficiency, round_contraction

ROUNDS = 20_000  # of an estimate


def schedule_report(
    graph: Graph,
    entry: dict[str, Any],
    *,
    q: int,
    d: int,
    per: str = "round",
    tolerance: float = 1e-9,
    total: int = 2**40,
) -> dict[str, Any]:
    """The best laws beside the schedules that need no search, as plain data."""
    try:
        found = {
            each: best_schedule(graph.n, graph.edges, per=each, tolerance=tolerance, total=total)
            for each in ("round", "scalar")
        }
    except ValueError as error:
        raise InputError(str(error)) from None
    best = found[per]
    laws = {f"best per {each}": (law.lambda2, float(law.pairs), True) for each, law in found.items()}
    laws |= _plain_laws(graph)
    return {
        "graph": graph.name,
        "n": graph.n,
        "q": q,
        "d": d,
        "p": q / d,
        "schedules": [_row(name, graph.n, *law, q=q, d=d) for name, law in laws.items()],
        "best": {"per": per, "value": best.value, "upper_bound": best.upper_bound, "gap": best.gap},
        "edges": [list(pair) for pair in graph.edges],
        "shares": [float(share) for share in best.edge_marginals],
        "schedule": {
            "matchings": [[list(pair) for pair in pairs] for pairs, _ in best.law.listed()],
            "weights": best.whole_weights(),
        },
        "config": entry,
    }


def _plain_laws(graph: Graph) -> dict[str, tuple[float, float, bool]]:
    """λ₂, E|M| and whether both are exact, for the named schedules; `auto` is one of them."""
    auto, laws = default_schedule(graph), {}
    others = ["perfect"] if auto == "maximal" and fits("perfect", graph) else []
    for name in dict.fromkeys([auto, "maximal", "round_robin", *others]):
        if name == "maximal" and auto == "complete":
            continue  # the same law, and slow to count
        schedule = SCHEDULES[name](graph)
        exact = name != "maximal" or graph.n <= MAX_EXACT_NODES
        mean = expected_laplacian(schedule) if exact else mean_laplacian(schedule, Tape("schedule"), ROUNDS)
        label = f"{name} (auto)" if name == auto else name
        laws[label] = laplacian_gap(mean), float(mean.trace()) / 2, exact
    return laws


def _row(name: str, n: int, lambda2: float, pairs: float, exact: bool, *, q: int, d: int) -> dict[str, Any]:
    """γ = qλ₂/2d per round, for 2q E|M| scalars sent."""
    gamma = float(round_contraction(lambda2, q=q, d=d))
    return {
        "schedule": name,
        "lambda2": lambda2,
        "pairs": pairs,
        "contraction": gamma,
        "per_scalar": gamma / (2 * q * pairs),
        "efficiency": float(mixing_efficiency(lambda2, n=n, pairs=pairs)),
        "exact": exact,
    }
