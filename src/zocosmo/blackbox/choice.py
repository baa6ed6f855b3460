"""Methods and graphs by name, completed with what is given and with suggestions."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from zocosmo.blackbox.suggest import COARSE, Suggestion, q_reason, suggest_only_q, suggest_q, wire_reason
from zocosmo.errors import InputError, check_known
from zocosmo.graphs.graph import GRAPHS, Graph, ring
from zocosmo.methods import METHODS
from zocosmo.methods.base import SPELT, Method, World, as_fields
from zocosmo.methods.several import Several

SUGGESTED = ("q", "eta", "mu")
CHOICES = (
    "q",
    "eta",
    "mu",
    "directions",
    "signs",
    "sides",
    "step",
    "wire",
)  # one that is named ends defaults


def with_defaults(
    method: str | Method, given: Mapping[str, Any], wire: str | None, *, n: int, several: bool
) -> dict[str, Any]:
    """What is given, with the options of the second generation where none of them, of q, eta and mu is named:
    directions as `suggest` finds them (`several`), balanced supports, and 8 bits for a value.

    Only for methods that have them all, by name.
    """
    found = {name: value for name, value in given.items() if value is not None}
    kind = METHODS[method] if isinstance(method, str) and method in METHODS else None
    if kind is None or wire is not None or any(name in found for name in CHOICES):
        return found
    if not (kind.coarse and issubclass(kind, Several)):
        return found
    if n > 1 and "codec" not in found:
        found["wire"] = COARSE
    if several:
        found |= {"directions": "auto", "rule": found.get("rule", "balanced")}
    return found


def complete_method(
    method: str | Method,
    given: Mapping[str, Any],
    world: World,
    wire: str,
    probe: Callable[..., Suggestion],
    admit: Callable[[Method], None] | None = None,
) -> tuple[Method, Suggestion | None]:
    """The method with the given fields, and suggestions for missing ones; `admit` may refuse it before
    anything is asked."""
    given = {name: value for name, value in given.items() if value is not None}
    admit = admit or _anyone
    if isinstance(method, Method):
        if given:
            raise InputError(f"a finished method does not take {', '.join(given)}; set them in the method")
        admit(method)
        return method, None
    if not isinstance(method, str):
        raise InputError(f"method must be a name or a finished method such as Cosmo(q=…), got {method!r:.80}")
    check_known("method", method, METHODS)
    kind, d = METHODS[method], world.d
    given, known = as_fields(given), [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            names = sorted(SPELT.get(field, field) for field in known)
            raise InputError(f"method {method} has no {SPELT.get(name, name)!r}; it has {', '.join(names)}")
    if "decay" in given and (isinstance(given["decay"], type) or not hasattr(given["decay"], "factor")):
        raise InputError(
            f"decay must be one made of a class in zocosmo.methods.DECAYS, got {given['decay']!r:.80}"
        )
    for field in fields(kind):
        if field.default is field.default_factory is MISSING and field.name not in (*given, *SUGGESTED):
            raise InputError(f"method {method} needs {field.name!r}, which cannot be suggested; give it")
    missing = [name for name in SUGGESTED if name in known and name not in given]
    if given.get("directions") == "auto":
        return _several(kind, given, world, wire, probe, admit)
    if not missing:
        done = kind(**given)
        admit(done)
        return done, None
    sized = {"q": suggest_q(d, wire), **given} if "q" in known else given
    trial = kind(**{"eta": 1.0, "mu": 1.0, **sized})
    trial.check(world)  # before any query is spent
    trial.wire_for(wire, float)
    admit(trial)
    if missing == ["q"]:
        return trial, suggest_only_q(trial.eta, trial.mu, d, wire)
    if "eta" in missing and trial.settings.get("step_rule", "plain") != "plain":
        raise InputError("with a normalised step eta is the length of a step; give eta")
    found = probe(q=min(trial.size(1, d), d))  # the widest direction of a round
    if "q" in missing:
        found = found._replace(reasons=(q_reason(d, wire, sized["q"]), *found.reasons))
    found = found._replace(q=sized.get("q", d))
    if trial.by_sign and found.slope:
        eta = found.eta * found.slope
        why = f"eta = {eta:.3g}: that times the slope {found.slope:.3g}, as steps of {method} ignore its size"
        found = found._replace(eta=eta, reasons=(*found.reasons, why))
    return kind(**{"eta": found.eta, "mu": found.mu, **sized}), found


def _anyone(method: Method) -> None:
    """Refuses no method."""


def _several(
    kind: type[Method],
    given: Mapping[str, Any],
    world: World,
    wire: str,
    probe: Callable[..., Suggestion],
    admit: Callable[[Method], None],
) -> tuple[Method, Suggestion]:
    """The method with suggested directions, signs and sides, and whatever else is missing."""
    if set_by_hand := [name for name in ("signs", "sides", "step_rule") if name in given]:
        names = ", ".join(SPELT.get(name, name) for name in set_by_hand)
        raise InputError(f"directions auto chooses signs and sides for plain steps; leave out {names}")
    if "q" not in {field.name for field in fields(kind)}:
        raise InputError(
            f"directions auto chooses directions on supports, and {kind.kind} has no q; give them"
        )
    rest = {name: value for name, value in given.items() if name != "directions"}
    trial = kind(**{"eta": 1.0, "mu": 1.0, "q": 1, **rest})
    trial.check(world)
    trial.wire_for(wire, float)
    admit(trial)
    found = probe(q=given.get("q"), directions="auto")
    if "wire" in rest:
        found = found._replace(wire=rest["wire"], reasons=(*found.reasons, wire_reason(rest["wire"])))
    chosen = {"directions": found.directions, "signs": found.signs, "sides": found.sides}
    done = kind(**{"eta": found.eta, "mu": found.mu, "q": found.q, **rest, **chosen})
    admit(done)
    return done, found


def as_graph(graph: Graph | str | None, n: int) -> Graph:
    """A graph by its name; by default two nodes are joined, and more form a ring."""
    if isinstance(graph, Graph):
        return graph
    if graph is None:
        return ring(n) if n > 2 else Graph.of(n, [(0, 1)][: n - 1], "complete")
    check_known("graph", graph, GRAPHS)
    try:
        return GRAPHS[graph](n)
    except TypeError:
        raise InputError(f"graph {graph!r} has parameters; pass zocosmo.graphs.{graph}({n}, …)") from None
