"""A small problem, methods for it, and its losses as people would write them."""

from dataclasses import fields

import numpy as np

from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.graphs import complete
from zocosmo.methods import METHODS
from zocosmo.problems import rosenbrock

PROBLEM = rosenbrock(4, 1, d=6)
SMALL = {"q": 2, "eta": 2e-3, "mu": 0.01}
MORE = {"rank": 2, "calibration": 4}  # of methods that know them
OWN = {"marina": {"directions": 2}}


def build(name, **change):
    known = {field.name for field in fields(METHODS[name])}
    given = {**SMALL, **MORE, **OWN.get(name, {}), **change}
    return METHODS[name](**{k: v for k, v in given.items() if k in known})


def make(method, graph=None, **options):
    return Optimizer(PROBLEM.x0, graph=graph or complete(4), method=method, seed=3, **options)


def local(i):
    """f_i of the problem as people would write it."""
    s = PROBLEM.shifts[i]
    return lambda x: PROBLEM.local(np.broadcast_to(x, (4, 6)) - s + PROBLEM.shifts)[i]
