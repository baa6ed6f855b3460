"""What `zocosmo check` checks without a config: small cases that cover every formula."""

from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import Plan, read_plan

TEXTS = {
    "couplings": """\
problem: {kind: quadratic, d: 8, omega: 0.6, zeta: 2.0, sigma: 0.5}
graphs: [{kind: complete, n: 6}, {kind: ring, n: 6, schedule: iid}]
methods:
  - {kind: edge_local, coupling: [G, S, I], q: 2, eta: 0.016, mu: 1.0e-3}
  - {kind: edge_local, coupling: G, q: 2, eta: 0.04, beta: 0.9, mu: 1.0e-3, label: momentum}
  - {kind: edge_local, coupling: [G, I], q: 2, eta: 1.0e-3, mu: 1.0e-3, problem: {sigma: 0.0}}
seeds: [1]
rounds: 200
budgets: [10_000]
""",
    "schedules": """\
problem: {kind: quadratic, d: 8, omega: 0.6, zeta: 2.0}
graphs: [{kind: ring, n: 6}, {kind: grid, n: 6}, {kind: star, n: 5, schedule: round_robin}]
methods:
  - {kind: edge_local, coupling: [S, I], q: 2, eta: 0.016, mu: 1.0e-3}
  - {kind: edge_local, q: 3, eta: 0.016, mu: 1.0e-3, rule: balanced, codec: indexed, label: balanced}
seeds: [1]
rounds: 200
""",
    "neighbours": """\
problem: {kind: quadratic, d: 8, omega: 0.6, zeta: 2.0, sigma: 0.5}
graphs: [{kind: ring, n: 6}, {kind: erdos_renyi, n: 6, p: 0.5}]
methods:
  - {kind: cosmo, q: 2, eta: 0.016, mu: 1.0e-3, passes: [1, 2]}
  - {kind: cosmo, q: 2, eta: 0.016, mu: 1.0e-3, codec: indexed, label: with indices}
  - {kind: cosmo, q: 2, eta: 1.0e-3, mu: 1.0e-3, label: a small step}
  - {kind: rand_k, q: 2, eta: 0.004, mu: 1.0e-3}
  - {kind: com_dszo, q: 2, eta: 0.001, mu: 1.0e-3}
  - {kind: dense, eta: 0.001, mu: 1.0e-3}
  - {kind: flood, eta: 0.001, mu: 1.0e-3}
  - {kind: tree_mean, q: 2, eta: 0.004, mu: 1.0e-3}
  - {kind: tree_mean, q: 4, directions: 4, hold: 2, eta: 0.004, mu: 1.0e-3, wire: grid4, label: on a grid}
seeds: [1]
rounds: 200
budgets: [10_000]
""",
    "rosenbrock": """\
problem: {kind: rosenbrock, d: 20}
graphs: [{kind: complete, n: 5}]
methods:
  - {kind: cosmo, q: 2, eta: 2.5e-3, mu: 5.0e-3}
  - {kind: edge_local, q: 2, eta: 2.5e-3, mu: 5.0e-3}
  - {kind: marina_type, q: 2, period: 5, eta: 2.5e-3, mu: 5.0e-3}
seeds: [1]
rounds: 200
budgets: [20_000]
""",
}


def default_plans() -> list[Plan]:
    """Quadratics on matchings and among neighbours, and Rosenbrock functions for the other methods."""
    return [read_plan(Config(text, name), name) for name, text in TEXTS.items()]
