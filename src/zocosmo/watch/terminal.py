"""The same in a terminal, with Rich: status, curves in Braille dots, standings, nodes, events."""

import math
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zocosmo.errors import check_known
from zocosmo.watch.curve import GREATER, Curve, metrics_of
from zocosmo.watch.source import RUNNING, Facts, Source, age

EVERY = 0.5  # seconds
COLOURS = ("bright_blue", "orange1", "green3", "hot_pink", "yellow3", "cyan", "medium_purple1", "white")
STATES = {"running": "bright_blue", "finished": "green3", "stopped": "yellow3", "failed": "red"}
ROWS, EVENTS = 8, 6  # most lines of the standings, and of events
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille cell, by row and column
WIDTH, HEIGHT = 44, 9  # cells of the plot

Point = tuple[float, float]
Bits = dict[tuple[int, int], tuple[int, str]]  # cell → dots and colour


def draw(source: Source, metric: str = "", *, once: bool = False) -> None:
    """Draw until interrupted, or once."""
    console = Console(width=None if Console().is_terminal else 100)
    source.refresh()
    if metric:
        check_known("metric", metric, metrics_of(source.curves.values()))
    if once:
        console.print(frame(source, metric))
        return
    with Live(frame(source, metric), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(EVERY)
            source.refresh()
            live.update(frame(source, metric), refresh=True)


def frame(source: Source, metric: str = "") -> RenderableType:
    """Everything as of now."""
    status, metrics = source.status, metrics_of(source.curves.values())
    chosen = metric or (metrics[0] if metrics else "")
    parts: list[RenderableType] = [_head(source, status), _facts(status)]
    if status["text"]:
        parts.append(Text(str(status["text"]), style="yellow3"))
    if chosen:
        by_group: dict[str, list[Curve]] = {}
        for curve in source.curves.values():
            if len(curve):
                by_group.setdefault(curve.labels.group, []).append(curve)
        for group, curves in list(by_group.items())[-2:]:
            parts += ["", *_curves(group, curves, chosen)]
    parts += _network(source)
    parts += [Text(_event(event), style="dim") for event in source.events[-EVENTS:]]
    return Group(*parts)


def _head(source: Source, status: Facts) -> Text:
    head = Text(f"{source.title}  ", style="bold")
    head.append(f"{source.job}  ", style="dim")
    return head.append(str(status["state"]), style=f"bold {STATES[status['state']]}")


def _facts(status: Facts) -> RenderableType:
    done, left = status["done"], status["left"]
    words = []
    if done is not None:
        words.append(f"{done:.0%} done")
    if left is not None:
        words.append(f"about {clock(max(0.0, left - age(status)))} left")
    words.append(f"{clock(status['elapsed'])} so far")
    if status["trials"] > 1:
        words.append(f"{status['begun']} of {status['trials']} trials begun")
    words += [f"{status[name]} {name}" for name in ("diverged", "failures", "repairs") if status.get(name)]
    if status["state"] == RUNNING and age(status) > EVERY * 4:
        words.append(f"last sign of life {clock(age(status))} ago")
    words += [str(status["note"])] if status["note"] else []
    row = Table.grid(padding=(0, 2))
    row.add_row(ProgressBar(total=1.0, completed=done or 0.0, width=24), Text("   ".join(words)))
    return row


def _curves(group: str, curves: Sequence[Curve], metric: str) -> list[RenderableType]:
    """A plot against bits (rounds where nothing is sent), and the standings beside it."""
    order = _standings(curves, metric)
    colours = {method: COLOURS[k % len(COLOURS)] for k, (method, *_) in enumerate(order[: len(COLOURS)])}
    across = "bits" if any(curve.last("bits") > 0 for curve in curves) else "round"
    lines = [
        (colours[curve.labels.method], _points(curve, across, metric))
        for curve in curves
        if curve.labels.method in colours
    ]
    standings = Table(box=None, pad_edge=False)
    for name, side in (("method", "left"), (metric, "right"), (across, "right"), ("runs", "right")):
        standings.add_column(name, justify=side, header_style="dim")  # type: ignore[arg-type]
    for method, value, most, runs in order[:ROWS]:
        style = colours.get(method, "dim")
        standings.add_row(Text(method, style=style), f"{value:.4g}", si(most[across]), str(runs))
    both = Table.grid(padding=(0, 3))
    both.add_column(no_wrap=True, min_width=WIDTH + 10)
    both.add_column()
    both.add_row(plot([each for each in lines if each[1]]), standings)
    return [*([Text(group, style="bold")] if group else []), both]


def _points(curve: Curve, across: str, metric: str) -> list[Point]:
    pairs = zip(curve.values(across).tolist(), curve.values(metric).tolist(), strict=True)
    return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def _standings(curves: Sequence[Curve], metric: str) -> list[tuple[str, float, dict[str, float], int]]:
    """Method, mean of the last values, the most of what was spent, runs; the best first."""
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        found.setdefault(curve.labels.method, []).append(curve)
    rows = []
    for method, runs in found.items():
        last = [curve.last(metric) for curve in runs if not curve.is_diverged]
        mean = sum(last) / len(last) if last else math.nan
        most = {name: max(curve.last(name) for curve in runs) for name in ("bits", "round")}
        rows.append((method, mean, most, len(runs)))
    sign = -1.0 if metric in GREATER else 1.0
    return sorted(rows, key=lambda row: (math.isnan(row[1]), sign * row[1]))


def plot(lines: Sequence[tuple[str, Sequence[Point]]]) -> Text:
    """Lines in Braille dots, with the least and the largest value beside them."""
    values = [y for _, points in lines for _, y in points]
    right = max((x for _, points in lines for x, _ in points), default=0.0)
    if not values or right <= 0:
        return Text("no rows yet", style="dim")
    low, high = min(values), max(values)
    is_log = low > 0 and high / low > 20
    scale = math.log if is_log else float
    bottom, top = scale(low), scale(high)
    cells: Bits = {}
    for colour, points in lines:
        at = [(x / right, (scale(y) - bottom) / ((top - bottom) or 1.0)) for x, y in points]
        _trace(cells, colour, [(u * (2 * WIDTH - 1), (1 - v) * (4 * HEIGHT - 1)) for u, v in at])
    return _as_text(cells, low, high)


def _trace(cells: Bits, colour: str, points: Sequence[Point]) -> None:
    """Set the dots along a line."""
    for (x0, y0), (x1, y1) in zip([points[0], *points], points, strict=False):
        steps = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
        for k in range(steps + 1):
            x, y = round(x0 + (x1 - x0) * k / steps), round(y0 + (y1 - y0) * k / steps)
            dots, _ = cells.get((y // 4, x // 2), (0, ""))
            cells[y // 4, x // 2] = dots | DOTS[y % 4][x % 2], colour


def _as_text(cells: Bits, low: float, high: float) -> Text:
    out = Text()
    for row in range(HEIGHT):
        side = f"{high:.3g}" if row == 0 else f"{low:.3g}" if row == HEIGHT - 1 else ""
        out.append(f"{side:>9} ", style="dim")
        for column in range(WIDTH):
            dots, colour = cells.get((row, column), (0, ""))
            out.append(chr(0x2800 + dots), style=colour)
        out.append("\n" if row < HEIGHT - 1 else "")
    return out


def _network(source: Source) -> list[RenderableType]:
    """Nodes and whom they wait for; pairs of the round; batches that run."""
    out: list[RenderableType] = [""]
    if nodes := source.nodes:
        table = Table("node", "", "round", "waited", box=None, pad_edge=False, header_style="dim")
        for each in nodes[:16]:
            share = f"{each['waited'] / each['seconds']:.0%}" if each.get("seconds") else "–"
            whom = f" for {each['for']}" if each.get("for") is not None else ""
            names = ", ".join(map(str, each["nodes"]))
            table.add_row(names, f"{each['state']}{whom}", f"{each['round']:,}", share)
        out.append(table)
    graph = source.graph
    if graph and graph["pairs"] and source.status["state"] == RUNNING:
        pairs = "  ".join(f"{i}–{j}" for i, j in graph["pairs"][:16])
        out.append(Text(f"round {graph['round']:,}: {pairs}", style="orange1"))
    out += [
        Text(f"batch {each['batch']}: {each['of']}, …: round {each['round']:,} of {each['rounds']:,}")
        for each in source.work[:4]
    ]
    return [*out, ""]


def _event(event: dict[str, Any]) -> str:
    return f"{clock(event['s']):>12}  {event['what']:<10} {event['text']}"


def clock(seconds: float) -> str:
    """A duration in a few characters.

    >>> clock(7.25), clock(75), clock(3700)
    ('7.2 s', '1:15 min', '1:01 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def si(value: float) -> str:
    """1234567 as 1.23M."""
    if not math.isfinite(value):
        return "–"
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"
