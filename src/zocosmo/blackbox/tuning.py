"""What `minimize` chooses before its first round: from `suggest`, or from polls where the run retunes
itself."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from zocosmo.blackbox.choice import complete_method
from zocosmo.blackbox.directions import FEWEST
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.blackbox.place import Lifted, Place, Placed, sizes
from zocosmo.blackbox.poll import Noise, Poller, measure_noise
from zocosmo.blackbox.probes import Asker
from zocosmo.blackbox.suggest import REACH, Suggestion, first_q, suggest
from zocosmo.blackbox.terms import Terms
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError, check_whole
from zocosmo.methods import METHODS, Method
from zocosmo.methods.base import World
from zocosmo.methods.several import Several
from zocosmo.oracle import Oracle, Values
from zocosmo.subspace import lifting_of

MOST_POLLED = 4096  # coordinates
SEVERAL = ("directions", "signs", "sides", "step")

Admit = Callable[[Method], None] | None


@dataclass(eq=False)
class Space:
    """Where a run moves: the losses, their start, and the coordinates."""

    oracle: Oracle
    n: int
    start: Values  # (n, d)
    place: Place
    subspace: int | None
    seed: Seed
    wire: str
    reach: float | None  # in units of x

    def complete(
        self, method: str | Method, given: Mapping[str, Any], world: World, admit: Admit
    ) -> tuple[Method, Suggestion | None]:
        """The method, with what is missing from `suggest`."""
        return complete_method(method, given, world, self.wire, self.probe(), admit)

    def probe(self) -> Callable[..., Suggestion]:
        """`suggest` in the coordinates of the run."""
        about: dict[str, Any] = {"n": self.n, "seed": self.seed, "wire": self.wire}
        if self.place.is_plain and self.subspace is None:
            return partial(suggest, self.oracle, self.start, **about, reach=self.reach)
        oracle, z, far = self.oracle, self.start, self.reach
        if not self.place.is_plain:
            scale = self.place.scale
            far = REACH if self.reach is None else float((self.reach / scale).min())
            z = self.place.well_inside(self.place.to_z(z), far)
            oracle = Placed(oracle, self.place, self.n)
        if self.subspace is not None:
            from zocosmo.blackbox.suggest import as_reach

            inside = lifting_of(z, self.subspace, self.seed)
            far = (as_reach(None, z) if far is None else far) / inside.space.scale
            oracle, z = Lifted(oracle, inside, self.n), inside.start(self.n, float, beside=False)
        return partial(suggest, oracle, z, **about, reach=far)


def _names(kind: type[Method]) -> set[str]:
    return {each.name for each in fields(kind)}


class Tuning:
    """A run with a tolerance: polls at its start, and the numbers that follow."""

    def __init__(self, space: Space, tol: float, alone: bool) -> None:
        d = space.start.shape[-1]
        if space.subspace is not None or d > MOST_POLLED:
            found = "in a subspace" if space.subspace is not None else f"of {d:,} coordinates"
            raise InputError(f"tol polls every coordinate, so no run {found} takes it; give rounds")
        self.space, self.tol, self.alone = space, tol, alone
        self.place, self.unit = space.place, space.place.scale
        if (self.unit == 1.0).all():
            self.unit = sizes(space.start)
        self.tunes = False
        self.terms: Terms | None = None

    def complete(
        self, method: str | Method, given: Mapping[str, Any], world: World, admit: Admit
    ) -> tuple[Method, Suggestion | None]:
        """The method, with what is missing from a poll, or from `suggest` where runs cannot be retuned."""
        kind = METHODS[method] if isinstance(method, str) and method in METHODS else None
        if not self.alone or kind is None or not issubclass(kind, Several):
            return self.space.complete(method, given, world, admit)
        self.tunes = kind.retunes(given)
        if not self.tunes:
            return self.space.complete(method, given, world, admit)
        given = {name: value for name, value in given.items() if value is not None}
        if not any(name in given for name in SEVERAL) and given.get("q") is None and "q" in _names(kind):
            given["directions"] = "auto"
        if "rule" in _names(kind):
            given.setdefault("rule", "balanced")
        chosen, found = complete_method(method, given, world, self.space.wire, self.suggest, admit)
        return chosen, found

    def suggest(self, q: int | None = None, directions: int | str = 1) -> Suggestion:
        """Poll at the start, and tune."""
        space, d = self.space, self.space.start.shape[-1]
        poller, x = self._poller()
        auto, quiet = directions == "auto", poller.noise.quiet
        q = first_q(d, space.wire, auto) if q is None else check_whole("q", q, 1, d)
        self.terms = self._terms(poller, x, q)
        tuned = self.terms.tuned(self.place)
        self.place = self.place._replace(scale=tuned.scale)
        slope = float(np.sqrt(((self.terms.poll.slope * tuned.scale) ** 2).mean()))
        ratio = slope / (poller.noise.one / (math.sqrt(2) * tuned.mu)) if poller.noise.one else math.inf
        reasons = self._reasons(poller.noise, tuned.eta, tuned.mu, q)
        found = Suggestion(
            *(tuned.mu, tuned.eta, q, poller.noise.one, slope, tuned.curvature, ratio),
            *(poller.ask.queries, reasons),
        )
        if auto and q >= (2 if quiet else FEWEST) and not q & (q - 1):
            return found._replace(directions=q, signs="orthogonal", sides=1 if quiet else 2)
        return found

    def _reasons(self, noise: Noise, eta: float, mu: float, q: int) -> tuple[str, ...]:
        return (
            f"scale: every coordinate curves alike, from a poll of all {len(self.unit)}",
            f"eta = {eta:.3g}, mu = {mu:.3g}, in units of the scale; both follow later polls",
            f"q = {q}; noise {noise.one:.2g}" + (", the rounding of the answers" if noise.quiet else ""),
        )

    def _poller(self) -> tuple[Poller, Values]:
        space = self.space
        ask, x = Asker(space.oracle), space.start.mean(axis=0)
        x = np.clip(x, self.place.lo, self.place.hi)
        noise = measure_noise(ask, np.broadcast_to(x, space.start.shape), 0)
        return Poller(ask, space.n, self.place, self.unit, noise), x

    def _terms(self, poller: Poller, x: Values, q: int) -> Terms:
        tape, poll = Tape(self.space.seed), poller(x, 0)
        terms = Terms(poller, self.tol, self.unit, self.tunes, tape, q, poll, x)
        if self.tunes:
            terms.several = poller.interaction(poll, x, tape, q, 0)
        return terms

    def start(self, run: Optimizer) -> Terms:
        """The first term of a run."""
        if self.terms is None:
            poller, x = self._poller()
            self.terms = self._terms(poller, x, min(run.method.size(1, run.world.d), run.world.d))
        self.terms.begin(run)
        return self.terms
