"""Probe a model in several dtypes, one after the other, and choose one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zocosmo.llm.backbone import pick_device
from zocosmo.llm.probe import (
    Probe,
    Proposal,
    probe,
    recommend,
    size_for,
    suggest,
    takes,
    with_pilots,
    with_shape,
)
from zocosmo.llm.quiet import Say
from zocosmo.llm.second import shape_for
from zocosmo.llm.subject import Subject
from zocosmo.problems.language import ModelSetting

ALL = ("float32", "tf32", "bfloat16")


def settings_for(given: ModelSetting, dtype: str) -> list[ModelSetting]:
    """One setting for each dtype to probe; `all` leaves out tf32 on a CPU."""
    if dtype != "all":
        return [replace(given, dtype=dtype)]
    on_cpu = pick_device(given.device) == "cpu"
    return [replace(given, dtype=name) for name in ALL if not (on_cpu and name == "tf32")]


def probe_dtypes(
    settings: Sequence[ModelSetting],
    method: str,
    probing: Mapping[str, Any],
    piloting: Mapping[str, Any] | None,
    say: Say | None,
    shaping: Mapping[str, Any] | None = None,
) -> tuple[list[tuple[Probe, Proposal]], int | None]:
    """The results of each dtype, and the best one, whose η pilots choose. One model is in memory at a time.

    `probing` has options of `probe`, `piloting` those of `with_pilots`; None runs no pilots. `shaping` has
    the method, graph and planned rounds of the second generation; None is the first.
    """
    found = []
    for setting in settings:
        subject = Subject(setting)
        size = size_for(method, probing["q"], subject.d)
        one = probe(subject, say=say, **{**probing, "q": size})
        found.append((one, suggest(one) if shaping is None else _shaped(subject, one, shaping)))
    best = recommend(found)
    if best is not None and piloting is not None:
        one = found[best][0]
        if shaping is not None:
            more = {key: piloting[key] for key in ("rounds", "seed")}
            return [
                *found[:best],
                (one, _shaped(Subject(settings[best]), one, shaping, pilots=True, say=say, **more)),
                *found[best + 1 :],
            ], best
        found[best] = one, with_pilots(Subject(settings[best]), one, method=method, say=say, **piloting)
    return found, best


def _shaped(subject: Subject, one: Probe, shaping: Mapping[str, Any], **more: Any) -> Proposal:
    graph, planned = shaping["graph"], shaping["planned"]
    shape = shape_for(subject.d, planned, subject.setting.batch, graph, kind=shaping["kind"])
    return with_shape(subject, one, graph, shape, **{"planned": planned, "pilots": False, **more})


def momentum_of(method: str, momentum: float) -> dict[str, float]:
    """The method's momentum, if it has any."""
    return {"beta": momentum} if takes(method, "beta") else {}
