"""The same bits as another commit: hashes of states, log rows and ledgers over small configurations.

    python benchmarks/same_bits.py --against HEAD~1

Without --against the hashes are only printed. With it, this script also runs in a checkout of that commit, on
this machine, and every line ends in `equal` or `DIFFERS`; the exit code is 1 if anything differs. The script
uses configs, commands and the public Python interface only, so it runs with sources old and new. Hashes cover
names, shapes, types and raw bytes; the header of a log is left out, as it contains a hash of the source.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import zocosmo

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ("value_bits", "index_bits", "control_bits", "framing_bits")
PARTS = ("states", "log", "ledger")
EXPECTED = ("python-memory-resumed",)  # old simulators forget that memory; now it should equal python-memory
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

QUADRATIC = {"kind": "quadratic", "d": 12, "omega": 0.5, "zeta": 1.0, "sigma": 0.25}
STEP = {"eta": 0.01, "mu": 0.005}
METHODS: dict[str, dict[str, Any]] = {
    **{kind: {"q": 3, "beta": 0.5} for kind in ("cosmo", "edge_local", "rand_k")},
    **{kind: {"q": 3} for kind in ("com_dszo", "choco", "ef21")},
    **{kind: {"rank": 2, "refresh": 7} for kind in ("subcge", "subzero")},
    **{kind: {} for kind in ("dense", "flood", "seedflood", "mezo", "feedsign", "perm_k")},
    "marina_type": {"q": 3, "beta": 0.5, "period": 5},
    "rand_k_average": {"q": 3, "beta": 0.5},
    "sparse_mezo": {"sparsity": 0.5},
    "decomfl": {"perturbations": 2, "local_steps": 2, "participants": 3},
    "meerkat": {"q": 5, "calibration": 4, "local_steps": 2, "participants": 3},
    "fedkseed": {"candidates": 16, "local_steps": 2, "participants": 3},
    "marina": {"q": 3, "refresh": 0.2, "directions": 3},
}

Study = tuple[dict[str, Any], str]  # a config, and the command that runs it
Found = tuple[dict[str, Any], ...]  # arrays of states, log and ledger, by name


def use(kind: str, **changes: Any) -> dict[str, Any]:
    return {"kind": kind, **STEP, **METHODS[kind], **changes}


def graph(kind: str, n: int, **changes: Any) -> dict[str, Any]:
    return {"kind": kind, "n": n, **changes}


def study(*methods: dict[str, Any], words: str = "run CONFIG --states", **changes: Any) -> Study:
    usual = {"problem": QUADRATIC, "graphs": [graph("ring", 6)], "seeds": [1, 2], "rounds": 24}
    return {**usual, "log_every": 6, "wire": "f64", "methods": list(methods), **changes}, words


def llm(*methods: dict[str, Any], problem: dict[str, Any], **changes: Any) -> Study:
    small = {"kind": "llm", "model": "tiny", "task": "toy", "device": "cpu", "threads": 1, "batch": 2}
    small |= {"rank": 2, "max_tokens": 24, "train_rows": 40, "validation_rows": 12, **problem}
    usual = {"graphs": [graph("ring", 4)], "seeds": [1], "rounds": 8, "log_every": 2, "dtype": "float32"}
    return study(*methods, problem=small, **{**usual, "wire": "f32", **changes})


LATER = ("rand_k_average",)  # a method of its own case: older code lacks it
ALL = [use(kind) for kind in METHODS if kind not in LATER]
TO_ALL = ("marina_type", "rand_k_average")  # need a complete graph
ANY_GRAPH = [each for each in ALL if each["kind"] not in TO_ALL]
PEERS = [use(kind) for kind in ("cosmo", "edge_local", "rand_k", "flood", "com_dszo", "dense", "choco")]
PAIRS = [use("edge_local", coupling=each) for each in "GSI"]
OURS, BOLD = ([use(kind, eta=eta) for kind in ("cosmo", "edge_local")] for eta in (0.01, 0.4))
DECAYS = [{"kind": "drop", "at": 9}, {"kind": "cosine", "rounds": 20, "to": 0.1}, {"kind": "inverse_sqrt"}]
LISTED = {"matchings": [[[0, 1], [2, 3], [4, 5]], [[1, 2], [3, 4]], [[5, 0]]], "weights": [3, 2, 1]}
SCHEDULES = [graph("ring", 6, schedule=each) for each in ("alternating", "iid", "maximal", "round_robin")]
SHAPES = [graph("ring", 6), graph("ring", 5), graph("complete", 5), graph("grid", 6)]
GRAPHS = [graph("path", 5), graph("torus", 9), graph("hypercube", 8), graph("random_regular", 8, degree=3)]
GRAPHS += [graph("small_world", 8, k=4, p=0.3, seed=5), {"kind": "edges", "edges": "0-1,1-2,2-0,2-3"}]
PYTHON = {"kind": "python", "d": 6, "start": 0.5}
BOWL = {"problem": {**PYTHON, "entry": "rig:bowl"}, "rounds": 20, "log_every": 5}
DRIFT = {**BOWL, "problem": {**PYTHON, "entry": "rig:Drifting"}}
GUARD, ALONE = {"grow": 0.01, "by": 0.5}, [graph("complete", 1)]
CLIP, FULL, BALANCED = {"clip": 0.9}, {"coordinates": "full"}, {"q": 5, "rule": "balanced"}
FIVE = {"graphs": [graph("ring", 5)], "seeds": [1], "rounds": 12, "words": "launch CONFIG --nodes 2"}
SEALED = {**FIVE, "words": "launch CONFIG --nodes 2 --key-file key", "dtype": "float32", "wire": "bf16"}
AWK = "awk '{s += ($1-{node})^2} END {printf \"%.17g\\n\", s}' {file}"
COMMAND = {"kind": "command", "d": 4, "start": 0.5, "workers": 2, "run": AWK}
FINETUNE = "finetune --model ./tiny --q 16 --eta 0.05 --mu 0.01 --rounds 8 --every 4 --batch 2 --device cpu"
FINETUNE += " --set problem.train_rows=40 --set problem.validation_rows=12 --set problem.threads=1"

STUDIES: dict[str, Study] = {
    **{f"method-{each['kind']}": study({**each, "codec": "all"}) for each in ANY_GRAPH},
    "method-rand_k_average": study(use("rand_k_average", codec="all"), graphs=[graph("complete", 6)]),
    "method-marina_type": study(use("marina_type", codec="all"), graphs=[graph("complete", 6)]),
    "methods-f32": study(*ALL, dtype="float32", wire="f32", graphs=[graph("complete", 5)]),
    "methods-bf16": study(*ANY_GRAPH, dtype="float32", wire="bf16", graphs=[graph("grid", 6)]),
    "methods-f16": study(*ANY_GRAPH, wire="f16", graphs=[graph("erdos_renyi", 6, p=0.5)]),
    "methods-nominal": study(*ANY_GRAPH, wire="nominal_f32", graphs=[graph("star", 5)]),
    "couplings": study(*PAIRS, graphs=SHAPES),
    "couplings-bf16": study(*PAIRS, graphs=SHAPES, dtype="float32", wire="bf16"),
    "schedules": study(*PAIRS, graphs=SCHEDULES),
    "schedule-listed": study(*PAIRS, graphs=[graph("ring", 6, schedule=LISTED)]),
    "graphs": study(*OURS, graphs=GRAPHS),
    "balanced": study(use("cosmo", **BALANCED), use("edge_local", **BALANCED)),
    "passes": study(use("cosmo", passes=3), use("cosmo", passes=2, codec="entropy"), wire="f16"),
    "decays": study(*(use(kind, decay=each) for kind in ("cosmo", "decomfl") for each in DECAYS)),
    "batch": study(use("cosmo", eta=[0.002, 0.01], beta=[0.0, 0.9], codec="all"), seeds=["1-4", "text"]),
    "choco-compressors": study(*(use("choco", compressor=each, codec="all") for each in ("sign", "rand_k"))),
    "guard": study(*BOLD, guard=GUARD),
    "checkpoints": study(*OURS, log_every=None, checkpoints=[1, 2, 13]),
    "diverging-bound": study(use("cosmo", eta=[0.01, 3.0]), diverged_above=50),
    "diverging-overflow": study(use("cosmo", eta=[0.01, 9.0]), rounds=60, log_every=20, wire="f16"),
    "two-processes": study(*OURS, use("ef21"), words="run CONFIG --states --processes 2"),
    "rosenbrock": study(use("cosmo"), use("rand_k"), problem={"kind": "rosenbrock", "d": 10}),
    "logistic": study(*OURS, problem={"kind": "logistic", "split": "dirichlet", "batch": 8}),
    "logistic-digits": study(use("perm_k"), problem={"kind": "logistic", "data": "digits"}, wire="f32"),
    "network": study(use("edge_local", q=64), use("subzero"), problem={"kind": "network", "hidden": 4}),
    "command": study(use("cosmo"), problem=COMMAND, graphs=[graph("ring", 3)], rounds=4, log_every=2),
    "python": study(*BOLD, **BOWL, guard=GUARD),
    "python-resumed": study(*BOLD, **BOWL, guard=GUARD),
    "servers-resumed": study(use("decomfl"), use("ef21"), **BOWL),
    "python-memory": study(use("cosmo"), use("rand_k"), **DRIFT),
    "python-memory-resumed": study(use("cosmo"), use("rand_k"), **DRIFT),
    "launched": study(*PEERS, **FIVE),
    "launched-sealed": study(*PAIRS, use("cosmo", codec="delta"), **SEALED),
    "llm-fused": llm(use("edge_local", q=40, eta=20.0), problem=CLIP, guard=GUARD),
    "llm-one-by-one": llm(*OURS, use("subzero"), problem={**CLIP, "queries": "one_by_one"}, seeds=[1, 2]),
    "llm-bfloat16": llm(use("edge_local", q=40), problem={"dtype": "bfloat16", "split": "iid"}, wire="bf16"),
    "full-float32": llm(use("cosmo", q=40, codec=["values", "indexed"]), problem=FULL, graphs=ALONE),
    "full-bfloat16": llm(use("cosmo", q=40), problem={**FULL, "dtype": "bfloat16"}, graphs=ALONE),
    "finetune": ({}, FINETUNE),
}
CALLS: dict[str, dict[str, Any]] = {
    "minimize": {"rounds": 40, "q": 2, **STEP, "beta": 0.5, "measure": True},
    "minimize-suggest": {"rounds": 40, "graph": "complete", "method": "edge_local", "coupling": "G"},
    "minimize-budget": {"budget_bits": 9_000, "q": 2, **STEP, "wire": "f16", "codec": "delta"},
    "minimize-server": {"rounds": 40, "method": "decomfl", "perturbations": 2, "participants": 2},
    "optimizer-told": {"kind": "cosmo", "told": True, "q": 2, "beta": 0.9, "passes": 2},
    "optimizer-advanced": {"kind": "edge_local", "told": False, "q": 2, "beta": 0.9, "coupling": "S"},
    "optimizer-server": {"kind": "ef21", "told": False, "q": 2},
    "torch-float32": {"dtype": "float32", "momentum": 0.9},
    "torch-float64": {"dtype": "float64", "rule": "balanced"},
    "torch-sparse": {"dtype": "float32", "momentum": 0.9, "sparse": True},
    "torch-bfloat16": {"dtype": "bfloat16", "momentum": 0.9},
}

armed = "STOP" in os.environ  # below are losses of studies, in a copy of this file called rig.py


def bowl(x, node: int, t: int, seed: int) -> float:
    stop(t)
    noise = np.random.default_rng([seed, node, t + 1]).normal(size=len(x))
    return float(np.sum((x - 0.1 * node + 0.05 * noise) ** 2))


class Drifting:
    """The optimum moves with every query; a checkpoint must keep how many there were."""

    asked = 0

    def __call__(self, x, node: int, t: int) -> float:
        stop(t)
        self.asked += 1
        return float(np.sum((x - 0.1 * node - 0.01 * self.asked) ** 2))

    def state_dict(self) -> dict[str, int]:
        return {"asked": self.asked}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.asked = state["asked"]


def stop(t: int) -> None:
    """Interrupt a study in round 7, once in a process; a resumed one goes on in round 8."""
    global armed
    if armed and t == 7:
        armed = False
        os.kill(os.getpid(), signal.SIGINT)


def run_study(name: str) -> Found:
    """A study by its command. One that is called resumed interrupts itself until it is done."""
    plan, words = STUDIES[name]
    path = Path(f"{name}.yaml")
    path.write_text(json.dumps(plan), encoding="utf-8")  # JSON is YAML
    path.chmod(0o600)  # a sealed job wants its seeds closed to others
    line = [*words.replace("CONFIG", f"{name}.yaml").split(), "--out", name]
    (run_stopping if name.endswith("-resumed") else call_zocosmo)(*line)
    states = dict(np.load(Path(name, "states.npz"), allow_pickle=False))
    rows = pd.read_parquet(Path(name, "log.parquet")).select_dtypes(["number", "bool"])
    columns = {column: rows[column].to_numpy() for column in rows}
    ledger = {kind: columns.pop(kind) for kind in LEDGER}
    return states, columns, ledger


def call_zocosmo(*words: str) -> None:
    """The command in this process, which saves the imports."""
    from zocosmo.cli import main

    sys.argv = ["zocosmo", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"zocosmo ended with exit code {end.code}; stderr says why") from None


def run_stopping(*words: str) -> None:
    """The command in new processes: each resumes the last and is interrupted, until the study is done."""
    line, codes = [sys.executable, "-m", "zocosmo", *words, "--resume"], [130]
    while codes[-1] == 130 and len(codes) < 9:
        codes.append(
            subprocess.run(line, env=os.environ | {"STOP": ""}, stderr=subprocess.DEVNULL).returncode
        )
    if codes[1] != 130 or codes[-1] != 0:
        raise RuntimeError(f"zocosmo ended with exit codes {codes[1:]}, expected 130 at first and 0 at last")


def run_minimize(**given: Any) -> Found:
    funs = [lambda x, at=at: float(np.sum((x - at) ** 2)) for at in (1.0, 2.0, 3.0, 4.0)]
    result = zocosmo.minimize(funs, np.zeros(6), **given)
    log = {name: result[name] for name in ("fun", "nit", "nfev", "disagreement", "status")}
    log |= {name: result.log[name].to_numpy() for name in result.log}
    log |= {"eta": result.method.eta, "mu": result.method.mu}  # suggested, where none are given
    return {"x": result.x, "states": result.states}, log, {"bits": result.bits, **result.bits_by_kind}


def run_optimizer(*, kind: str, told: bool, **given: Any) -> Found:
    """30 rounds of an Optimizer, by ask and tell or by an oracle; after 15 another one goes on."""

    def losses(x, t: int = 0, *, active=None):
        return ((x - np.arange(6)[:, None]) ** 2).sum(axis=-1)

    options = {"graph": zocosmo.GRAPHS["grid"](6), "method": zocosmo.METHODS[kind](**STEP, **given)}
    run, heard = zocosmo.Optimizer(np.zeros(5), **options), []
    while run.t < 30:
        if told:
            run.tell(losses(run.ask().points))
        else:
            run.advance(losses)
        heard.append(run.query_loss)
        if run.t == 15:
            saved, run = run.arrays(), zocosmo.Optimizer(np.zeros(5), **options)
            run.restore(saved)
    bits = {"sent": run.bits, "next": run.next_bits()}
    return {"x": run.x, "mean": run.mean}, {"losses": heard, "nfev": run.nfev}, bits


def run_torch(*, dtype: str, **given: Any) -> Found:
    """40 steps of torch.Cosmo on a small network; after 20 another optimizer goes on."""
    import torch

    from zocosmo.torch import Cosmo

    torch.manual_seed(0)
    inputs, kind = torch.randn(32, 8), getattr(torch, dtype)
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)).to(kind)

    def loss() -> torch.Tensor:
        return ((model(inputs.to(kind)).double() - inputs.sum(dim=1, keepdim=True)) ** 2).mean()

    options = {"lr": 0.01, "mu": 0.01, "q": 7, "seed": 5, **given}
    optimizer, losses = Cosmo(model.parameters(), **options), []
    for step in range(40):
        if step == 20:
            saved, optimizer = optimizer.state_dict(), Cosmo(model.parameters(), **options)
            optimizer.load_state_dict(saved)
        losses.append(optimizer.step(loss))
    states = dict(tensors("", {"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    log = {"losses": losses, "queries": optimizer.queries}
    return states, log, {"bits": optimizer.ledger.network()}


def tensors(name: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """All tensors in a tree, by their paths, as bytes: NumPy has no bfloat16."""
    import torch

    if isinstance(tree, torch.Tensor):
        yield f"{name} {tree.dtype} {tuple(tree.shape)}", tree.detach().reshape(-1).view(torch.uint8).numpy()
    elif isinstance(tree, dict):
        for key, each in tree.items():
            yield from tensors(f"{name}.{key}", each)


def digest(arrays: dict[str, Any]) -> str:
    """A hash of names, types, shapes and bytes."""
    found = hashlib.blake2b(digest_size=4)
    for name, given in arrays.items():
        array = np.ascontiguousarray(given)
        found.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def run_one(name: str) -> dict[str, Any]:
    """Hashes of a configuration, or its error; and the seconds."""
    runners = {"minimize": run_minimize, "optimizer": run_optimizer, "torch": run_torch}
    since = time.perf_counter()
    try:
        found = run_study(name) if name in STUDIES else runners[name.split("-")[0]](**CALLS[name])
        told = {part: digest(each) for part, each in zip(PARTS, found, strict=True)}
    except Exception as error:
        told = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
    return {**told, "seconds": time.perf_counter() - since}


def work(folder: Path, source: Path, names: list[str]) -> None:
    """Run configurations with the source that PYTHONPATH names, and write what came of them."""
    if not Path(zocosmo.__file__).is_relative_to(source):
        sys.exit(f"zocosmo was imported from {zocosmo.__file__}, not from {source}")
    os.chdir(folder)
    shutil.copy(__file__, "rig.py")
    Path("key").write_text("07" * 32, encoding="utf-8")
    Path("key").chmod(0o600)
    if any(name.startswith(("llm", "full", "finetune")) for name in names):
        sys.path.append(str(ROOT / "tests"))
        from llm.tiny import tiny_folder

        tiny_folder("tiny")
    found = {}
    for number, name in enumerate(names, 1):
        print(f"{number}/{len(names)} {name}", file=sys.stderr, flush=True)
        found[name] = run_one(name)
    Path("found.json").write_text(json.dumps(found), encoding="utf-8")


def run_source(source: Path, folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """What the configurations gave with one source: `work`, in a process of its own."""
    folder.mkdir()
    env = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(source), "HF_HUB_OFFLINE": "1"}
    line = [sys.executable, __file__, "--work", str(folder), str(source), *names]
    if code := subprocess.run(line, env=env, stdout=sys.stderr).returncode:
        sys.exit(f"the configurations with {source} ended with exit code {code}")
    return json.loads((folder / "found.json").read_text(encoding="utf-8"))


def run_commit(commit: str, folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """The same with the source of a commit, in a checkout that is removed again."""
    git, tree = ["git", "-C", str(ROOT), "worktree"], folder.with_name("checkout")
    if subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit]).returncode:
        sys.exit(f"{commit!r} cannot be checked out; name a commit of this repository")
    try:
        return run_source(tree / "src", folder, names)
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def verdict(now: dict[str, Any], then: dict[str, Any] | None) -> str:
    if "error" in now:
        return f"FAILED ({now['error']})"
    if then is None:
        return ""
    if "error" in then:
        return f"DIFFERS (failed there: {then['error']})"
    apart = [part for part in PARTS if now[part] != then[part]]
    return f"DIFFERS ({'|'.join(apart)})" if apart else "equal"


def compare(names: list[str], commit: str | None) -> bool:
    """Run, print, and say whether nothing failed and nothing differs that should not."""
    with tempfile.TemporaryDirectory() as made:
        then = run_commit(commit, Path(made, "then"), names) if commit else {}
        now = run_source(ROOT / "src", Path(made, "now"), names)
    said = {name: verdict(now[name], then.get(name)) for name in names}
    for name in sorted(names, key=lambda name: name in EXPECTED):
        hashes = " ".join(f"{part} {now[name].get(part, '-' * 8)}" for part in PARTS)
        note = "  (expected to change; not counted)" if name in EXPECTED else ""
        print(f"{name:22} {hashes} {now[name]['seconds']:6.2f} s  {said[name]}{note}".rstrip())
    counted = [said[name] for name in names if name not in EXPECTED]
    good = sum(each in ("", "equal") for each in counted)
    print(f"{good} of {len(counted)} {'equal' if then else 'run'}")
    return good == len(counted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="COMMIT", help="also run this commit, and compare")
    parser.add_argument("--only", metavar="TEXT", default="", help="only names that contain this text")
    parser.add_argument("--list", action="store_true", help="list configurations without running them")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [name for name in (*STUDIES, *CALLS) if options.only in name]
    if options.work:
        folder, source, *names = options.work
        work(Path(folder), Path(source), names)
    elif options.list:
        print(*names, sep="\n")
    elif not names:
        sys.exit(f"no configuration has {options.only!r} in its name; see --list")
    else:
        sys.exit(not compare(names, options.against))


if __name__ == "__main__":
    main()
