"""Step size schedules: η_t = η · factor(t)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from zocosmo.errors import InputError, check_whole


class Decay(Protocol):
    """A public factor for each round."""

    kind: ClassVar[str]

    def factor(self, t: int) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The same step in every round."""

    kind: ClassVar[str] = "constant"

    def factor(self, t: int) -> float:
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Drop:
    """The step is multiplied by `by` from round `at` on."""

    kind: ClassVar[str] = "drop"
    at: int
    by: float = 0.1

    def __post_init__(self) -> None:
        check_whole("decay.at", self.at)
        _check_factor("decay.by", self.by)

    def factor(self, t: int) -> float:
        return self.by if t >= self.at else 1.0


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """Half a cosine wave from 1 down to `to` over `rounds` rounds, then `to`."""

    kind: ClassVar[str] = "cosine"
    rounds: int
    to: float = 0.0

    def __post_init__(self) -> None:
        check_whole("decay.rounds", self.rounds, 1)
        _check_factor("decay.to", self.to)

    def factor(self, t: int) -> float:
        share = min(t / self.rounds, 1.0)
        return self.to + (1.0 - self.to) * 0.5 * (1.0 + math.cos(math.pi * share))


@dataclass(frozen=True, kw_only=True)
class InverseSqrt:
    """1/√(1 + t/after): the rate of the theory, nearly flat for the first `after` rounds."""

    kind: ClassVar[str] = "inverse_sqrt"
    after: int = 1

    def __post_init__(self) -> None:
        check_whole("decay.after", self.after, 1)

    def factor(self, t: int) -> float:
        return 1.0 / math.sqrt(1.0 + t / self.after)


def _check_factor(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{what} must be between 0 and 1, got {value}")


DECAYS: dict[str, type] = {each.kind: each for each in (Constant, Drop, Cosine, InverseSqrt)}
