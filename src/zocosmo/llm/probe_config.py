"""The config that `zocosmo probe --to` writes."""

import json
from dataclasses import asdict
from typing import Any

from zocosmo.llm.probe import Proposal, takes
from zocosmo.llm.recipe import DEFAULTS, nearest_divisor
from zocosmo.problems.language import ModelSetting

PLAIN = ("kind", "dtype", "coupling", "signs", "step", "rule", "wire", "rows")  # words that need no quotes
CHECKPOINTS = 20  # wanted; their number must divide the rounds


def as_config(
    setting: ModelSetting, proposal: Proposal, graph: dict[str, Any], method: dict[str, Any], rounds: int
) -> str:
    """A config of the proposal, with the noise of the loss, so that training logs its signal-to-noise."""
    usual = asdict(ModelSetting())
    problem = {"kind": "llm", "model": setting.model, "task": setting.task, "batch": setting.batch}
    problem |= {key: value for key, value in asdict(setting).items() if value != usual[key]}
    problem |= {"dtype": setting.dtype, "noise": float(f"{proposal.noise:.3g}")}
    size = {"q": proposal.q} if takes(method["kind"], "q") else {}
    if proposal.shape is not None:
        problem, size = {**problem, **proposal.shape.problem}, proposal.shape.method
    chosen = {**method, **size, "eta": proposal.eta, "mu": proposal.mu}
    chosen["decay"] = {"kind": "cosine", "rounds": rounds}
    lines = [
        "# proposed by zocosmo probe, from training examples only:",
        *(f"#   {reason}" for reason in proposal.why),
        f"problem: {_yaml(problem)}",
        f"graphs: [{_yaml(graph)}]",
        f"methods: [{_yaml(chosen)}]",
        "seeds: [1]  # the probe had another",
        f"rounds: {rounds}",
        f"log_every: {checkpoint_every(rounds)}",
        f"guard: {_yaml(DEFAULTS['guard'])}  # the step drops where states grow and the loss does not fall",
        "dtype: float32  # of the adapters",
        "wire: f32",
    ]
    return "\n".join(lines) + "\n"


def checkpoint_every(rounds: int) -> int:
    """A divisor of the rounds, so that the last is measured, that gives about 20 checkpoints."""
    return nearest_divisor(rounds, rounds / CHECKPOINTS)


def _yaml(value: Any) -> str:
    """A value that YAML 1.1 reads back: text in quotes, floats with a dot."""
    if isinstance(value, dict):
        words = (part if key in PLAIN else _yaml(part) for key, part in value.items())
        return "{" + ", ".join(f"{key}: {word}" for key, word in zip(value, words, strict=True)) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
