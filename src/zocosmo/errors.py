"""Every error this package raises on purpose.

ZocosmoError
├── InputError            an argument is out of range or of the wrong kind (also a ValueError)
│   ├── GraphError        a graph, or a schedule on it, cannot be used
│   └── ConfigError       a config file that cannot be a plan
├── OracleError           a query that raised, hung, or gave no finite number
├── MessageError          bytes from a peer that are refused whole (also a ValueError)
│   ├── TruncatedMessage  too short, or too long, for what they claim to be
│   ├── CorruptMessage    the checksum or the content contradicts itself
│   ├── ForeignMessage    well formed, but of another version, session, round or sender
│   ├── NonFiniteMessage  values that are infinite or no numbers
│   └── SealBroken        the seal does not fit: another key, a changed or a repeated message
├── PeerLost              a peer that is gone, or kept us waiting past the deadline
├── SupportMismatch       messages that do not cover what must be mixed
└── ManifestMismatch      peers that do not agree on the session

A message says what was found and what to change, in one line.
"""

import operator
from collections.abc import Collection
from typing import SupportsIndex


class ZocosmoError(Exception):
    """Base of all errors raised here."""


class InputError(ZocosmoError, ValueError):
    """An argument is out of range or of the wrong kind."""


class GraphError(InputError):
    """A graph, or a schedule on it, cannot be used."""


class ConfigError(InputError):
    """A config file that cannot be a plan."""


class OracleError(ZocosmoError):
    """A query that raised, hung, or gave no finite number; says which node, round and query."""


class MessageError(ZocosmoError, ValueError):
    """Bytes from a peer that are refused whole; nothing of them is returned."""


class TruncatedMessage(MessageError):
    """Too short, or too long, for what they claim to be."""


class CorruptMessage(MessageError):
    """The checksum or the content contradicts itself."""


class ForeignMessage(MessageError):
    """Well formed, but of another version, session, round or sender."""


class NonFiniteMessage(MessageError):
    """Values that are infinite or no numbers: mixed once, they would be everywhere."""


class SealBroken(MessageError):
    """The seal does not fit: another key, a changed or a repeated message."""


class PeerLost(ZocosmoError):
    """A peer that is gone, or kept us waiting past the deadline; says who, in which round, how long."""


class SupportMismatch(ZocosmoError):
    """Messages that do not cover what must be mixed."""


class ManifestMismatch(ZocosmoError):
    """Peers that do not agree on the session."""


def check_known(what: str, given: str, known: Collection[str]) -> None:
    """Refuse a name that is in no table, and say which are."""
    if given not in known:
        raise InputError(f"{what} {given!r} is not known; choose from {', '.join(known)}")


def check_whole(what: str, given: SupportsIndex, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds, NumPy's included, as Python's own."""
    if type(given) is int and least <= given <= (given if most is None else most):  # nearly always
        return given
    try:
        number = operator.index(given)
    except TypeError:
        raise InputError(f"{what} must be a whole number, got {given!r}") from None
    if isinstance(given, bool) or number < least or (most is not None and number > most):
        bounds = f"{least} or more" if most is None else f"between {least} and {most}"
        raise InputError(f"{what} must be {bounds}, got {given!r}")
    return number
