"""Views: what is new to one reader since it last asked, as JSON data, thinned to what a screen can show."""

import json
import math
import time
from typing import Any

from zocosmo.errors import check_known
from zocosmo.watch.curve import ACROSS, GREATER, Curve, Values, metrics_of, thinned
from zocosmo.watch.source import Source

MOST_POINTS = 60_000  # of all curves together
MOST_CURVES = 3_000
LEAST_EACH, MOST_EACH = 12, 600  # points of one curve

News = dict[str, Any]


class Sent:
    """What a reader has of one curve."""

    def __init__(self) -> None:
        self.rows = self.points = 0
        self.generation = -1


class View:
    """One reader of a source, who looks at one metric."""

    def __init__(self, source: Source, metric: str = "") -> None:
        self.source, self._asked = source, metric
        self._epoch = source.epoch
        self._forget()

    def _forget(self) -> None:
        self._sent: dict[str, Sent] = {}
        self._facts: dict[str, str] = {}  # the parts that were sent, as text
        self._events = 0
        self._metric = ""

    def news(self) -> News | None:
        """What changed; None if nothing did. The first one, and one after a restart, begins anew."""
        out: News = {}
        source = self.source
        metrics = metrics_of(source.curves.values())
        if self._asked and metrics:
            check_known("metric", self._asked, metrics)
        metric = self._asked or (metrics[0] if metrics else "")
        if not self._facts or source.epoch != self._epoch or metric != self._metric:
            self._forget()
            self._epoch, self._metric = source.epoch, metric
            out["anew"] = True
        about: News = {"title": source.title, "job": source.job, "path": source.path, "metric": metric}
        about |= {"metrics": metrics, "greater": metric in GREATER, "budgets": list(source.budgets)}
        parts = {"about": about, "status": source.status, "work": source.work, "nodes": source.nodes}
        out |= self._changed({**parts, "graph": source.graph})
        self._add_curves(out)
        if len(source.events) > self._events:
            out["events"] = source.events[self._events :]
            self._events = len(source.events)
        return {**out, "now": time.time()} if out else None

    def _changed(self, parts: dict[str, Any]) -> News:
        """The parts that differ from what was sent; of the graph only what changes if its edges do not."""
        found = {}
        for name, part in parts.items():
            text = json.dumps(part, default=str)
            if self._facts.get(name) != text:
                self._facts[name] = text
                found[name] = part
        if "graph" in found and found["graph"] is not None:
            edges = json.dumps(found["graph"]["edges"])
            if self._facts.get("edges") == edges:
                found["graph"] = {name: part for name, part in found["graph"].items() if name != "edges"}
            self._facts["edges"] = edges
        return found

    def _add_curves(self, out: News) -> None:
        curves = {key: curve for key, curve in self.source.curves.items() if len(curve)}
        every = math.ceil(len(curves) / MOST_CURVES)
        each = min(MOST_EACH, max(LEAST_EACH, MOST_POINTS // max(1, len(curves))))
        names, points = {}, {}
        for number, (key, curve) in enumerate(curves.items()):
            if number % max(1, every):
                continue
            if key not in self._sent:
                names[key] = list(curve.labels)
            if (found := self._points(curve, self._sent.setdefault(key, Sent()), each)) is not None:
                points[key] = found
        if names:
            out["curves"] = names
        if points:
            out["points"] = points
        if every > 1 and names:
            out["sampled"] = every

    def _points(self, curve: Curve, sent: Sent, each: int) -> News | None:
        """New points; all of them again, thinned, where a curve was replaced or has too many."""
        size = len(curve)
        if curve.generation == sent.generation and size == sent.rows:
            return None
        fresh = size - sent.rows
        if curve.generation == sent.generation and sent.points + fresh <= 2 * each:
            sent.rows, sent.points = size, sent.points + fresh
            return self._part(curve, slice(size - fresh, None))
        kept = thinned(curve.values(self._metric), each)
        sent.rows, sent.points, sent.generation = size, len(kept), curve.generation
        return {"anew": True, **self._part(curve, kept)}

    def _part(self, curve: Curve, rows: Any) -> News:
        found = {name: curve.values(name)[rows] for name in (*ACROSS, self._metric)}
        found["queries"] = found["queries"] / curve.labels.n  # by node, as bits are
        part: News = {name: short(values) for name, values in found.items() if name in ACROSS}
        part["y"] = short(found[self._metric])
        ends = {"over": curve.is_whole, "diverged": curve.is_diverged}
        return {**part, **{name: True for name, found in ends.items() if found}}


def short(values: Values) -> list[float | int | None]:
    """Numbers with seven digits; whole ones as such, and None for those that JSON has not."""
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.7g}")
