"""Entries of `methods` as candidates: which run on a problem, and which settings are tried.

Every method gets the same number of settings: it divided by the choices of an entry's own lists is the number
of points in the range of eta, and each point is tried with each choice. `variants` lists groups of parameters
that change together: tune: {variants: [{q: 8, beta: 0.5}, {q: 16}]} has two choices.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from zocosmo.compare.contest import Candidate, Setting
from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config, Where, at, check_fields, check_keys, place
from zocosmo.experiments.plan import method_fields
from zocosmo.methods import METHODS

OWN_KEYS: dict[str, tuple[Any, Any]] = {  # keys of an entry besides its method's parameters
    "label": (str, ""),
    "only": (list[str] | None, None),
    "on": (dict[str, dict[str, Any]], {}),
    "tune": (dict[str, list[Any]], {}),
    "problem": (dict[str, Any], {}),  # keys of the problem that this entry changes, such as its subspace
    "family": (str, ""),  # entries of one family are one line of the picture
}
VARIANTS = "variants"  # key of `tune`


class Tuned(NamedTuple):
    """The lists of an entry on one problem, and where each is written."""

    lists: dict[str, list[Any]]
    places: dict[str, Where]

    @property
    def varied(self) -> dict[str, Where]:
        """Every parameter that a list or a variant sets, and where."""
        found = {key: self.places[key] for key in self.lists if key != VARIANTS}
        for group in self.lists.get(VARIANTS, []):
            found |= {key: (*self.places[VARIANTS], key) for key in group}
        return found


def wrong(config: Config, where: Where, reason: str) -> ConfigError:
    """An error about an entry, which its text begins with."""
    return config.fail(where, f"{place(where)} {reason}")


def candidates(
    config: Config,
    methods: Sequence[Any],
    problem: str,
    names: Sequence[str],
    *,
    mu: float | None,
    eta: Sequence[float],
    settings: int,
) -> Iterator[Candidate]:
    """The candidates on a problem, in the order of the file."""
    check_range(config, ("tune", "eta"), eta)
    for number, given in enumerate(methods):
        where: Where = ("methods", number)
        kind, fields = _fields(config, where, given)
        own = check_fields(config, where, {k: given[k] for k in OWN_KEYS if k in given}, OWN_KEYS)
        for key, named in (("only", own["only"] or ()), ("on", own["on"])):
            check_keys(config, (*where, key), dict.fromkeys(named), names)
        _check_only(config, where, own)
        if own["only"] is not None and problem not in own["only"]:
            continue
        changes, tuned = _tuned(config, where, own, problem, fields)
        shared = {} if mu is None or "mu" in tuned.varied else {"mu": mu}
        fixed = shared | {k: v for k, v in given.items() if k in fields and k != "eta"} | changes
        fixed |= {"problem": own["problem"]} if own["problem"] else {}
        _refuse_choices(config, where, {**fixed, **given})
        for key, place_of in tuned.varied.items():
            if key in fixed:
                reason = f"is tuned and set to {fixed[key]} on {problem}; leave one out"
                raise wrong(config, place_of, reason)
        etas, grid = _grid(config, (*where, "tune"), tuned, eta, settings)
        label = own["label"] or kind
        yield Candidate(label, kind, number, fixed, tuple(grid), tuple(etas), own["family"] or label)


def _fields(config: Config, where: Where, given: Any) -> tuple[str, Sequence[str]]:
    """The kind of an entry and its method's parameters, after a check of its keys."""
    kind = given.get("kind") if isinstance(given, dict) else None
    if not isinstance(kind, str) or kind not in METHODS:
        found = given if kind is None else kind
        kinds = ", ".join(METHODS)
        raise config.fail((*where, "kind"), f"a method must be a mapping with a kind: {kinds}; got {found!r}")
    fields = list(method_fields(at(config, (*where, "kind"), METHODS.__getitem__, kind)))
    check_keys(config, where, given, ["kind", *fields, *OWN_KEYS])
    return kind, fields


def _tuned(
    config: Config, where: Where, own: Mapping[str, Any], problem: str, fields: Sequence[str]
) -> tuple[dict[str, Any], Tuned]:
    """What an entry changes on a problem, and its lists there: those under on: replace those of the entry."""
    there: Where = (*where, "on", problem)
    changes = dict(check_keys(config, there, own["on"].get(problem, {}), [*fields, "tune"]))
    replaced = check_fields(config, there, {"tune": changes.pop("tune", {})}, {"tune": OWN_KEYS["tune"]})
    places: dict[str, Where] = {key: (*where, "tune", key) for key in own["tune"]}
    places |= {key: (*there, "tune", key) for key in replaced["tune"]}
    tuned = Tuned({**own["tune"], **replaced["tune"]}, places)
    known = [*fields, VARIANTS]
    check_keys(config, (*where, "tune"), own["tune"], known)
    check_keys(config, (*there, "tune"), replaced["tune"], known)
    for key, values in tuned.lists.items():
        if not values:
            raise wrong(config, places[key], "is an empty list; give it values to try")
    _check_variants(config, tuned, fields)
    return changes, tuned


def _check_variants(config: Config, tuned: Tuned, fields: Sequence[str]) -> None:
    """Refuse groups that are no mappings of parameters, set eta, or set what has a list of its own."""
    groups = tuned.lists.get(VARIANTS, [])
    known = [key for key in fields if key != "eta" and key not in tuned.lists]
    for k, group in enumerate(groups):
        where: Where = (*tuned.places[VARIANTS], k)
        check_keys(config, where, group, known)
        if group in groups[:k]:
            raise wrong(config, where, f"is the same as an earlier one, {group}; leave one out")


def _check_only(config: Config, where: Where, own: Mapping[str, Any]) -> None:
    """Refuse entries that run on no problem, and changes for problems they do not run on."""
    only = own["only"]
    if only == []:
        raise wrong(config, (*where, "only"), "is empty; name problems or leave it out")
    for problem in own["on"]:
        if only is not None and problem not in only:
            reason = "is for a problem that only: excludes; add it there or remove it here"
            raise wrong(config, (*where, "on", problem), reason)


def _refuse_choices(config: Config, where: Where, given: Mapping[str, Any]) -> None:
    """Refuse tuned values outside `tune`."""
    if "eta" in given:
        reason = "eta is tuned for every method alike; leave it out, or narrow it: tune: {eta: [a, b]}"
        raise config.fail((*where, "eta"), reason)
    for key, value in given.items():
        if isinstance(value, list) and key != "only":
            raise wrong(config, (*where, key), f"is a list; move it to tune: {{{key}: {value}}}")


def _grid(
    config: Config, where: Where, tuned: Tuned, eta: Sequence[float], settings: int
) -> tuple[list[float], Iterator[Setting]]:
    lists = dict(tuned.lists)
    range_at: Where = ("tune", "eta")
    if "eta" in lists:
        eta, range_at = lists.pop("eta"), tuned.places["eta"]
        check_range(config, range_at, eta)
    groups = lists.pop(VARIANTS, [{}])
    choices = len(groups) * math.prod(len(values) for values in lists.values())
    if settings % choices:
        raise wrong(config, where, f"makes {choices} choices, which do not divide tune.settings = {settings}")
    etas = spaced(eta[0], eta[1], settings // choices)
    if len(set(etas)) < len(etas):
        raise wrong(config, range_at, f"= {list(eta)} has no room for {len(etas)} step sizes; widen it")
    picked = product(etas, groups, *lists.values())
    return etas, ({"eta": eta, **group, **dict(zip(lists, own, strict=True))} for eta, group, *own in picked)


def check_range(config: Config, where: Where, eta: Sequence[Any]) -> None:
    numbers = len(eta) == 2 and all(isinstance(end, int | float) and math.isfinite(end) for end in eta)
    if not numbers or not 0 < eta[0] <= eta[1]:
        raise wrong(config, where, f"must be the smallest and the largest to try, above 0; got {list(eta)}")


def check_mu(config: Config, problem: str, mu: float) -> None:
    """Refuse a mu that is not finite and above 0, with its line in the file."""
    if not (math.isfinite(mu) and mu > 0):
        raise config.fail(("mu", problem), f"mu of {problem} must be a finite number above 0, got {mu}")


def spaced(least: float, most: float, points: int) -> list[float]:
    """Geometrically spaced points, to three digits; a single one is the geometric mean.

    >>> spaced(0.001, 1.0, 4)
    [0.001, 0.01, 0.1, 1.0]
    """
    exact = [math.sqrt(least * most)] if points == 1 else np.geomspace(least, most, points).tolist()
    short = [float(f"{eta:.3g}") for eta in exact]
    return short if len(set(short)) == points else exact
