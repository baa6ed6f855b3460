"""Session manifest: everything that peers must agree on before the first round, and its fingerprint."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from zocosmo.core.message import CODECS
from zocosmo.core.price import WRITTEN
from zocosmo.core.support import check_size
from zocosmo.core.values import VALUE_TYPES
from zocosmo.core.wires import FEW_BITS
from zocosmo.errors import InputError, ManifestMismatch, MessageError, check_known, check_whole

PROTOCOL_VERSION = 1

Scalar = bool | int | float | str | None


class Difference(NamedTuple):
    """One field in which two manifests differ."""

    field: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.field}: ours {self.ours}, theirs {self.theirs}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Manifest:
    """What a session is. Manifests are equal if their bytes are."""

    seed_commitment: str  # Tape.commitment(): identifies the seed without revealing it
    d: int
    q: int
    method: str
    n: int
    edges: tuple[tuple[int, int], ...]  # ascending pairs in lexicographic order
    schedule: str = ""
    codec: str = "values"
    value: str = "f32"
    parameters: Mapping[str, Scalar] = field(default_factory=dict)  # of the method; all public
    protocol: int = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.type is str and not isinstance(given := vars(self)[each.name], str):
                raise InputError(f"manifest field {each.name} must be text, got {given!r}")
        d, q = check_size(self.d, self.q)
        n, protocol = check_whole("n", self.n, 1), check_whole("protocol", self.protocol, 1)
        edges = tuple(
            (check_whole("a node", i, 0, n - 1), check_whole("a node", j, 0, n - 1)) for i, j in self.edges
        )
        if list(edges) != sorted({(i, j) for i, j in edges if i < j}):
            raise InputError("edges must be distinct ascending pairs in lexicographic order; use Graph.edges")
        if self.codec not in WRITTEN:
            check_known("codec", self.codec, CODECS)
        check_known("value type", self.value, VALUE_TYPES | FEW_BITS)
        for name, value in self.parameters.items():
            if not isinstance(name, str) or not isinstance(value, Scalar):
                raise InputError(f"parameter {name!r} must be a number, text or null, got {value!r}")
        settled = {"d": d, "q": q, "n": n, "protocol": protocol, "edges": edges}
        for name, thing in {**settled, "parameters": MappingProxyType(dict(self.parameters))}.items():
            object.__setattr__(self, name, thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Manifest) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Canonical bytes: JSON with sorted keys, no spaces, ASCII, and floats in hexadecimal."""
        parameters = {name: _exact(value) for name, value in self.parameters.items()}
        return _canonical({**vars(self), "parameters": parameters}).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """The inverse of `to_bytes`; a MessageError for bytes that it would not have written."""
        try:
            plain = json.loads(data.decode("ascii"))
            plain["parameters"] = {name: _inexact(value) for name, value in plain["parameters"].items()}
            manifest = cls(**plain)
            canonical = manifest.to_bytes()
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise MessageError(f"these {len(data)} bytes are not a session manifest: {error}") from None
        if canonical != data:
            raise MessageError("this session manifest is not in canonical form; send Manifest.to_bytes()")
        return manifest

    def fingerprint(self) -> bytes:
        """32 bytes that identify the manifest; frames carry the first four."""
        return hashlib.blake2b(self.to_bytes(), digest_size=32, person=b"zo-cosmo sess v1").digest()

    def differences(self, theirs: "Manifest") -> list[Difference]:
        """The fields that differ; each parameter of a method counts as a field."""
        ours, other = dict(self._flat()), dict(theirs._flat())
        texts = [{name: _canonical(value) for name, value in side.items()} for side in (ours, other)]
        names = [*ours, *(name for name in other if name not in ours)]
        differ = [name for name in names if texts[0].get(name) != texts[1].get(name)]
        return [Difference(name, *_shown(name, ours, other)) for name in differ]

    def _flat(self) -> Iterator[tuple[str, Any]]:
        for name, value in vars(self).items():
            if name == "parameters":
                yield from ((f"parameters.{each}", value[each]) for each in sorted(value))
            else:
                yield name, value


def check_same_session(ours: Manifest, theirs: Manifest, *, peer: int) -> None:
    """Raise ManifestMismatch, listing every field that differs, unless the manifests are equal."""
    if found := ours.differences(theirs):
        listed = "; ".join(map(str, found))
        raise ManifestMismatch(
            f"node {peer} is set up for another session: {listed}; start all nodes with the same settings"
        )


def _canonical(value: Any) -> str:
    return json.dumps(_exact(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _exact(value: Any) -> Any:
    """A float in hexadecimal: languages print decimals differently."""
    return {"float": value.hex()} if isinstance(value, float) else value


def _inexact(value: Any) -> Any:
    return float.fromhex(value["float"]) if isinstance(value, dict) else value


def _shown(name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """Both sides of a difference as text: of edges those that one side lacks, of commitments the start."""
    if name == "edges":
        return _only(ours[name], theirs[name]), _only(theirs[name], ours[name])
    if name == "seed_commitment":
        return f"{ours[name][:12]}…", f"{theirs[name][:12]}…"
    return tuple(repr(side[name]) if name in side else "absent" for side in (ours, theirs))


def _only(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> str:
    alone = [f"{i}-{j}" for i, j in sorted(set(ours) - set(theirs))]
    listed = f" ({', '.join(alone[:4])}{'…' * (len(alone) > 4)} only here)" if alone else ""
    return f"{len(ours)} edges{listed}"
