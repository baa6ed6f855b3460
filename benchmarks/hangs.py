"""Short jobs over random connected graphs: every one ends in time, with the simulator's bits.

make bench. Six processes go through all jobs, since starting them is what takes long; a job uses the first
few of them. With --lose there is one job more, in which a process dies: the others must end in time too.
"""

import argparse
import dataclasses
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch.distributed as c10d

from zocosmo.dist.launch import LocalStore, end, start
from zocosmo.dist.rendezvous import join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.errors import PeerLost
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan

WORLD = 6
DEADLINE = 20.0  # seconds that a process waits for a peer
STEP = {"eta": 0.015625, "mu": 0.0009765625}
METHODS = [
    *({"kind": "cosmo", "q": 4, "passes": k, "beta": 0.5, "codec": "indexed"} for k in (1, 2)),
    *({"kind": "edge_local", "q": 4, "coupling": each, "beta": 0.5} for each in "GSI"),
    {"kind": "rand_k", "q": 4},
    {"kind": "com_dszo", "q": 4, "codec": "delta"},
    {"kind": "dense"},
    {"kind": "flood"},
]
TO_ALL = {"kind": "marina_type", "q": 4, "period": 2}  # everyone sends to everyone


def draw_jobs(count: int, seed: int) -> list[dict]:
    """Plans with the numbers of their processes: one for each node, or one for several."""
    coins, jobs = random.Random(seed), []
    for number in range(count):
        n = coins.randint(2, WORLD)
        method = coins.choice([*METHODS, TO_ALL])
        p = 1.0 if method is TO_ALL else coins.choice([0.35, 0.6, 0.9])
        plan = {
            "problem": {"kind": "quadratic", "d": 9, "omega": 0.5, "zeta": 1.0, "sigma": 0.25},
            "graphs": [{"kind": "erdos_renyi", "n": n, "p": p, "seed": number}],
            "methods": [{**method, **STEP}],
            "seeds": [coins.randrange(2**32)],
            "rounds": coins.randint(4, 24),
            "log_every": coins.randint(1, 4),
            "wire": coins.choice(["f64", "f32", "bf16"]),
        }
        world = n if coins.random() < 0.7 else coins.randint(1, n)
        jobs.append({"name": f"job-{number}", "config": json.dumps(plan), "world": world, "lost": None})
    return jobs


def losing_job(seed: int) -> dict:
    """A ring of six whose last process dies after its second checkpoint."""
    plan = json.loads(draw_jobs(1, seed)[0]["config"])
    plan |= {"graphs": [{"kind": "ring", "n": WORLD}], "methods": [{**METHODS[0], **STEP}]}
    plan |= {"rounds": 400, "log_every": 4}
    return {"name": "lost", "config": json.dumps(plan), "world": WORLD, "lost": WORLD - 1}


def plan_of(job: dict):
    return read_plan(Config(job["config"], "job.yaml"), job["name"])


def serve(folder: Path) -> None:
    """One process: its part in every job, and how each ended."""
    whole, said = join(within=60.0), {}
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        if whole.rank < job["world"]:
            store = c10d.PrefixStore(job["name"], whole.store)
            part = dataclasses.replace(whole, store=store, world=job["world"], join_within=DEADLINE)
            said[job["name"]] = take_part(part, job, folder)
    (folder / f"said.{whole.rank}").write_text(json.dumps(said), encoding="utf-8")
    whole.store.add("left", 1)
    until = time.monotonic() + DEADLINE
    while whole.store.add("left", 0) < WORLD - 1 and time.monotonic() < until:
        time.sleep(0.02)  # nobody leaves while a peer may need an answer
    os._exit(0)


def take_part(part, job: dict, folder: Path) -> dict:
    def die(progress) -> None:
        if part.rank == job["lost"] and progress.rounds > 4 * WORLD:
            os.kill(os.getpid(), signal.SIGKILL)

    since, error = time.monotonic(), None
    try:
        options = Options(deadline=DEADLINE, checkpoint_every=6)
        run_ranks(plan_of(job), part, folder / job["name"], options, die)
    except PeerLost as lost:
        error = str(lost)
    return {"seconds": time.monotonic() - since, "error": error}


def run_jobs(folder: Path, jobs: list[dict], limit: float) -> list[dict]:
    """What each process said; those that have not ended after `limit` seconds are killed."""
    (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    store = LocalStore()
    line = [sys.executable, __file__, "--serve", str(folder)]
    processes = [start(line, rank, WORLD, store.port, 0) for rank in range(WORLD)]
    until = time.monotonic() + limit
    try:
        while any(process.poll() is None for process in processes) and time.monotonic() < until:
            time.sleep(0.05)
        hung = [rank for rank, process in enumerate(processes) if process.poll() is None]
    finally:
        end(processes)
    if hung:
        sys.exit(f"ranks {hung} had not ended after {limit:.0f} s")
    files = [folder / f"said.{rank}" for rank in range(WORLD)]
    return [json.loads(file.read_text(encoding="utf-8")) if file.exists() else {} for file in files]


def is_equal(job: dict, folder: Path) -> bool:
    """Whether log and states of a job are the simulator's, byte for byte."""
    ours, theirs = folder / job["name"], folder / "simulated" / job["name"]
    run_plan(plan_of(job), theirs, states=True)
    if not (ours / "states.npz").exists():
        return False
    with np.load(ours / "states.npz") as a, np.load(theirs / "states.npz") as b:
        same = a["trial-0"].tobytes() == b["trial-0"].tobytes()
    return same and (ours / "log.parquet").read_bytes() == (theirs / "log.parquet").read_bytes()


def report(jobs: list[dict], said: list[dict], folder: Path) -> dict:
    whole = [job for job in jobs if job["lost"] is None]
    seconds = {job["name"]: said[0][job["name"]]["seconds"] for job in jobs}
    errors = [each[job["name"]]["error"] for job in whole for each in said if job["name"] in each]
    return {
        "jobs": len(whole),
        "processes": sum(job["world"] for job in whole),
        "shared": sum(job["world"] < plan_of(job).trials[0].graph_of().n for job in whole),
        "equal": sum(is_equal(job, folder) for job in whole),
        "errors": sum(error is not None for error in errors),
        "slowest": max(seconds[job["name"]] for job in whole),
        "lost": [each["lost"] for each in said if "lost" in each],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lose", action="store_true", help="one job more, in which a process dies")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
    since = time.monotonic()
    jobs = draw_jobs(options.count, options.seed) + [losing_job(options.seed)] * options.lose
    with tempfile.TemporaryDirectory() as made:
        said = run_jobs(Path(made), jobs, 60 + 3 * DEADLINE + 2 * options.count)
        found = report(jobs, said, Path(made))
    if options.json:
        print(json.dumps(found))
        return
    print(
        f"{found['jobs']} jobs over random graphs ({found['shared']} with several nodes in a process) in "
        f"{time.monotonic() - since:.0f} s: {found['equal']} equal to the simulator, {found['errors']} "
        f"errors, slowest {found['slowest']:.1f} s of {DEADLINE:.0f} s; no hang"
    )
    sys.exit(found["equal"] < found["jobs"] or found["errors"] > 0)


if __name__ == "__main__":
    main()
