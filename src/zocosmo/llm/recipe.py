"""From a few words to a plan: what a fine-tuning run is, unless somebody says otherwise."""

import copy
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from zocosmo.errors import ConfigError, InputError
from zocosmo.experiments.config import Config, Where
from zocosmo.experiments.plan import Plan, graph_entry, method_fields, read_plan
from zocosmo.llm.probe import suggest_for
from zocosmo.llm.subject import Subject, open_subject
from zocosmo.methods import METHODS

NAME = "finetune"  # of a config that stands in no file
DEFAULTS: dict[str, Any] = {
    "problem": {"kind": "llm", "model": "smollm2", "task": "toy", "clip": 0.9},
    "graphs": [{"kind": "ring", "n": 4}],
    "methods": [{"kind": "edge_local", "q": 8192, "beta": 0.9, "decay": {"kind": "cosine", "rounds": 400}}],
    "seeds": [0],
    "rounds": 400,
    "log_every": 40,
    "wire": "f32",
    "dtype": "float32",
    "diverged_above": 5.0,
    "guard": {"grow": 0.05, "by": 0.5},
}
DEMO: dict[Where, Any] = {  # what SmolLM2 and the toy task take: a few minutes on two cores
    ("problem", "validation_rows"): 200,
    ("problem", "noise"): 1e-6,
    ("methods", 0, "eta"): 0.03,
    ("methods", 0, "mu"): 0.01,
    ("methods", 0, "decay", "rounds"): 60,
    ("rounds",): 60,
    ("log_every",): 10,
}
EXACT: dict[Where, Any] = {  # no guards: a NaN alone stops it
    ("problem", "clip"): 0.0,
    ("methods", 0, "decay"): {"kind": "constant"},
    ("diverged_above",): 1e12,
    ("guard",): None,
}
NEEDED = ("graphs", "methods", "seeds", "rounds")
FREE = (("rounds",), ("log_every",), ("seeds", 0), ("problem", "device"), ("problem", "threads"))

Changes = Mapping[Where, Any]
Say = Callable[[str], None]


def open_recipe(
    path: Path | None, changes: Changes, sets: Sequence[str] = (), *, exact: bool = False
) -> Config:
    """The config of a file, or that of the house, with changes by place and as `--set` has them.

    A file that `zocosmo run` takes means here what it means there, though η and μ may be missing; of one that
    lacks a section that `run` needs, all that it leaves out is the house's.
    """
    if path is None:
        data = copy.deepcopy(DEFAULTS)
        if not sets and all(where in FREE or where[0] == "graphs" for where in changes):
            _put_all(data, DEMO)
        _put_all(data, changes)
        _fit_method(data, changes)
        config = Config(as_yaml(data), NAME)
    else:
        config = Config.load(path)
        changes = _fill(config, changes)
    settled: Any = config.data
    _put_all(settled, changes)
    for text in sets:
        config.override(text)
    if exact:
        _put_all(settled, EXACT)
    _fit_rounds(settled, {*changes, *config.overrides})
    return config


def _fill(config: Config, changes: Changes) -> Changes:
    """Give the config of a file what it lacks; rounds that it has then count as a change of the house's."""
    found: Any = config.data
    problem = found.get("problem") if isinstance(found, dict) else None
    if not isinstance(problem, dict) or problem.get("kind") != "llm":
        raise config.fail(("problem",), f"finetune needs a problem of kind llm, got {problem!r}")
    if all(key in found for key in NEEDED):
        return changes
    but = "log_every" if "checkpoints" in found else ""  # which stand in its place
    config.data = {**{key: copy.deepcopy(part) for key, part in DEFAULTS.items() if key != but}, **found}
    return {**{(key,): found[key] for key in ("rounds", "log_every") if key in found}, **changes}


def settle(config: Config, name: str, say: Say = lambda text: None) -> Plan:
    """The plan with all its numbers: every default written out, η and μ from the probe where not given."""
    try:
        plan = _settle(config, name, say)
    except ConfigError as error:
        if config.name != NAME:
            raise
        raise InputError(re.sub(rf"^{NAME}:\d+: ", "", str(error))) from None  # nobody has seen that file
    return plan


def as_yaml(data: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=110)


def subject_of(plan: Plan) -> Subject:
    """What the only trial of a plan learns from what."""
    trial = plan.trials[0]
    if (chosen := dict(trial.problem).get("coordinates", "lora")) != "lora":
        raise InputError(f"finetune trains adapters, not coordinates {chosen!r}; use zocosmo run for those")
    problem: Any = trial.run().problem
    return open_subject(problem.subject.setting)


def _settle(config: Config, name: str, say: Say) -> Plan:
    given_data: Any = config.data
    methods = given_data["methods"]
    method = methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], dict) else {}
    given = [key for key in ("eta", "mu") if key in method]
    if len(given) == 1:
        other = "mu" if given == ["eta"] else "eta"
        raise config.fail(("methods", 0), f"{given[0]} is given and {other} is not; give both or neither")
    if not given:
        method |= {"eta": 0.0, "mu": 1.0}  # until all else has been checked
    plan = read_plan(config, name)
    if len(plan.trials) != 1:
        raise config.fail((), f"finetune runs one trial, and here are {len(plan.trials)}; use zocosmo run")
    data = resolved(plan)
    if not given:
        _probed(plan, data, say)
    return read_plan(Config(as_yaml(data), config.name), name)


def resolved(plan: Plan) -> dict[str, Any]:
    """The config of a plan of one trial, with every default in it."""
    trial = plan.trials[0]
    method = {f.name: getattr(trial.method, f.name) for f in dataclasses.fields(trial.method)}
    decay = method["decay"]
    method |= {"kind": trial.method.kind, "decay": {"kind": decay.kind, **dataclasses.asdict(decay)}}
    sections = {
        "problem": _kind_first(dict(trial.problem)),
        "graphs": [_kind_first(graph_entry(trial.graph))],
        "methods": [_kind_first(method)],
    }
    return {**plan.config, **sections, "on_lost_peer": plan.on_lost_peer}


def _kind_first(entry: dict[str, Any]) -> dict[str, Any]:
    return {"kind": entry["kind"], **entry}


def _probed(plan: Plan, data: dict[str, Any], say: Say) -> None:
    """η, μ and the noise of the loss, measured on training examples."""
    trial, subject = plan.trials[0], subject_of(plan)
    say("eta and mu are not given; the probe measures noise and slopes first")
    fields = {f.name: getattr(trial.method, f.name) for f in dataclasses.fields(trial.method)}
    own = {key: value for key, value in fields.items() if key not in ("eta", "mu", "decay", "codec", "q")}
    found = suggest_for(
        subject.setting,
        graph=trial.graph_of(),
        method=trial.method.kind,
        q=fields.get("q"),
        seed=trial.seed,
        planned=plan.last,
        schedule=dict(trial.graph)["schedule"],
        say=say,
        **own,
    )
    if found.hopeless:
        raise InputError(f"{'; '.join(found.why)}; or give --eta and --mu to try all the same")
    for reason in found.why:
        say(reason)
    data["methods"][0] |= {"eta": float(found.eta), "mu": float(found.mu)}
    data["problem"]["noise"] = float(found.noise)


def _put_all(data: dict[str, Any], changes: Changes) -> None:
    for where, value in changes.items():
        _put(data, where, copy.deepcopy(value))


def _put(data: Any, where: Where, value: Any) -> None:
    """Set an entry; mappings on the way are made where there are none."""
    shown = ".".join(map(str, where))
    for key in where[:-1]:
        if isinstance(data, dict):
            data = data.setdefault(key, {})
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            raise InputError(f"there is no place {shown!r} in the config; name one such as problem.rank")
    last: Any = where[-1]
    if isinstance(data, dict) or (isinstance(data, list) and isinstance(last, int) and last < len(data)):
        data[last] = value
    else:
        raise InputError(f"there is no place {shown!r} in the config; name one such as problem.rank")


def _fit_method(data: dict[str, Any], changes: Changes) -> None:
    """Of the house's parameters, those that the chosen method has."""
    method = data["methods"][0]
    kind = METHODS.get(method["kind"])
    if kind is None:
        return
    for key in [key for key in method if key != "kind" and key not in method_fields(kind)]:
        if ("methods", 0, key) not in changes:
            del method[key]


def _fit_rounds(data: Any, changes: Collection[Where]) -> None:
    """Other rounds than before: a cosine that ended with them still does, and the last round is measured."""
    rounds, every = data.get("rounds"), data.get("log_every")
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        return  # the plan will say what is wrong
    if ("rounds",) in changes and ("log_every",) not in changes and isinstance(every, int) and every > 0:
        every = data["log_every"] = _near(every, rounds)
    methods = data.get("methods")
    decay = methods[0].get("decay") if isinstance(methods, list) and methods else None
    touched = any(where[:3] == ("methods", 0, "decay") for where in changes)
    if ("rounds",) in changes and not touched and isinstance(decay, dict) and decay.get("kind") == "cosine":
        decay["rounds"] = rounds
    if ("log_every",) in changes and isinstance(every, int) and 0 < every <= rounds and rounds % every:
        raise InputError(
            f"{rounds} rounds are no multiple of {every}, and the last {rounds % every} would not be run; "
            f"take {rounds - rounds % every} or {rounds - rounds % every + every} rounds"
        )


def _near(every: int, rounds: int) -> int:
    """The divisor of `rounds` that is nearest, in ratio, to `every`."""
    return min((k for k in range(1, rounds + 1) if rounds % k == 0), key=lambda k: abs(math.log(k / every)))
