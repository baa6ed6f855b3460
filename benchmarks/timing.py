"""Timing for benchmarks: alternatives take turns in one run, so that they see the same machine."""

import time
from collections.abc import Callable, Mapping


def race(
    alternatives: Mapping[str, Callable[[], object]], *, trials: int = 31, repeat: int = 1
) -> dict[str, float]:
    """Median seconds of each alternative over `trials` rounds of turns, `repeat` calls a turn."""
    seconds: dict[str, list[float]] = {name: [] for name in alternatives}
    for name in alternatives:
        alternatives[name]()
    for _ in range(trials):
        for name, call in alternatives.items():
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            seconds[name].append((time.perf_counter() - start) / repeat)
    return {name: sorted(taken)[trials // 2] for name, taken in seconds.items()}


def report(title: str, ours: float, theirs: float, aim: str, *, unit: float = 1e6, name: str = "µs") -> None:
    """One line: ours, theirs, and how many times as fast ours is."""
    figures = f"{ours * unit:10.1f} {name}  against {theirs * unit:10.1f} {name}"
    print(f"{title:62s} {figures}   {theirs / ours:6.2f}×   aim: {aim}")
