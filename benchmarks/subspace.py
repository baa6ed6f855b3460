"""A round in a public subspace, d = 460,800, m = 4,096, q = 256, 4 nodes.   python benchmarks/subspace.py

A query asked in x, against x computed anew from z: q/m of the coordinates, at most a third of the time
A step that writes x beside z, against x computed anew: q/m of them, at random places
"""

from collections.abc import Callable

import numpy as np
from timing import race, report

from zocosmo.core.subspace import Subspace
from zocosmo.core.support import draw_direction
from zocosmo.core.tape import Tape
from zocosmo.oracle import Query
from zocosmo.subspace import KEPT, Lifting

D, M, Q, N = 460_800, 4096, 256, 4


def main() -> None:
    lifting = Lifting(Subspace(Tape(0), d=D, m=M), np.zeros(D))
    state, values = lifting.start(N, np.float32, beside=True), np.ones((N, Q), np.float32)
    for coupling, ids in (("G", (np.zeros(1, int),)), ("I", (np.arange(N),))):
        us = [draw_direction(Tape(0), t, *ids, d=M, q=Q) for t in range(2 * KEPT)]  # none is kept for long

        def each(call: Callable[..., object], us: list[object] = us) -> Callable[[], object]:
            return lambda: [call(u) for u in us]

        took = race(
            {
                "query": each(lambda u: lifting.query(Query(state, (u,), 0.01))),
                "step": each(lambda u: state.put(u, values)),
                "anew": each(lambda _: lifting.lift(state.z)),
            },
            trials=5,
        )
        for what, aim in (("query", "≥ 3×"), ("step", "≥ 1×")):
            about = {"unit": 1e3 / len(us), "name": "ms"}
            report(f"{coupling}: a {what}, against x anew", took[what], took["anew"], aim, **about)


if __name__ == "__main__":
    main()
