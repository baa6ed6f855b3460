"""From a few options to the plan of a fine-tuning run: defaults, changes, and q, η and μ if not given."""

import copy
import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from zocosmo.errors import ConfigError, InputError
from zocosmo.experiments.config import Config, Where
from zocosmo.experiments.plan import Plan, graph_entry, method_fields, read_plan
from zocosmo.experiments.subspace import SUBSPACE_SIZE, problem_entry
from zocosmo.llm.probe import suggest_for
from zocosmo.llm.quiet import Say, silent
from zocosmo.llm.second import RECIPES, USUAL, Shape, shape_for
from zocosmo.llm.select import Q, suggest_q
from zocosmo.llm.subject import Subject, open_subject
from zocosmo.methods import METHODS
from zocosmo.methods.base import as_config, as_fields
from zocosmo.problems.language import LORA, ModelSetting
from zocosmo.problems.subspace import SubspaceProblem

NAME = "finetune"  # of the default config, which is not in a file
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
TOY: dict[Where, Any] = {  # for the synthetic task toy: 2 or 3 minutes on 2 cores
    ("problem", "validation_rows"): 200,
    ("rounds",): 60,
    ("log_every",): 20,
}
TRIED = {  # smollm2 on toy in 60 rounds
    "edge_local": {"eta": 7.5, "mu": 0.18, "noise": 1e-6},
    "tree_mean": {"eta": 10.0, "mu": 0.0422, "noise": 1e-6},
}
TRIED_FIRST = {"eta": 0.05, "mu": 0.001, "noise": 1e-6}  # of the paper's method, in 40: 64 → 72.5 to 87 %
OTHERS = "; eta and mu are known here, other choices are probed first; tasks other than toy have 400 rounds"
EXACT: dict[Where, Any] = {  # no guards: only a NaN stops the run
    ("problem", "clip"): 0.0,
    ("methods", 0, "decay"): {"kind": "constant"},
    ("diverged_above",): 1e12,
    ("guard",): None,
}
NEEDED = ("graphs", "methods", "seeds", "rounds")
FREE = ("device", "threads", "validation_rows", "eval_batch", "noise")  # the known η and μ fit any of these

PLACES: dict[str, Where] = {  # the entry of a config that an option of `zocosmo finetune` sets
    **{name: ("problem", name) for name in ("model", "task", "data", "batch", "dtype", "device")},
    **{name: ("methods", 0, name) for name in ("q", "eta", "mu")},
    "method": ("methods", 0, "kind"),
    "momentum": ("methods", 0, "beta"),
    "graph": ("graphs", 0, "kind"),
    "nodes": ("graphs", 0, "n"),
    "rounds": ("rounds",),
    "every": ("log_every",),
    "seed": ("seeds", 0),
}

Changes = Mapping[Where, Any]


def open_recipe(
    path: Path | None, changes: Changes, sets: Sequence[str] = (), *, exact: bool = False
) -> Config:
    """The config of a file, or the default one, with changes by key and as `--set` texts.

    A file for `zocosmo run` means the same here, and may omit q, η and μ. A file without one of the sections
    that `run` needs is completed with the defaults.
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
            touched.add(("rounds",))  # they differ from DEFAULTS
        if not exact and _is_second(settled, touched):
            _make_second(settled, touched)
        _fit_method(settled, touched)
    if exact:
        for place, text in config.overrides.items():
            if any(place[: len(where)] == where for where in EXACT):
                raise InputError(f"--exact turns guards off, and --set {text} sets one; leave one out")
        _put_all(settled, EXACT)
    _fit_rounds(settled, touched)
    return config


def _is_second(data: Any, touched: Collection[Where]) -> bool:
    """Whether nothing is said of the method, but for a name that has a recipe."""
    named = {where for where in touched if where[:1] == ("methods",)}
    usual = named <= {("methods", 0, "kind")} and first_method(data).get("kind") in RECIPES
    return usual and not any(where[:2] == ("problem", "subspace") for where in touched)


def _make_second(data: Any, touched: Collection[Where]) -> None:
    """The second generation, whose sizes follow from the rounds and the model."""
    method = first_method(data)
    if ("methods", 0, "kind") not in touched:
        method["kind"] = USUAL
    method.pop("beta", None)
    method |= {key: value for key, value in RECIPES[method["kind"]].items() if key not in method}
    data["problem"].setdefault("rows", "split")


def _fill(config: Config, changes: Changes) -> Changes:
    """Complete the config of a file with defaults; its own rounds then count as changes."""
    found: Any = config.data
    problem = found.get("problem") if isinstance(found, dict) else None
    if not isinstance(problem, dict) or problem.get("kind") != "llm":
        raise config.fail(("problem",), f"finetune needs a problem of kind llm, got {problem!r}")
    if all(key in found for key in NEEDED):
        return changes
    but = "log_every" if "checkpoints" in found else ""  # which replace log_every
    config.data = {**{key: copy.deepcopy(part) for key, part in DEFAULTS.items() if key != but}, **found}
    return {**{(key,): found[key] for key in ("rounds", "log_every") if key in found}, **changes}


def settle(config: Config, name: str, say: Say | None = None) -> Plan:
    """The plan with every default written out, and with q, η and μ found if they are not given.

    `say` announces the run once model and data have been read without an error.
    """
    try:
        return _settle(config, name, say)
    except ConfigError as error:
        if config.name != NAME:
            raise
        if error.source != NAME:  # a --set
            raise InputError(str(error)) from None
        key = ".".join(map(str, (*error.key, error.missing)))
        raise InputError(error.reason + f"; give it: --set {key}=…" * bool(error.missing)) from None


def as_yaml(data: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=110)


def subject_of(plan: Plan) -> Subject:
    """The model and data of the only trial of a plan."""
    trial = plan.trials[0]
    if (chosen := dict(trial.problem)["coordinates"]) != LORA:
        raise InputError(f"finetune trains adapters, not coordinates {chosen!r}; use zocosmo run for those")
    problem: Any = trial.run().problem
    problem = problem.inner if isinstance(problem, SubspaceProblem) else problem
    return open_subject(problem.subject.setting)


def _settle(config: Config, name: str, say: Say | None) -> Plan:
    lacking = _stand_in(config)
    plan = read_plan(config, name)
    if (count := len(plan.trials)) != 1:
        raise config.fail((), f"finetune runs one trial, and the config has {count}; use zocosmo run")
    shape = _shape_of(plan) if "q" in lacking else None
    if lacking and shape is None and SUBSPACE_SIZE in dict(plan.trials[0].problem):
        missing = ", ".join(lacking)
        raise config.fail(("methods", 0), f"{missing} cannot be suggested in a subspace; give them")
    if shape is not None:
        plan = _changed(plan, config, shape.method, shape.problem)
    elif "q" in lacking:
        plan = _changed(plan, config, {"q": suggest_q(subject_of(plan).d)})
    tried = _known(plan) if "eta" in lacking else {}
    if tried:
        plan = _changed(plan, config, tried)
    if say is not None:
        subject = subject_of(plan)
        _ = subject.validation, subject.backbone  # refuse what is wrong with them first
        say(in_words(plan, subject.d, is_probed="eta" in lacking and not tried) + OTHERS * bool(tried))
    probed = _probed(plan, shape, say or silent) if "eta" in lacking and not tried else {}
    return _changed(plan, config, probed)


def _shape_of(plan: Plan) -> Shape | None:
    """Sizes of the second generation, if the method is of it: those that were tried, or those of the rule."""
    trial, about = plan.trials[0], dict(plan.trials[0].problem)
    settings, kind = trial.method.settings, trial.method.kind
    if kind not in RECIPES or SUBSPACE_SIZE in about:
        return None
    if any(settings["step_rule" if key == "step" else key] != value for key, value in RECIPES[kind].items()):
        return None
    sizes: Any = plan.last, about["batch"], trial.graph_of(), dict(trial.graph)["schedule"]
    return shape_for(subject_of(plan).d, *sizes, kind=kind)


def _changed(
    plan: Plan, config: Config, found: Mapping[str, Any], problem: Mapping[str, Any] | None = None
) -> Plan:
    """The plan with every default written out, and with these parameters of its method, problem and noise."""
    data, chosen = resolved(plan), dict(found)
    measured = chosen.pop("noise", 0.0)
    data["problem"] |= problem or {}
    data["problem"]["noise"] = data["problem"]["noise"] or measured
    data["methods"][0] |= chosen
    return read_plan(Config(as_yaml(data), config.name), plan.name)


def _stand_in(config: Config) -> tuple[str, ...]:
    """Put placeholders for missing q, η and μ, so that all else can be checked; returns what is missing."""
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
    """A plan of one trial in one line, without η and μ if they are still to be probed."""
    trial = plan.trials[0]
    about, graph, method = dict(trial.problem), dict(trial.graph), trial.method
    d = about.get(SUBSPACE_SIZE, d)
    size = f"q = {q} of d = {d}" if (q := method.settings.get("q")) else f"d = {d}"
    if method.vectors > 1:
        size += f", {method.vectors} directions"
    if method.wire:
        size += f", {method.wire}"
    step = "eta and mu from the probe" if is_probed else f"eta = {method.eta:.3g}, mu = {method.mu:.3g}"
    return (
        f"{about['model']} on {about['task']}: {method.kind}, n = {graph['n']} ({graph['kind']}), "
        f"{size}, {step}, {plan.last} rounds"
    )


def resolved(plan: Plan) -> dict[str, Any]:
    """The config of a plan of one trial, with every default written out."""
    trial = plan.trials[0]
    decay: Any = trial.method.decay
    settled = {"decay": {"kind": decay.kind, **dataclasses.asdict(decay)}}
    problem, graph = problem_entry(trial.problem), graph_entry(trial.graph)
    problem = {key: value for key, value in problem.items() if value is not None}
    sections = {
        "problem": {"kind": problem["kind"], **problem},
        "graphs": [{"kind": graph["kind"], **graph}],
        "methods": [{"kind": trial.method.kind, **as_config(trial.method.settings), **settled}],
    }
    return {**plan.config, **sections}


def _known(plan: Plan) -> dict[str, float]:
    """η, μ and noise of smollm2 on toy with the defaults for all that they depend on; else nothing."""
    trial, method, subject = plan.trials[0], plan.trials[0].method, subject_of(plan)
    if method.kind not in TRIED or method.decay.kind != "cosine" or plan.last > TOY[("rounds",)]:
        return {}
    own = {key: method.settings[key] for key in ("eta", "mu", "decay", "codec")}
    clip, free = DEFAULTS["problem"]["clip"], {key: vars(subject.setting)[key] for key in FREE}
    batch = ModelSetting().batch
    sizes: Any = plan.last, batch, trial.graph_of(), dict(trial.graph)["schedule"]
    shape = shape_for(subject.d, *sizes, kind=method.kind)
    usual: list[tuple[dict[str, Any], dict[str, Any], dict[str, float]]] = [
        (as_fields(shape.method), {"rows": "split"}, TRIED[method.kind])
    ]
    if method.kind == "edge_local":
        usual.append(({"q": Q, "beta": DEFAULTS["methods"][0]["beta"]}, {}, TRIED_FIRST))
    for options, problem, tried in usual:
        same = method == METHODS[method.kind](**own, **options)
        if same and subject.setting == ModelSetting(clip=clip, **free, **problem):
            return tried
    return {}


def _probed(plan: Plan, shape: Shape | None, say: Say) -> dict[str, float]:
    """η, μ and the noise of the loss, measured on training examples."""
    trial, subject = plan.trials[0], subject_of(plan)
    settings = trial.method.settings
    own: dict[str, Any] = {"shape": shape}
    if shape is None and settings.get("step_rule", "plain") != "plain":
        raise InputError("with a normalised step eta is the length of a step; give eta and mu")
    if shape is None:
        own = {name: settings[name] for name in settings if name not in ("eta", "mu", "decay", "codec")}
        own |= {"method": trial.method.kind, "q": settings.get("q")}
    found = suggest_for(
        subject.setting,
        graph=trial.graph_of(),
        seed=trial.seed,
        planned=plan.last,
        schedule=dict(trial.graph)["schedule"],
        say=say,
        **own,
    )
    if found.hopeless:
        raise InputError(f"{'; '.join(found.why)}; or give --eta and --mu to try anyway")
    for reason in found.why:
        say(reason)
    return {"eta": float(found.eta), "mu": float(found.mu), "noise": float(found.noise)}


def _put_all(data: dict[str, Any], changes: Changes) -> None:
    """Set entries; missing mappings on the way are added."""
    for where, value in changes.items():
        inside: Any = data
        try:
            for key in where[:-1]:
                inside = inside.setdefault(key, {}) if isinstance(inside, dict) else inside[key]
            inside[where[-1]] = copy.deepcopy(value)
        except (LookupError, TypeError):
            shown = ".".join(map(str, where))
            raise InputError(f"the config has no entry {shown!r}; name one such as problem.rank") from None


def first_method(data: Any) -> dict[str, Any]:
    """The first method of a config; empty if the config is wrong, which the plan will report."""
    methods = data.get("methods")
    return methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], dict) else {}


def _is_given(where: Where, places: Collection[Where]) -> bool:
    """Whether this entry was set, or one that contains it."""
    return any(where[:k] in places for k in range(1, len(where) + 1))


def _fit_method(data: dict[str, Any], changes: Collection[Where]) -> None:
    """Drop default parameters that the chosen method does not have."""
    method = first_method(data)
    kind = METHODS.get(str(method.get("kind")))
    if kind is None:
        return
    for key in [key for key in method if key != "kind" and key not in method_fields(kind)]:
        if not _is_given(("methods", 0, key), changes):
            del method[key]


def _fit_rounds(data: Any, changes: Collection[Where]) -> None:
    """If the rounds were changed, end a cosine decay with them and place a checkpoint at the last."""
    rounds, every = data.get("rounds"), data.get("log_every")
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        return  # the plan will report it
    if ("rounds",) in changes and ("log_every",) not in changes and isinstance(every, int) and every > 0:
        every = data["log_every"] = nearest_divisor(rounds, every)
    decay, place = first_method(data).get("decay"), ("methods", 0, "decay")
    touched = _is_given(place, changes) or any(where[:3] == place for where in changes)
    if ("rounds",) in changes and not touched and isinstance(decay, dict) and decay.get("kind") == "cosine":
        decay["rounds"] = rounds
    if ("log_every",) in changes and isinstance(every, int) and 0 < every <= rounds and rounds % every:
        less = rounds - rounds % every
        raise InputError(
            f"{rounds} rounds are not a multiple of {every}, and the last {rounds - less} would not be run; "
            f"take {less} or {less + every} rounds"
        )


def nearest_divisor(rounds: int, every: float) -> int:
    """The divisor of `rounds` that is nearest, in ratio, to `every`."""
    return min((k for k in range(1, rounds + 1) if rounds % k == 0), key=lambda k: abs(math.log(k / every)))
