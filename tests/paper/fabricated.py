"""Logs that nobody ran: what the paper prints, as if it had been measured."""

from fractions import Fraction

import pandas as pd

N, EVERY = 10, 10
VALUE, INDEXED = 32, 37  # bits of one value, without and with its place among 20


def flat(value, rounds=3000):
    """The same objective at every checkpoint."""
    return dict.fromkeys(range(0, rounds + 1, EVERY), value)


def fabricate(runs):
    """A log of runs, each (graph, method, seed, degree, message bits, {round: objective})."""
    frames = []
    for trial, (graph, method, seed, degree, message, path) in enumerate(runs):
        rounds = list(path)
        bill = [int(t * Fraction(degree) * N * message) for t in rounds]
        about = {"trial": trial, "problem": "rosenbrock", "graph": graph, "method": method, "seed": str(seed)}
        columns = {"n": N, "round": rounds, "bits": [each / N for each in bill], "diverged": False}
        values = {"value_bits": [each * VALUE // message for each in bill], "objective": list(path.values())}
        frames.append(pd.DataFrame({**about, **columns, **values, "disagreement": 0.0}))
    return pd.concat(frames, ignore_index=True)


def verdicts(findings):
    return {claim.words: claim.verdict for claim in findings.claims}


def shifted(log, by, **where):
    """A log with the objective of some runs moved."""
    hit = pd.Series(True, index=log.index)
    for column, value in where.items():
        hit &= log[column] == value
    assert hit.any()
    return log.assign(objective=log["objective"].where(~hit, log["objective"] + by))
