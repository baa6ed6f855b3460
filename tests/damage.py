"""Files and store entries that nobody wrote like this: cut, spliced, overwritten, or noise.

Every reader must refuse them with one of our errors, or read them, within two seconds.
"""

import dataclasses
import json
import random
import time
from collections import Counter
from pathlib import Path

import numpy as np

from dist.stand_in import StandIn
from examples import MANIFEST
from mutants import mutate
from zocosmo.dist.checkpoints import Checkpoints, Position
from zocosmo.dist.handshake import agree, hand_out
from zocosmo.dist.job import Job, _joined
from zocosmo.dist.ranklog import COLUMNS, merge
from zocosmo.dist.study import as_position, newest
from zocosmo.errors import ZocosmoError
from zocosmo.experiments.config import Config
from zocosmo.experiments.folder import Folder
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.experiments.states import read_states, write_states
from zocosmo.log import read_log, write_log

SLOW = 2.0  # seconds
CONFIG = """\
problem: {kind: quadratic, d: 8, sigma: 0.5}
graphs: &graphs [{kind: ring, n: 4}, {kind: path, n: 3}]
methods: [{kind: cosmo, q: 2, eta: 0.01, mu: 0.001}, {kind: edge_local, q: 3, eta: 0.5, mu: 1.0e-3}]
seeds: [1, "two"]
rounds: 6
log_every: 2
"""
WORLD = 3


class Reader:
    """One kind of file or entry: honest bytes, and the function that reads whatever they became."""

    def __init__(self, honest, read):
        self.honest, self.read = honest, read


def readers(folder):
    """By name, every reader; files are written under `folder`."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    return {**_files(folder), **_ggufs(folder), **_entries(folder)}


def fuzz(count, seed, folder, names=None):
    """How `count` mutants of each kind fared, and the slowest in seconds; an untyped error escapes."""
    rng, fared, slowest = random.Random(seed), {}, {}
    for name, reader in readers(folder).items():
        if names is not None and name not in names:
            continue
        fared[name], slowest[name] = Counter(), 0.0
        for _ in range(count):
            data = damaged(rng.choice(reader.honest), rng.choice(reader.honest), rng)
            since = time.process_time()
            try:
                reader.read(data)
                fared[name]["read"] += 1
            except ZocosmoError as error:
                fared[name][type(error).__name__] += 1
                if "\n" in str(error):
                    raise AssertionError(f"{name}: more than one line: {error}") from None
            except Exception as error:
                raise AssertionError(f"{name}: {type(error).__name__}: {error}; {data[:4000]!r}") from error
            slowest[name] = max(slowest[name], time.process_time() - since)
    return fared, slowest


def damaged(data, other, rng):
    """A mutant; where it is JSON, half of the time one with a value replaced."""
    if data[:1] in b"[{" and rng.random() < 0.5:
        return json.dumps(_replaced(json.loads(data), rng)).encode()
    return mutate(data, other, rng)


def _replaced(thing, rng):
    """The same JSON with one value, somewhere, in place of another."""
    if isinstance(thing, dict) and thing and rng.random() < 0.9:
        key = rng.choice(sorted(thing))
        changed = {k: v for k, v in thing.items() if k != key}
        return changed if rng.random() < 0.2 else {**thing, key: _replaced(thing[key], rng)}
    if isinstance(thing, list) and thing and rng.random() < 0.9:
        k = rng.randrange(len(thing))
        return [*thing[:k], _replaced(thing[k], rng), *thing[k + 1 :]]
    if isinstance(thing, str) and thing[:1] in ("{", "[") and rng.random() < 0.9:
        return json.dumps(_replaced(json.loads(thing), rng), sort_keys=True, separators=(",", ":"))
    noise = [None, True, -1, 0, 2**70, 0.5, "", "x", "\udc80", [], {}, [1], {"float": "0x1p1"}, [[0, 0]]]
    return rng.choice(noise)


def _files(folder):
    plan = read_plan(Config(CONFIG, "damage.yaml"), "damage")
    log = run_plan(plan, folder / "study", states=True)
    write_log(folder / "log.csv", log)
    write_states(folder / "states.npz", {"trial-0": np.eye(3), "trial-1": np.zeros((4, 8), np.float32)})
    kept = Checkpoints(folder / "kept", "stamp")
    kept.save(Position(0, 4), {"x": np.arange(6.0), "alive": np.array([True])}, {"nodes": [0, 1]})

    def of(path, read):
        path = Path(path)

        def call(data):
            path.write_bytes(data)
            return read(path)

        return Reader([path.read_bytes()], call)

    def load(_):
        return Checkpoints(folder / "kept", "stamp").held()

    def opened(_):
        with Folder(folder / "stopped", log.header).opened(resume=True, replace_old=False):
            pass

    (folder / "stopped").mkdir()
    (folder / "stopped" / "plan.json").write_text(json.dumps(log.header), encoding="utf-8")
    text = Reader([CONFIG.encode()], lambda data: _plan(folder / "damage.yaml", data))
    return {
        "parquet": of(folder / "study" / "log.parquet", read_log),
        "csv": of(folder / "log.csv", read_log),
        "npz": of(folder / "states.npz", read_states),
        "yaml": text,
        "checkpoint": of(folder / "kept" / f"{Position(0, 4).name}.safetensors", load),
        "its json": of(folder / "kept" / f"{Position(0, 4).name}.json", load),
        "plan.json": of(folder / "stopped" / "plan.json", opened),
    }


def _plan(path, data):
    path.write_bytes(data)
    return read_plan(Config.load(path), "damage")


def _ggufs(folder):
    try:
        import gguf
    except ModuleNotFoundError:
        return {}
    from zocosmo.llm.convert import _header

    writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama")
    writer.add_tokenizer_pre("smollm")
    writer.add_add_bos_token(True)
    writer.add_token_list(["a", "b", "c"])
    writer.add_token_scores([0.5, 1.0, 2.0])
    writer.add_tensor("token_embd.weight", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    def read(data):
        (folder / "tiny.gguf").write_bytes(data)
        return _header(folder / "tiny.gguf")

    return {"gguf": Reader([(folder / "tiny.gguf").read_bytes()], read)}


def _job(rank, **content):
    return Job(StandIn(**content), rank, WORLD, 0, "127.0.0.1", join_within=0.0)


def _entries(folder):
    mine = [MANIFEST, dataclasses.replace(MANIFEST, q=7)]
    posted = json.dumps([each.to_bytes().decode() for each in mine]).encode()
    told = StandIn()
    told.content |= {f"manifest/{rank}": posted for rank in range(WORLD)}
    agree(Job(told, 0, WORLD, 0, "127.0.0.1"), mine)
    verdict = told.content["manifest/answer"]
    refused = json.dumps({"error": "mismatch", "text": "q: rank 0 has 5, rank 1 4"}).encode()
    held = json.dumps([[0, 10], [0, 20]]).encode()
    row = ",".join(map(str, [1, 0, 0, 10, "1 2", 0.5, 0.25, 3, 99]))
    rows = f"{','.join(COLUMNS)}\n{row}\n".encode()
    seeds = json.dumps([7, "two", {"hex": "5a" * 32}]).encode()
    ended = json.dumps({"rank": 1, "why": "it was killed by signal 9"}).encode()
    here = {f"hello/{rank}": b"" for rank in range(WORLD)}
    salt = _joined([bytes(32)] * WORLD)

    def first_to_end(data):
        _job(0, ended=data, **here).fetch("nothing", 1)

    return {
        "manifest": Reader([posted], lambda data: agree(_posts("manifest", posted, data), mine)),
        "verdict": Reader(
            [verdict, refused],
            lambda data: agree(_job(1, **{"manifest/0": posted, "manifest/answer": data}), mine),
        ),
        "held": Reader([held], lambda data: newest(0, [held, data])),
        "start": Reader([b"[0, 10]"], lambda data: as_position(_json(data))),
        "answer": Reader(
            [_joined([b"one", b"two", b"three"])],
            lambda data: _job(1, **{"hello/answer": data}).publish("hello", b"two"),
        ),
        "seeds": Reader(
            [seeds], lambda data: hand_out(_job(1, **{"seed salt/answer": salt, "seeds": data}), None)
        ),
        "ended": Reader([ended], first_to_end),
        "rank log": Reader([rows], lambda data: merge(folder / "ranks.csv", [rows, data])),
    }


def _posts(what, ours, theirs):
    """Rank 0, with what the others posted."""
    return _job(0, **{f"{what}/1": ours, f"{what}/2": theirs})


def _json(data):
    from zocosmo.dist.job import decoded

    return decoded(data, "the start", list)


def laughs(depth=9):
    """A config of a few hundred bytes whose aliases stand for 9^depth entries."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, depth)]
    return "\n".join(lines) + "\n"


def endless_gguf(count=2**60):
    """A GGUF of a few dozen bytes that announces an array of 2^60 numbers."""
    name = b"general.numbers"
    head = b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
    field = len(name).to_bytes(8, "little") + name + (9).to_bytes(4, "little")
    return head + field + (4).to_bytes(4, "little") + count.to_bytes(8, "little") + bytes(400)
