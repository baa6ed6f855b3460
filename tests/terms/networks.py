"""Networks for tests: a linear problem on which arithmetic is exact, and records made by hand."""

import numpy as np

from zocosmo.graphs import GRAPHS
from zocosmo.methods import METHODS
from zocosmo.oracle import Problem
from zocosmo.sim import Run
from zocosmo.sim.living import LivingSimulation
from zocosmo.terms import (
    Dead,
    Half,
    Header,
    Record,
    Skip,
    Topology,
    all_terms,
    change_members,
    first_term,
)

SEED = 7


class Linear(Problem):
    """F_i(x) = g_i · x with small whole g_i: slopes are exact."""

    def __init__(self, g):
        self.g, (self.n, self.d) = g, g.shape[-2:]

    @property
    def x0(self):
        return np.zeros(self.d)

    def local(self, x):
        return (self.g * x).sum(axis=-1)

    def __call__(self, x, t, *, active=None):
        return self.local(x)

    def at(self, nodes):
        return Linear(self.g[..., list(nodes), :])

    @classmethod
    def stack(cls, problems):
        return cls(np.stack([problem.g for problem in problems]))


def linear(n, d=8):
    return Linear(np.random.default_rng(1).integers(-3, 4, (n, d)).astype(float))


def topology(kind="ring", n=8, schedule="auto", **options):
    drawn = {"seed": SEED} if kind in ("rings", "random_regular") else {}
    graph = GRAPHS[kind](n, **options, **drawn)
    return Topology.of({"kind": kind, "n": n, "schedule": schedule, **options}, SEED, graph)


def method(kind, **options):
    return METHODS[kind](**{"q": 2, "eta": 2.0**-4, "mu": 0.5, **options})


def eventful(rules, rounds, *, changes, failing=2):
    """A record: changes of members by round, and in every round failures of some pairs that are linked."""
    term, events, rng = first_term(rules), [], np.random.default_rng(2)
    for t in range(rounds):
        if t in changes:
            made, term = change_members(term, t, **changes[t])
            events += made
        links = term.ids[term.graph.ends]
        for k, pair in enumerate(links[rng.permutation(len(links))[:failing]].tolist()):
            event = Skip(round=t, pair=pair) if k % 2 else Half(round=t, pair=pair, by=pair[t % 2])
            events.append(event)
    return Record(Header(plan="p", n=rules.founders.n, seed=SEED), tuple(events))


def living(rules, record, how, *, problem=None, **options):
    problem = linear(rules.founders.n) if problem is None else problem
    run = Run(how, rules.founders, problem, SEED, rules.schedule)
    return LivingSimulation(run, record, all_terms(record, rules), **options)


def active(sim, t):
    """Who takes a step in round t: those with a partner, but not the dead."""
    partners = vars(sim.draws.at(t)).get("partners", np.full((1, sim.channel.n), -1))[0]
    dead = [e.node for e in sim.record.events if isinstance(e, Dead) and e.since <= t < e.round]
    return (partners != np.arange(sim.channel.n)) & ~np.isin(sim.term.ids, dead)
