"""Session manifest: everything that two peers must share before the first round, and its fingerprint."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from zocosmo.core.message import CODECS
from zocosmo.core.support import check_size
from zocosmo.core.values import VALUE_TYPES
from zocosmo.errors import InputError, ManifestMismatch, MessageError, check_known

PROTOCOL_VERSION = 1

Scalar = bool | int | float | str | None


class Difference(NamedTuple):
    """One field in which two manifests differ."""

    field: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.field}: ours {self.ours}, theirs {self.theirs}"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a session is. Equal manifests have equal bytes, and so equal fingerprints, on every machine."""

    seed_commitment: str  # Tape.commitment(): names the seed without showing it
    d: int
    q: int
    method: str
    n: int
    edges: tuple[tuple[int, int], ...]  # ascending pairs in lexicographic order
    schedule: str = ""
    codec: str = "values"
    value: str = "f32"
    parameters: Mapping[str, Scalar] = field(default_factory=dict)  # the method's own, all of them public
    protocol: int = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.type in (int, str) and type(getattr(self, each.name)) is not each.type:
                raise InputError(f"manifest field {each.name} must be {each.type.__name__}")
        check_size(self.d, self.q)
        check_known("codec", self.codec, CODECS)
        check_known("value type", self.value, VALUE_TYPES)
        if list(self.edges) != sorted({(min(edge), max(edge)) for edge in self.edges}):
            raise InputError("a manifest lists each edge once, as ascending pairs in lexicographic order")
        for name, value in self.parameters.items():
            if not isinstance(value, Scalar):
                raise InputError(f"parameter {name!r} must be a number, text or null, got {value!r}")

    def to_bytes(self) -> bytes:
        """Canonical bytes: JSON with sorted keys, no spaces, ASCII, and floats in hexadecimal."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        plain["parameters"] = {name: _exact(value) for name, value in self.parameters.items()}
        return _canonical(plain).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """Back from `to_bytes`; anything that it would not have written is a MessageError."""
        try:
            plain = json.loads(data.decode("ascii"))
            plain["edges"] = tuple((int(i), int(j)) for i, j in plain["edges"])
            plain["parameters"] = {name: _inexact(value) for name, value in plain["parameters"].items()}
            manifest = cls(**plain)
            canonical = manifest.to_bytes()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise MessageError(f"these {len(data)} bytes are not a session manifest: {error}") from None
        if canonical != data:
            raise MessageError("this session manifest is not in canonical form; send Manifest.to_bytes()")
        return manifest

    def fingerprint(self) -> bytes:
        """32 bytes that stand for the whole manifest; frames carry the first four."""
        return hashlib.blake2b(self.to_bytes(), digest_size=32, person=b"zo-cosmo sess v1").digest()

    def differences(self, theirs: "Manifest") -> list[Difference]:
        """Field by field, what differs; a method's parameters each count as a field."""
        ours, other = dict(self._flat()), dict(theirs._flat())
        names = [*ours, *(name for name in other if name not in ours)]
        pairs = ((name, ours.get(name, "absent"), other.get(name, "absent")) for name in names)
        return [
            Difference(*_shortened(*each)) for each in pairs if _canonical(each[1]) != _canonical(each[2])
        ]

    def _flat(self) -> Iterator[tuple[str, Any]]:
        for each in fields(self):
            if each.name == "parameters":
                yield from ((f"parameters.{name}", self.parameters[name]) for name in sorted(self.parameters))
            else:
                yield each.name, getattr(self, each.name)


def check_same_session(ours: Manifest, theirs: Manifest, *, peer: int) -> None:
    """Nothing where two manifests are equal; else an error with every field that is not."""
    if found := ours.differences(theirs):
        listed = "; ".join(map(str, found))
        raise ManifestMismatch(f"node {peer} is set up for another session: {listed}; start all nodes alike")


def _canonical(value: Any) -> str:
    return json.dumps(_exact(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _exact(value: Any) -> Any:
    """A float as its own bits: languages print decimals in different ways."""
    return {"float": value.hex()} if isinstance(value, float) else value


def _inexact(value: Any) -> Any:
    return float.fromhex(value["float"]) if isinstance(value, dict) else value


def _shortened(name: str, ours: Any, theirs: Any) -> tuple[str, Any, Any]:
    """Edge lists by what only one side has, and commitments by their start."""
    if name == "edges":
        return name, _only(ours, theirs), _only(theirs, ours)
    if name == "seed_commitment":
        return name, f"{ours[:12]}…", f"{theirs[:12]}…"
    return name, ours, theirs


def _only(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> str:
    alone = [f"{i}-{j}" for i, j in sorted(set(ours) - set(theirs))]
    return f"{len(ours)} edges" + (
        f", alone in {', '.join(alone[:4])}{'…' * (len(alone) > 4)}" if alone else ""
    )
