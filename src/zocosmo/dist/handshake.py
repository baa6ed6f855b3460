"""Handshake: before the first round all processes exchange and compare their manifests."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from zocosmo.core.manifest import Difference, Manifest
from zocosmo.core.tape import Seed
from zocosmo.dist.job import Job, decoded, of_the_store
from zocosmo.dist.seal import fresh_salt, open_blob, seal_blob
from zocosmo.errors import InputError, ManifestMismatch, MessageError, ZocosmoError

REMEDY = "start all ranks with the same settings"
REFUSALS: dict[str, type[ZocosmoError]] = {"mismatch": ManifestMismatch, "damage": MessageError}


def agree(job: Job, manifests: Sequence[Manifest]) -> None:
    """Raise the same error at every process unless all have the same manifests, which rank 0 compares."""
    mine = json.dumps([manifest.to_bytes().decode() for manifest in manifests]).encode()
    posted = job.collect("manifest", mine)
    verdict = job.share("manifest", None if posted is None else json.dumps(_verdict(posted)).encode())
    said = decoded(verdict, "the verdict of rank 0", dict)
    kind, text = said.get("error"), said.get("text")
    if isinstance(kind, str) and kind in REFUSALS and isinstance(text, str):
        raise REFUSALS[kind](" ".join(text.split()))
    if said.get("same") != _hash(mine):  # a process that was restarted with something else, by itself
        _compare({0: job.fetch("manifest/0", 0), job.rank: mine})
        raise MessageError(f"rank 0 compared other manifests than its own; {REMEDY}")


def _verdict(posted: Sequence[bytes]) -> dict[str, str]:
    """That all are the same, by their hash, or the error that every process is to raise."""
    try:
        _compare(dict(enumerate(posted)))
    except (ManifestMismatch, MessageError) as error:
        return {"error": "mismatch" if isinstance(error, ManifestMismatch) else "damage", "text": str(error)}
    return {"same": _hash(posted[0])}


def _compare(posted: Mapping[int, bytes]) -> None:
    """Compare the manifests of rank 0 with those of some others, and name whatever differs."""
    if all(each == posted[0] for each in posted.values()):
        return
    first, *others = [_read(rank, each) for rank, each in posted.items()]
    ranks = list(posted)[1:]
    for rank, other in zip(ranks, others, strict=True):
        if len(other) != len(first):
            raise ManifestMismatch(f"trials: rank 0 has {len(first)}, rank {rank} has {len(other)}; {REMEDY}")
    for k, ours in enumerate(first):
        found: dict[Difference, list[int]] = {}
        for rank, other in zip(ranks, others, strict=True):
            for difference in ours.differences(other[k]):
                found.setdefault(difference, []).append(rank)
        if found:
            raise ManifestMismatch("; ".join([*map(_said, found, found.values()), REMEDY]))
    raise MessageError(f"manifests in the store have other bytes and the same content; {REMEDY}")


def _read(rank: int, posted: bytes) -> list[Manifest]:
    """What a process posted, as manifests."""
    texts = decoded(posted, f"the manifest of rank {rank}", list)
    try:
        return [Manifest.from_bytes(text.encode()) for text in texts]
    except (MessageError, ValueError, AttributeError) as error:
        raise MessageError(f"the manifest of rank {rank} is damaged: {error}; {REMEDY}") from None


def _hash(posted: bytes) -> str:
    return hashlib.blake2b(posted, digest_size=32).hexdigest()


def _said(difference: Difference, ranks: Sequence[int]) -> str:
    whose = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
    return f"{difference.field}: rank 0 has {difference.ours}, {whose} {difference.theirs}"


def hand_out(job: Job, seeds: Sequence[Seed] | None, key: bytes | None = None) -> list[Seed]:
    """Send the seeds of rank 0 to every process: sealed if there is a key, otherwise readable in the store.

    Without this, seeds never leave a process: manifests carry only commitments.
    """
    salts = job.publish("seed salt", fresh_salt())
    label = b"seeds" + b"".join(salts)  # new at every start, so that old seeds cannot be replayed
    if job.rank == 0:
        if not seeds:
            error = InputError("rank 0 sends out the seeds but has none; give it seeds, or --seeds")
            job.report(error)
            raise error
        text = json.dumps([{"hex": s.hex()} if isinstance(s, bytes) else s for s in seeds]).encode()
        job.store.set("seeds", text if key is None else seal_blob(key, label, text))
        return list(seeds)
    data = job.fetch("seeds", 0)
    given = decoded(data if key is None else open_blob(key, label, data), "the list of seeds", list)
    return [_seed(each) for each in given]


def _seed(given: Any) -> Seed:
    """A seed as it came through the store."""
    match given:
        case {"hex": str(digits)} if re.fullmatch(r"[0-9a-f]{64}", digits):
            return bytes.fromhex(digits)
        case int() | str() if not isinstance(given, bool):
            return given
    raise MessageError("the seeds in the store are damaged; start all ranks again")


def common_salt(job: Job) -> bytes:
    """32 random bytes for the commitments of a sealed job, new at every start; who comes first draws them."""
    with of_the_store():
        found: bytes = job.store.compare_set("commitment salt", "", fresh_salt().hex())
    if not re.fullmatch(rb"[0-9a-f]{64}", found):
        raise MessageError("the salt of the commitments in the store is damaged; start all ranks again")
    return bytes.fromhex(found.decode())
