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
from zocosmo.llm.probe import setting_of, suggest_for
from zocosmo.llm.select import Q, suggest_q
from zocosmo.llm.subject import Subject, open_subject
from zocosmo.methods import METHODS

NAME = "finetune"  # of a config that stands in no file
DEFAULTS: dict[str, Any] = {
    "problem": {"kind": "llm", "model": "smollm2", "task": "toy", "clip": 0.9},
    "graphs": [{"kind": "ring", "n": 4}],
    "methods": [{"kind": "edge_local", "beta": 0.9, "decay": {"kind": "cosine", "rounds": 400}}],
    "seeds": [0],
    "rounds": 400,
    "log_every": 40,
    "wire": "f32",
    "dtype": "float32",
    "diverged_above": 5.0,
    "guard": {"grow": 0.05, "by": 0.5},
}
TOY: dict[Where, Any] = {  # of the task that is made up here, to try things out: 2 or 3 minutes on 2 cores
    ("problem", "validation_rows"): 200,
    ("rounds",): 40,
    ("log_every",): 20,
}
TRIED = {"eta": 0.05, "mu": 0.001, "noise": 1e-6}  # smollm2 in so few rounds: 64 → 72.5 to 87 %
OTHERS = "; eta and mu are known here, other choices are probed first; tasks other than toy have 400 rounds"
EXACT: dict[Where, Any] = {  # no guards: a NaN alone stops it
    ("problem", "clip"): 0.0,
    ("methods", 0, "decay"): {"kind": "constant"},
    ("diverged_above",): 1e12,
    ("guard",): None,
}
NEEDED = ("graphs", "methods", "seeds", "rounds")
FREE: dict[str, Any] = {  # of a problem: η and μ that were tried do not depend on these
    "device": "auto",
    "threads": 0,
    "validation_rows": 0,
    "eval_batch": 64,
    "noise": 0.0,
}

Changes = Mapping[Where, Any]
Say = Callable[[str], None]


def open_recipe(
    path: Path | None, changes: Changes, sets: Sequence[str] = (), *, exact: bool = False
) -> Config:
    """The config of a file, or that of the house, with changes by place and as `--set` has them.

    A file that `zocosmo run` takes means here what it means there, though q, η and μ may be missing; of one
    that lacks a section that `run` needs, all that it leaves out is the house's.
    """
    if path is None:
        config = Config(as_yaml(DEFAULTS), NAME)
    else:
        config = Config.load(path)
        changes = _fill(config, changes)
    settled: Any = config.data
    _put_all(settled, changes)
    for text in sets:
        config.override(text)
    if not isinstance(settled["problem"], dict):
        raise config.fail(("problem",), f"problem must be a mapping, got {settled['problem']!r}")
    touched = {*changes, *config.overrides}
    if path is None:
        if settled["problem"].get("task", "toy") == "toy":
            _put_all(settled, {where: value for where, value in TOY.items() if not _is_given(where, touched)})
            touched.add(("rounds",))  # others than those of DEFAULTS
        _fit_method(settled, touched)
    if exact:
        _refuse_guards(config)
        _put_all(settled, EXACT)
    _fit_rounds(settled, touched)
    return config


def _refuse_guards(config: Config) -> None:
    """Refuse a `--set` of what `--exact` turns off: one of the two was not meant."""
    for place, text in config.overrides.items():
        if any(place[: len(where)] == where for where in EXACT):
            raise InputError(f"--exact turns guards off, and --set {text} sets one; leave out either")


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


def settle(config: Config, name: str, say: Say | None = None) -> Plan:
    """The plan with all its numbers: every default written out; q, η and μ found where they are not given.

    Whoever is told of it is told of a plan that can be run: model and data have been read by then.
    """
    try:
        plan = _settle(config, name, say)
    except ConfigError as error:
        if config.name != NAME:
            raise
        said = re.sub(rf"^{NAME}:\d+: ", "", str(error))  # nobody has seen that file
        missing = re.fullmatch(r"(\w+)\[(\d+)\] lacks '(\w+)'", said)
        more = f"; give it: --set {'.'.join(missing.groups())}=…" if missing else ""
        raise InputError(said + more) from None
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


def _settle(config: Config, name: str, say: Say | None) -> Plan:
    lacking = _stand_in(config)
    plan = read_plan(config, name)
    if len(plan.trials) != 1:
        raise config.fail((), f"finetune runs one trial, and here are {len(plan.trials)}; use zocosmo run")
    data = resolved(plan)
    if "q" in lacking:
        data["methods"][0]["q"] = suggest_q(subject_of(plan).d)
        plan = read_plan(Config(as_yaml(data), config.name), name)
    tried = "eta" in lacking and _is_tried(plan)
    if tried:
        _take(data, TRIED)
        plan = read_plan(Config(as_yaml(data), config.name), name)
    if say is not None:
        subject = subject_of(plan)
        _ = subject.validation, subject.backbone  # what is wrong with them is said first
        say(in_words(plan, subject.d, is_probed="eta" in lacking and not tried) + OTHERS * tried)
    if "eta" in lacking and not tried:
        _take(data, _probed(plan, say or (lambda text: None)))
    return read_plan(Config(as_yaml(data), config.name), name)


def _take(data: dict[str, Any], found: Mapping[str, float]) -> None:
    data["methods"][0] |= {key: found[key] for key in ("eta", "mu")}
    data["problem"]["noise"] = data["problem"]["noise"] or found["noise"]


def _stand_in(config: Config) -> tuple[str, ...]:
    """Which of q, η and μ the method lacks; it gets others, until all else has been checked."""
    method = first_method(config.data)
    known = METHODS.get(str(method.get("kind")))
    found = [key for key in ("eta", "mu") if key in method]
    if len(found) == 1:
        other = "mu" if found == ["eta"] else "eta"
        raise config.fail(("methods", 0), f"{found[0]} is given and {other} is not; give both or neither")
    usual = {"eta": 0.0, "mu": 1.0, **({"q": 1} if known and "q" in method_fields(known) else {})}
    lacking = {key: value for key, value in usual.items() if key not in method}
    method |= lacking
    return tuple(lacking)


def in_words(plan: Plan, d: int, *, is_probed: bool = False) -> str:
    """A plan of one trial in a line; where it is to be probed, without its step."""
    trial = plan.trials[0]
    about, graph, method = dict(trial.problem), dict(trial.graph), trial.method
    parts = [
        f"{about['model']} on {about['task']}: {method.kind}",
        f"n = {graph['n']} ({graph['kind']})",
        f"q = {method.q} of d = {d}" if hasattr(method, "q") else f"d = {d}",
        "eta and mu from the probe" if is_probed else f"eta = {method.eta:.3g}, mu = {method.mu:.3g}",
        f"{plan.last} rounds",
    ]
    return ", ".join(parts)


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


def _is_tried(plan: Plan) -> bool:
    """Whether this is smollm2 on toy, and all that η and μ depend on is the house's."""
    method, house = plan.trials[0].method, DEFAULTS["methods"][0]
    own: Any = {key: getattr(method, key) for key in ("eta", "mu", "decay", "codec")}
    if method != METHODS["edge_local"](**own, q=Q, beta=house["beta"]):  # type: ignore[call-arg]
        return False
    setting = dataclasses.replace(subject_of(plan).setting, **FREE)
    usual = setting_of(clip=DEFAULTS["problem"]["clip"])
    return setting == usual and method.decay.kind == "cosine" and plan.last <= TOY[("rounds",)]


def _probed(plan: Plan, say: Say) -> dict[str, float]:
    """η, μ and the noise of the loss, measured on training examples."""
    trial, subject = plan.trials[0], subject_of(plan)
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
    return {"eta": float(found.eta), "mu": float(found.mu), "noise": float(found.noise)}


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


def first_method(data: Any) -> dict[str, Any]:
    """What a config says about its method; nothing where that is wrong, as the plan will say."""
    methods = data.get("methods")
    return methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], dict) else {}


def _is_given(where: Where, places: Collection[Where]) -> bool:
    """Whether somebody has set this place, or a whole that it is part of."""
    return any(where[:k] in places for k in range(1, len(where) + 1))


def _fit_method(data: dict[str, Any], changes: Collection[Where]) -> None:
    """Of the house's parameters, those that the chosen method has."""
    method = first_method(data)
    kind = METHODS.get(str(method.get("kind")))
    if kind is None:
        return
    for key in [key for key in method if key != "kind" and key not in method_fields(kind)]:
        if not _is_given(("methods", 0, key), changes):
            del method[key]


def _fit_rounds(data: Any, changes: Collection[Where]) -> None:
    """Other rounds than before: a cosine that ended with them still does, and the last round is measured."""
    rounds, every = data.get("rounds"), data.get("log_every")
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        return  # the plan will say what is wrong
    if ("rounds",) in changes and ("log_every",) not in changes and isinstance(every, int) and every > 0:
        every = data["log_every"] = _near(every, rounds)
    decay, place = first_method(data).get("decay"), ("methods", 0, "decay")
    touched = _is_given(place, changes) or any(where[:3] == place for where in changes)
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
