"""Every error this package raises on purpose.

ZocosmoError
├── InputError            an argument is out of range or of the wrong kind (also a ValueError)
│   ├── GraphError        a graph, or a schedule on it, cannot be used
│   │   └── NotConnected  some nodes cannot reach each other
│   ├── ConfigError       a config file cannot be a plan: source, line, key, missing, reason
│   └── FolderError       a folder holds something other than this study: found, remedy
├── OracleError           a query raised, hung, or gave no finite number: node, t, query, result
├── MessageError          bytes from a peer are refused whole (also a ValueError)
│   ├── TruncatedMessage  too short, or too long, for what they claim to be
│   ├── CorruptMessage    the checksum or the content contradicts itself
│   ├── ForeignMessage    well formed, but of another version, session, round or sender
│   ├── NonFiniteMessage  values that are infinite or not numbers
│   └── SealBroken        the seal does not fit: another key, a changed or a repeated message
├── PeerLost              a peer is gone, or did not answer by the deadline: rank, t, waited
├── WorkerKilled          a process that runs batches was killed
├── SupportMismatch       messages do not cover what must be mixed
└── ManifestMismatch      peers do not agree on the session

The text says what was found and what to change, in one line. What a caller may need from it is a field.
"""

import operator
from collections.abc import Collection, Iterable
from typing import Any, SupportsIndex


class ZocosmoError(Exception):
    """Base of all errors raised here."""


class InputError(ZocosmoError, ValueError):
    """An argument is out of range or of the wrong kind."""


class GraphError(InputError):
    """A graph, or a schedule on it, cannot be used."""


class NotConnected(GraphError):
    """Some nodes cannot reach each other."""

    def __init__(self, why: str, *, what: str = "the graph is", remedy: str = "") -> None:
        super().__init__(f"{what} not connected: {why}{remedy}")
        self.why = why


class ConfigError(InputError):
    """A config file cannot be a plan."""

    def __init__(
        self,
        reason: str,
        *,
        source: str = "",
        line: int | None = None,
        key: tuple[str | int, ...] = (),
        missing: str = "",
    ) -> None:
        place = source if line is None else f"{source}:{line}"
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason = reason
        self.source = source  # a file, or the --set that the entry comes from
        self.line = line
        self.key = key  # keys and positions that lead to the entry
        self.missing = missing  # a key that the entry lacks


class FolderError(InputError):
    """A folder holds something other than the study that is to run there."""

    def __init__(self, found: str, remedy: str = "") -> None:
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found, self.remedy = found, remedy


class OracleError(ZocosmoError):
    """A query raised, hung, or gave no finite number."""

    def __init__(self, text: str, *, node: int | None = None, t: int | None = None, query: str = "") -> None:
        super().__init__(text)
        self.node, self.t, self.query = node, t, query
        self.result: Any = None  # of `minimize`: what was reached before
        self.key: Any = None  # of the query in the journal of a run, if it has one


class MessageError(ZocosmoError, ValueError):
    """Bytes from a peer are refused whole; none of them is used."""


class TruncatedMessage(MessageError):
    """Too short, or too long, for what they claim to be."""


class CorruptMessage(MessageError):
    """The checksum or the content contradicts itself."""


class ForeignMessage(MessageError):
    """Well formed, but of another version, session, round or sender."""


class NonFiniteMessage(MessageError):
    """Values that are infinite or not numbers; mixing would spread them to every node."""


class SealBroken(MessageError):
    """The seal does not fit: another key, a changed or a repeated message."""


class PeerLost(ZocosmoError):
    """A peer is gone, or did not answer by the deadline."""

    def __init__(
        self, text: str, *, rank: int | None = None, t: int | None = None, waited: float | None = None
    ) -> None:
        super().__init__(text)
        self.rank, self.t, self.waited = rank, t, waited  # waited: seconds


class WorkerKilled(ZocosmoError):
    """A process that runs batches was killed."""


class SupportMismatch(ZocosmoError):
    """Messages do not cover what must be mixed."""


class ManifestMismatch(ZocosmoError):
    """Peers do not agree on the session."""


def check_known(what: str, given: str, known: Collection[str]) -> None:
    """Refuse a name that is not in the table; list those that are, and suggest the closest."""
    if given not in known:
        raise InputError(f"{what} {given!r} is not known; choose from {among(given, known)}")


def among(given: object, known: Iterable[str], more: str = "") -> str:
    """The known names, then `more`, then the name that was probably meant.

    >>> among("gird", ["ring", "grid"])
    "ring, grid. Did you mean 'grid'?"
    """
    names = list(known)
    return f"{', '.join(names)}{more}{closest(given, names)}"


def closest(given: object, known: Iterable[str]) -> str:
    """A question after the list: the known name that is most like the given one, if any is."""
    from difflib import get_close_matches  # only mistakes need it

    folded = {name.casefold(): name for name in known}
    found = get_close_matches(str(given).casefold().replace("-", "_"), folded, n=1)
    return f". Did you mean {folded[found[0]]!r}?" if found else ""


def check_whole(what: str, given: SupportsIndex, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds as a Python int; NumPy integers are accepted."""
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
