"""Drawing supports.   make bench

one draw of 8,192 from 2.5e6 and from 6.5e9, against NumPy's Generator.choice and a sort: not slower
6.5e9 against 2.5e6: at most 3 times the time, in less than 10 MB
100,000 small draws at once, against one by one: at least 10 times faster
"""

import hashlib
import tracemalloc

import numpy as np
from timing import race, report

from zocosmo.core import Tape, balanced_support, draw_support

LORA, FULL, Q = 2_523_136, 6_525_621_760, 8192


def numpy_draw(d: int, t: int) -> np.ndarray:
    """What one would write without a tape: fold seed and round into a generator, choose, sort."""
    seed = int.from_bytes(hashlib.blake2b(b"%d" % t, digest_size=8).digest(), "little")
    return np.sort(np.random.default_rng(seed).choice(d, Q, replace=False))


def single_draws() -> None:
    tape, generator = Tape(0), np.random.default_rng(0)
    took = {}
    for d in (LORA, FULL):
        took[d] = race(
            {
                "ours": lambda d=d: draw_support(tape, 42, d=d, q=Q),
                "choice": lambda d=d: np.sort(generator.choice(d, Q, replace=False)),
                "seeded": lambda d=d: numpy_draw(d, 42),
                "hash": lambda: hashlib.shake_128(b"floor").digest(8 * Q),
            },
            trials=301,
        )
        report(f"support, d = {d:,}: against choice + sort", took[d]["ours"], took[d]["choice"], "≥ 1×")
        report(f"support, d = {d:,}: against seeding too", took[d]["ours"], took[d]["seeded"], "≥ 1×")
        report(f"support, d = {d:,}: against its hash alone", took[d]["ours"], took[d]["hash"], "the floor")
    report("support: d = 6.5e9 against 2.5e6", took[FULL]["ours"], took[LORA]["ours"], "≥ 0.33×")
    blocks = race({d: lambda d=d: balanced_support(tape, 42, d=d, q=Q) for d in (LORA, FULL)})
    report("balanced block: d = 6.5e9 against 2.5e6", blocks[FULL], blocks[LORA], "≥ 0.33×")
    for name, draw in (("support", draw_support), ("balanced block", balanced_support)):
        tracemalloc.start()
        draw(tape, 1, d=FULL, q=Q)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        print(f"{name}, d = {FULL:,}: peak memory {peak:.2f} MB   aim: < 10 MB")


def many_draws() -> None:
    tape, t = Tape(0), np.arange(100_000)
    for d, q in ((20, 1), (32, 4), (128, 16), (1000, 16)):
        took = race(
            {
                "batch": lambda d=d, q=q: draw_support(tape, t, d=d, q=q),
                "loop": lambda d=d, q=q: [draw_support(tape, k, d=d, q=q) for k in range(2000)],
            },
            trials=5,
        )
        batch, loop = took["batch"] / 100_000, took["loop"] / 2000
        report(f"100,000 supports of {q} in {d}: each, against one by one", batch, loop, "≥ 10×")


if __name__ == "__main__":
    single_draws()
    many_draws()
