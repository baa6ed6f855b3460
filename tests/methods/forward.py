"""What tests of forward-only methods share: a node's slope written out, runs seen round by round, moments."""

import numpy as np

from zocosmo.sim.engine import Simulation


def slope(problem, i, x, z, mu, t):
    """[f_i(x + μz) − f_i(x − μz)] / 2μ, asked as if the node stood alone."""
    plus, minus = (problem(np.tile(point, (problem.n, 1)), t)[i] for point in (x + mu * z, x - mu * z))
    return (plus - minus) / (2 * mu)


def seen(run, rounds, x=None, **options):
    """States (n, d) after each round, from x where it is given, and the simulation."""
    simulation, out = Simulation([run], **options), []
    if x is not None:
        simulation.state = simulation.method.init(x[None].copy())
    for _ in range(rounds):
        simulation.round()
        out.append(simulation.states()[0])
    return out, simulation


def worst_score(samples, expected):
    """The largest |mean − expected| in standard errors of the mean; independent samples lie on axis 0."""
    error = samples.std(axis=0) / np.sqrt(len(samples))
    return np.max(np.abs(samples.mean(axis=0) - expected) / np.where(error > 0, error, 1))
