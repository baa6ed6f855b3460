"""The paper's closed forms as functions, exact where the paper is.

Theory imports nothing else of the package, so that it can disagree with the code. Import modules from here,
`from zocosmo.theory import moments`, or names from modules, `from zocosmo.theory.moments import crossover`.
"""

import zocosmo.theory.bounds as bounds
import zocosmo.theory.certificates as certificates
import zocosmo.theory.coverage as coverage
import zocosmo.theory.directions as directions
import zocosmo.theory.dither as dither
import zocosmo.theory.exact as exact
import zocosmo.theory.grid as grid
import zocosmo.theory.law as law
import zocosmo.theory.mixing as mixing
import zocosmo.theory.moments as moments
import zocosmo.theory.momentum as momentum
import zocosmo.theory.payload as payload
import zocosmo.theory.rates as rates
import zocosmo.theory.repeated as repeated
import zocosmo.theory.ring as ring
import zocosmo.theory.schedule as schedule
import zocosmo.theory.sides as sides
import zocosmo.theory.stability as stability
import zocosmo.theory.steps as steps
import zocosmo.theory.subspace as subspace
import zocosmo.theory.touches as touches

__all__ = [
    "bounds",
    "certificates",
    "coverage",
    "directions",
    "dither",
    "exact",
    "grid",
    "law",
    "mixing",
    "moments",
    "momentum",
    "payload",
    "rates",
    "repeated",
    "ring",
    "schedule",
    "sides",
    "stability",
    "steps",
    "subspace",
    "touches",
]
