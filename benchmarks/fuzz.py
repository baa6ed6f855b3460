"""A million damaged, cut, spliced and forged frames: each is refused with one of our errors, or is a frame.

make bench. The same mutants as in tests/mutants.py, where 20,000 of them are part of the test suite.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from mutants import fuzz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.perf_counter()
    fared = fuzz(options.count, options.seed)
    parts = ", ".join(f"{count:,} {name}" for name, count in fared.most_common())
    print(f"{options.count:,} mutant frames in {time.perf_counter() - start:.0f} s: {parts}; no other error")


if __name__ == "__main__":
    main()
