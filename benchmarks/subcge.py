"""Applying the flooded scalars of a round, d = 2^20, rank 16.   python benchmarks/subcge.py

SubCGE gathers N scalars and takes U A Vᵀ once: 512 nodes against 8, at most 1.5 times the time
N dense updates one by one, directions given: N times d, so that SubCGE wins from about r nodes on
"""

import numpy as np
from timing import race, report

from zocosmo.core.tape import Tape
from zocosmo.methods.matrices import Factors, draw_factors, near_square
from zocosmo.methods.subcge import apply, draw_coordinates

D, RANK = 2**20, 16


def one_by_one(s: np.ndarray, pairs: np.ndarray, signs: np.ndarray, space: Factors) -> np.ndarray:
    """Σ_j s_j ε_j u_a v_bᵀ, a dense update for each node; what SeedFlood does, less the drawing of z_j."""
    total = np.zeros((space.U.shape[-1], space.V.shape[-1]))
    for value, pair, sign in zip(s[:, 0], pairs, signs, strict=True):
        a, b = divmod(int(pair), RANK)
        total += np.outer(value * sign * space.U[a], space.V[b])
    return total.reshape(-1)


def main() -> None:
    shape = near_square(D)
    (space,) = draw_factors(Tape(0), np.array(0), [shape], [RANK], 1)
    took = {}
    for n in (8, 16, 32, 64, 128, 256, 512):
        at, s = (
            draw_coordinates(Tape(0), np.array(0), n, 1, RANK),
            np.random.default_rng(n).normal(size=(n, 1)),
        )
        pairs, signs = at.index[:, 0], at.signs[:, 0]
        assert np.allclose(apply(s, at, list(space)), one_by_one(s, pairs, signs, space))
        took[n] = race(
            {
                "once": lambda s=s, at=at: apply(s, at, list(space)),
                "each": lambda s=s, pairs=pairs, signs=signs: one_by_one(s, pairs, signs, space),
            },
            trials=3,
        )
        report(
            f"N = {n}: U A Vᵀ once, against N dense updates", **_row(took[n]), aim=f"{n / RANK:.1f}× or so"
        )
    report("U A Vᵀ: 512 nodes against 8", took[512]["once"], took[8]["once"], "≥ 0.67×", unit=1e3, name="ms")


def _row(took: dict[str, float]) -> dict[str, float | str]:
    return {"ours": took["once"], "theirs": took["each"], "unit": 1e3, "name": "ms"}


if __name__ == "__main__":
    main()
