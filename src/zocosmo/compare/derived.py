"""Configs made from parts of another one; errors still name the original line."""

from collections.abc import Mapping
from typing import Any

from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config, Where, place


class Derived(Config):
    """Plain data assembled from a file; `sources` maps each part to its entry in the file."""

    def __init__(self, source: Config, data: dict[str, Any], sources: Mapping[Where, Where]) -> None:
        self.name, self.data, self._sources = source.name, data, dict(sources)
        self.lines, self.overrides = {(): 1}, {}
        for here, there in sources.items():
            self.lines |= _moved(source.lines, there, here)
            self.overrides |= _moved(source.overrides, there, here)

    def fail(self, key: Where, reason: str, *, missing: str = "") -> ConfigError:
        """The error, with list entries numbered as in the file."""
        for here, there in self._sources.items():
            if isinstance(here[-1], int) and key[: len(here)] == here:
                reason = reason.replace(place(here), place(there))
        return super().fail(key, reason, missing=missing)


def _moved(entries: Mapping[Where, Any], there: Where, here: Where) -> dict[Where, Any]:
    """Entries below `there`, moved below `here`."""
    return {(*here, *at[len(there) :]): what for at, what in entries.items() if at[: len(there)] == there}
