"""100,000 connections of garbage to the host of a running job, which must go on and say what it refused.

Connections send random bytes, the start of a true greeting, or nothing, and close or stay; they come from
many addresses of the loopback. One line for each claim; exit code 1 if one fails.

    python benchmarks/garbage.py --connections 100000
"""

import argparse
import os
import random
import re
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from net.crowd import Processes, replay, write_config

GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1CURVE".ljust(64, b"\0")  # of ZMTP 3.1, under CURVE
KINDS = (b"", b"GET / HTTP/1.1\r\n\r\n", GREETING, GREETING + b"\4\x19\5HELLO" + bytes(40))
STAY = 50  # connections that a sender leaves open


def throw(port, count, sender, made):
    """Connections from one address after the other; `made` gets how many were accepted."""
    dice, open_, done = random.Random(sender), [], 0
    for k in range(count):
        end = socket.socket()
        try:
            end.bind((f"127.{1 + sender}.{k // 200 % 250}.{1 + k % 200}", 0))
            end.settimeout(20)
            end.connect(("127.0.0.1", port))
            end.sendall(dice.choice((*KINDS, os.urandom(200))))
            done += 1
        except OSError:
            pass
        open_.append(end)
        if len(open_) > STAY:
            open_.pop(dice.randrange(len(open_))).close()
    for end in open_:
        end.close()
    made.append(done)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--connections", type=int, default=100_000)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20_000)
    options = parser.parse_args()
    folder, made = Path(tempfile.mkdtemp(prefix="garbage-")), []
    graph = {"kind": "ring", "n": 3}
    config = write_config(folder, graph=graph, wire="mod4", rounds=options.rounds, log_every=1000)
    with Processes(config, folder / "out") as crowd:
        for _ in range(3):
            crowd.join()
        crowd.wait_for(lambda: crowd.is_playing(3, 1000))
        each, began = options.connections // options.senders, time.monotonic()
        threads = [
            threading.Thread(target=throw, args=(crowd.port, each, k, made)) for k in range(options.senders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, is_running = time.monotonic() - began, crowd.host.poll() is None
        code = crowd.host.wait(timeout=900)
        ended = [process.wait(timeout=30) for process in crowd.joined]
        last, said = ((crowd.out / f"host.{name}").read_text().splitlines() for name in ("out", "err"))
    refused = [
        int(re.findall(r"refused (\d+) connections", line)[0]) for line in said if "prove a key" in line
    ]
    compared, wrong = replay(config, folder / "out")
    results = [
        ("connections", sum(made) >= options.connections, f"{sum(made):,} in {took:.0f} s, folder {folder}"),
        ("the host lived through them", is_running and code == 0, last[-1].partition(";")[0]),
        (
            "members",
            ended == [0] * 3 and not wrong,
            f"exit codes {ended}, {len(wrong)} of {compared} states differ",
        ),
        ("what it says", max(refused, default=0) >= sum(made), f"{len(said)} lines, {refused[-1:]} refused"),
    ]
    for name, holds, text in results:
        print(f"{'holds ' if holds else 'FAILED'}  {name}: {text}")
    sys.exit(not all(holds for _, holds, _ in results))


if __name__ == "__main__":
    main()
