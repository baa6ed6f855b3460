"""Short runs of the studies on quadratics, and cells that nobody ran."""

import math
from dataclasses import replace
from pathlib import Path

from zocosmo.experiments.run import run_plan
from zocosmo.report.budget import Cell
from zocosmo_paper.item import Evidence
from zocosmo_paper.plans import load_config

SEEDS, ROUNDS = 2, 40
SPREAD = (-1.5, -0.5, 0.5, 1.5)  # of mean 0; the std over four is √(5/3)


def short(name):
    """A config with two seeds and two checkpoints after the start."""
    return replace(load_config(name, SEEDS), rounds=ROUNDS)


def evidence_of(name):
    return Evidence({name: run_plan(short(name)).rows}, SEEDS, Path("none"))


def made(mean, std):
    """A cell of four seeds with that mean and std."""
    values = {str(k): mean + std * away / math.sqrt(5 / 3) for k, away in enumerate(SPREAD)}
    return Cell(mean, std, values, 0, (ROUNDS, ROUNDS))


def verdicts(claims):
    return {claim.words: claim.verdict for claim in claims}
