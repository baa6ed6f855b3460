"""Handshake: before the first round all processes exchange and compare their manifests."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zocosmo._version import __version__
from zocosmo.core.manifest import Difference, Manifest, Scalar
from zocosmo.core.tape import Seed, Tape
from zocosmo.core.wires import WIRES
from zocosmo.dist.seal import fresh_salt, open_blob, seal_blob
from zocosmo.errors import InputError, ManifestMismatch
from zocosmo.log import source_hash
from zocosmo.methods.base import World

if TYPE_CHECKING:
    from zocosmo.dist.rendezvous import Job

REMEDY = "start all ranks with the same settings"


def agree(job: "Job", manifests: Sequence[Manifest]) -> None:
    """Raise the same ManifestMismatch at every process unless all have the same manifests."""
    mine = json.dumps([manifest.to_bytes().decode() for manifest in manifests]).encode()
    shown = job.publish("manifest", mine)
    if all(each == shown[0] for each in shown):
        return
    first, *others = [[Manifest.from_bytes(text.encode()) for text in json.loads(each)] for each in shown]
    for rank, other in enumerate(others, 1):
        if len(other) != len(first):
            raise ManifestMismatch(f"trials: rank 0 has {len(first)}, rank {rank} has {len(other)}; {REMEDY}")
    for k, ours in enumerate(first):
        found: dict[Difference, list[int]] = {}
        for rank, other in enumerate(others, 1):
            for difference in ours.differences(other[k]):
                found.setdefault(difference, []).append(rank)
        if found:
            raise ManifestMismatch("; ".join([*map(_said, found, found.values()), REMEDY]))


def _said(difference: Difference, ranks: Sequence[int]) -> str:
    whose = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
    return f"{difference.field}: rank 0 has {difference.ours}, {whose} {difference.theirs}"


def hand_out(job: "Job", seeds: Sequence[Seed] | None, key: bytes | None = None) -> list[Seed]:
    """Send the seeds of rank 0 to every process: sealed if there is a key, otherwise readable in the store.

    Without this, seeds never leave a process: manifests carry only commitments.
    """
    salts = job.publish("seed salt", fresh_salt())
    label = b"seeds" + b"".join(salts)  # new at every start, so that old seeds cannot be replayed
    if job.rank == 0:
        if not seeds:
            error = InputError("rank 0 sends out the seeds but has none; give it seeds, or --seeds")
            job.tell(why=str(error))
            raise error
        text = json.dumps([{"hex": s.hex()} if isinstance(s, bytes) else s for s in seeds]).encode()
        job.store.set("seeds", text if key is None else seal_blob(key, label, text))
        return list(seeds)
    data = job.fetch("seeds", 0)
    given = json.loads(data if key is None else open_blob(key, label, data))
    return [bytes.fromhex(each["hex"]) if isinstance(each, dict) else each for each in given]


def make_manifest(
    world: World,
    seed: Seed,
    *,
    wire: str,
    dtype: str,
    sealed: bool,
    parameters: Mapping[str, Scalar],
    **fields: Any,
) -> Manifest:
    """What all processes must agree on about a session; `fields` are method, q and codec."""
    code = f"{__version__} {source_hash()[:16]}"
    return Manifest(
        seed_commitment=Tape(seed).commitment(),
        d=world.d,
        n=world.graph.n,
        edges=world.graph.edges,
        schedule=world.schedule_name,
        value=WIRES[wire].crosses_as(dtype).name,
        parameters={**parameters, "dtype": dtype, "wire": wire, "code": code, "sealed": sealed},
        **fields,
    )
