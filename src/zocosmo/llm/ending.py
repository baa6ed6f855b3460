"""What a fine-tuning run came to: shares of its log, a forecast of its end, and the table it ends with."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zocosmo.experiments.plan import Plan
from zocosmo.llm.rivals import rivals
from zocosmo.methods.base import Method


class Seen(NamedTuple):
    """What a checkpoint says of one run."""

    round: int
    loss: float  # on validation examples
    failures: float | None  # messages that could not be read, all nodes; None: every message can be
    disagreement: float
    moved: float
    queries: int  # all nodes


def unread(seen: Seen, method: Method, links: int) -> float | None:
    """The share of messages that could not be read."""
    if seen.failures is None:
        return None
    if method.kind == "edge_local":  # a message to each node that asked
        sides = method.vectors + 1 if method.is_one_sided else 2 * method.vectors
        heard = seen.queries / sides
    else:
        heard = float(seen.round * links)
    return seen.failures / heard if heard else 0.0


def apart(seen: Seen) -> float:
    """The root mean square distance of nodes from their average, as a share of how far that has moved."""
    return math.sqrt(max(seen.disagreement, 0.0)) / seen.moved if seen.moved else 0.0


def forecast(seen: Sequence[Seen], method: Method, rounds: int) -> float | None:
    """The loss at the end, if it goes on falling with the length of the steps as between the last two
    checkpoints; None before there are two, or when nothing is left."""
    if len(seen) < 2 or seen[-1].round >= rounds:
        return None
    before, now = seen[-2:]
    walked = math.fsum(method.decay.factor(t) for t in range(before.round, now.round))
    ahead = math.fsum(method.decay.factor(t) for t in range(now.round, rounds))
    return max(now.loss - (before.loss - now.loss) * ahead / walked, 0.0) if walked else now.loss


class Line(NamedTuple):
    """A line of the table of bits."""

    name: str
    mbit: float
    ratio: float  # to this run


def bill(plan: Plan, d: int, bits: float, rounds: int) -> list[Line]:
    """What each node sent, and what it would have sent with other methods in as many rounds, of as many
    directions each."""
    method, graph = plan.trials[0].method, plan.trials[0].graph_of()
    others = rivals(graph, rounds, d=d, directions=method.vectors)
    names = [f"{each.name}, with {each.needs}" if each.needs else each.name for each in others]
    lines = [Line(f"this run, {method.kind}", bits / 1e6, 1.0)]
    pairs = zip(names, others, strict=True)
    return [
        *lines,
        *(Line(name, each.bits / 1e6, each.bits / bits if bits else math.inf) for name, each in pairs),
    ]


def ending(
    before: Mapping[str, Any], after: Mapping[str, Any], method: Method, links: int
) -> list[tuple[str, str, str]]:
    """Rows of what was learnt: a name, before, after."""
    seen = last_seen(after)
    rows = [
        ("accuracy", f"{before['accuracy']:.1%}", f"{after['accuracy']:.1%}"),
        ("validation loss", f"{before['objective']:.4f}", f"{after['objective']:.4f}"),
    ]
    if "examples" in after:
        rows.append(("examples evaluated by a node", "", f"{after['examples']:,.0f}"))
    rows.append(("distance between nodes, of that moved", "", f"{apart(seen):.1%}"))
    if (lost := unread(seen, method, links)) is not None:
        rows.append(("messages that could not be read", "", f"{lost:.1%}"))
    return rows


def last_seen(row: Mapping[str, Any]) -> Seen:
    """A row of a log."""
    failures = row.get("failures")
    return Seen(
        int(row["round"]),
        float(row["objective"]),
        None if failures is None else float(failures),
        float(row["disagreement"]),
        float(row["moved"]),
        int(row["queries"]),
    )
