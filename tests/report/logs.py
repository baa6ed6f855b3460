"""A log made by hand, with numbers whose means and deviations can be checked in the head."""

import pandas as pd

N = 4

#          graph   method    seed  bits of a round  objective at rounds 0, 10, 20    diverged in its last row
TRIALS = [
    ("ring", "sparse", "1", 10, [8.0, 4.0, 2.0], False),
    ("ring", "sparse", "2", 10, [8.0, 2.0, 1.0], False),
    ("ring", "sparse", "3", 10, [8.0, 6.0, 3.0], False),
    ("ring", "dense", "1", 100, [8.0, 3.0, 1.0], False),
    ("ring", "dense", "2", 100, [8.0, 5.0, 2.0], False),
    ("ring", "dense", "3", 100, [8.0, 1e9], True),
    ("grid", "sparse", "1", 15, [16.0, 8.0, 4.0], False),
    ("grid", "sparse", "2", 15, [16.0, 4.0, 2.0], False),
    ("grid", "sparse", "3", 17, [16.0, 12.0, 6.0], False),
    ("grid", "dense", "1", 150, [16.0, 1e9], True),
    ("grid", "dense", "2", 150, [16.0, 24.0, 1e9], True),
]


def checkpoint(trial, t, objective):
    graph, method, seed, cost, _, _ = TRIALS[trial]
    bits = {"value_bits": N * cost * t, "index_bits": 0, "control_bits": 0, "framing_bits": 0}
    labels = {"trial": trial, "problem": "bowl", "graph": graph, "method": method, "seed": seed, "n": N}
    counts = {"round": t, "bits": float(cost * t), **bits, "queries": 2 * N * t, "stages": t}
    return {**labels, **counts, "objective": objective, "local": objective, "disagreement": float(t)}


def hand_made_log():
    rows = [
        {**checkpoint(k, 10 * step, objective), "diverged": lost and step == len(objectives) - 1}
        for k, (*_, objectives, lost) in enumerate(TRIALS)
        for step, objective in enumerate(objectives)
    ]
    return pd.DataFrame(rows)


def part_of(log, **labels):
    """The rows that carry these labels."""
    for name, value in labels.items():
        log = log[log[name] == value]
    return log
