"""Rings of five processes over ZeroMQ; in each, one is stopped for 8 s, where peers wait for 3 s at most.

All five must be alive at the end, exit codes 0, the host's last line true, and what members kept must be what
the simulator makes of the record. One line for each ring; exit code 1 if one fails.

    python benchmarks/frozen_rings.py --rings 20 --together 4
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from net.crowd import Processes, replay, write_config

PROBLEM = {"kind": "quadratic", "d": 200, "kappa": 4.0, "zeta": 1.0, "sigma": 0.1}
FREEZE, DEADLINE = 8.0, 3.0  # seconds


def play(seed, rounds):
    """One ring: whether all went well, and a line about it."""
    folder = Path(tempfile.mkdtemp(prefix=f"ring-{seed}-"))
    how = {"graph": {"kind": "ring", "n": 5}, "problem": PROBLEM, "wire": "mod4", "log_every": 500}
    config, whom = write_config(folder, rounds=rounds, **how), random.Random(seed).randrange(5)
    with Processes(config, folder / "out", "--soft", str(DEADLINE)) as crowd:
        for _ in range(5):
            crowd.join()
        crowd.wait_for(lambda: crowd.is_playing(5, 500))
        os.kill(crowd.joined[whom].pid, signal.SIGSTOP)
        time.sleep(FREEZE)
        is_early = crowd.host.poll() is not None
        os.kill(crowd.joined[whom].pid, signal.SIGCONT)
        code = crowd.host.wait(timeout=300)
        ended = [process.wait(timeout=30) for process in crowd.joined]
        last = (crowd.out / "host.out").read_text().splitlines()[-1]
    compared, wrong = replay(config, folder / "out")
    true = last.startswith(f"5 members came to round {rounds};")
    fine = (code, ended, wrong, is_early) == (0, [0] * 5, [], False) and true and compared > 5
    text = f"ring {seed}: process {whom} stopped; host {code}, members {ended}"
    return fine, f"{text}, {len(wrong)} of {compared} states differ; {last.partition(';')[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rings", type=int, default=20)
    parser.add_argument("--together", type=int, default=4, help="rings that run side by side")
    parser.add_argument("--rounds", type=int, default=4000)
    options = parser.parse_args()
    done = 0
    with ThreadPoolExecutor(options.together) as pool:
        for fine, text in pool.map(lambda seed: play(seed, options.rounds), range(options.rings)):
            done += fine
            print(f"{'holds ' if fine else 'FAILED'}  {text}", flush=True)
    print(f"{done} of {options.rings} rings ended with five living members")
    sys.exit(done < options.rings)


if __name__ == "__main__":
    main()
