"""The key `subspace` of a problem: {size: m}, or nothing."""

from collections.abc import Iterator, Sequence
from typing import Any

from zocosmo.experiments.config import Config, Where, check_fields, check_keys, choices

SUBSPACE: dict[str, tuple[Any, Any]] = {"subspace": (Any, None)}
SUBSPACE_SIZE = "subspace.size"  # its name in the spec of a problem, which lacks it without a subspace


def read_sizes(config: Config, where: Where, given: Any) -> Iterator[int | None]:
    """The sizes of a subspace, one for each entry of a list; None without a subspace."""
    if given is None:
        yield None
        return
    check_keys(config, where, given, ("size",))
    for chosen in choices(config, where, given):
        yield check_fields(config, where, chosen, {"size": (int, ...)})["size"]


def problem_entry(spec: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The problem of a trial as a config entry."""
    entry = dict(spec)
    if SUBSPACE_SIZE in entry:
        entry["subspace"] = {"size": entry.pop(SUBSPACE_SIZE)}
    return entry
