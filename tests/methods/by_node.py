"""For second versions of methods: nodes one by one, what each may ask, and what crosses a wire."""

import numpy as np

from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.payload import Bits
from zocosmo.core.price import PRICES
from zocosmo.core.tape import Tape
from zocosmo.core.values import F32
from zocosmo.problems.quadratic import quadratic
from zocosmo.sim.engine import Run, Simulation

ETA, MU, SEED = 2.0**-6, 2.0**-10, 5
WIRES = {"nominal_f32": np.float64, "f16": np.float16}


class Nodes:
    """n nodes with private losses, all at the common start, and a tape that all of them read."""

    def __init__(self, graph, d, wire="nominal_f32"):
        self.graph, self.n, self.d, self.tape = graph, graph.n, d, Tape(SEED)
        self.problem = quadratic(graph.n, 3, d=d, omega=0.5, zeta=1.0, sigma=0.25)
        self.x = [self.problem.x0.copy() for _ in range(graph.n)]
        self.wire = wire

    def slope(self, i, x, u, t):
        """(f_i(x + μu) − f_i(x − μu)) / 2μ with the sample of round t."""
        f_plus, f_minus = (
            self.problem(np.broadcast_to(x + sign * (MU * u), (self.n, self.d)), t)[i] for sign in (1, -1)
        )
        return (f_plus - f_minus) / (2 * MU)

    def cross(self, values):
        """Values as they are heard."""
        return np.asarray(values).astype(WIRES[self.wire]).astype(np.float64)

    def simulation(self, method, **options):
        run = Run(method, self.graph, self.problem, SEED)
        return Simulation([run], wire=self.wire, **options)


def largest(v, q):
    """The q largest in magnitude, the lowest index first where they tie; in ascending order."""
    return sorted(sorted(range(len(v)), key=lambda j: (-abs(v[j]), j))[:q])


def lifted(d, at, values):
    out = np.zeros(d)
    out[at] = values
    return out


def bill(codec, d, sizes):
    """What messages of these sizes cost, with their frames; no coordinates where all d are cheaper."""
    total = Bits()
    for size in sizes:
        dense = PRICES["dense"](d, d, F32)
        each = dense if size == d else PRICES[codec](d, size, F32)
        total = total.plus(min(each, dense, key=lambda bits: bits.total)).plus(FRAME_BITS)
    return total
