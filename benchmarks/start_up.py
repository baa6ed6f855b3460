"""From the first command to the first round of a network of 32 processes without torch: within 10 s.

The machine should be quiet: two cores share 33 interpreters. Exit code 1 if it takes longer.

    python benchmarks/start_up.py --members 32
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from net.crowd import Processes, write_config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--within", type=float, default=10.0)
    options = parser.parse_args()
    folder, graph = Path(tempfile.mkdtemp(prefix="start-")), {"kind": "ring", "n": options.members}
    config, began = write_config(folder, graph=graph, wire="mod4", rounds=5, log_every=1), time.monotonic()
    with Processes(config, folder / "out") as crowd:
        for _ in range(options.members):
            crowd.join()
        crowd.wait_for(lambda: crowd.is_playing(options.members, 0))
        took = time.monotonic() - began
        code = crowd.host.wait(timeout=120)
        ended = [process.wait(timeout=30) for process in crowd.joined]
    fine = took <= options.within and [code, *ended] == [0] * (1 + options.members)
    print(f"{options.members} members in their first round after {took:.1f} s, at most {options.within:g}")
    print(f"all ended after {time.monotonic() - began:.1f} s, exit codes {sorted({code, *ended})}")
    sys.exit(not fine)


if __name__ == "__main__":
    main()
