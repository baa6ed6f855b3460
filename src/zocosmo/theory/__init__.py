"""The paper's closed forms as functions, exact where the paper is.

Theory imports nothing else of the package, so that it can disagree with the code. Import modules from here,
`from zocosmo.theory import moments`, or names from modules, `from zocosmo.theory.moments import crossover`.
"""

from zocosmo.theory import (
    bounds,
    certificates,
    coverage,
    exact,
    law,
    mixing,
    moments,
    momentum,
    orders,
    payload,
    rates,
    repeated,
    ring,
    schedule,
    stability,
    steps,
)

__all__ = [
    "bounds",
    "certificates",
    "coverage",
    "exact",
    "law",
    "mixing",
    "moments",
    "momentum",
    "orders",
    "payload",
    "rates",
    "repeated",
    "ring",
    "schedule",
    "stability",
    "steps",
]
