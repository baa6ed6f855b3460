"""Damaged, cut, spliced and forged bytes: each is refused with one of our errors, or is what it claims to be.

make bench: a million frames (20,000 of them are in the test suite), then thousands of files and entries of
the store, of every kind that tests/damage.py knows. The slowest is given in seconds of processor time.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import damage
from mutants import fuzz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="mutant frames")
    parser.add_argument("--files", type=int, default=50_000, help="mutant files and store entries")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.count:
        frames(options.count, options.seed)
    if options.files:
        files(options.files, options.seed)


def frames(count: int, seed: int) -> None:
    start = time.perf_counter()
    fared = fuzz(count, seed)
    parts = ", ".join(f"{count:,} {name}" for name, count in fared.most_common())
    print(f"{count:,} mutant frames in {time.perf_counter() - start:.0f} s: {parts}; no other error")


def files(count: int, seed: int) -> None:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as made:
        each = -(-count // len(damage.readers(Path(made) / "listed")))
        fared, slowest = damage.fuzz(each, seed, Path(made) / "used")
    for name, counts in fared.items():
        parts = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
        print(f"  {name}: {parts}; slowest {slowest[name]:.2f} s")
    total, worst = sum(sum(counts.values()) for counts in fared.values()), max(slowest.values())
    took = time.perf_counter() - start
    print(f"{total:,} mutant files and entries in {took:.0f} s: no other error; slowest {worst:.2f} s")
    sys.exit(worst > damage.SLOW)


if __name__ == "__main__":
    main()
