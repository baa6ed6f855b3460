"""What small models say of orderings that the paper prints for Qwen2-7B: kept in another.json.

`python results/verdicts.py --write` computes the file from the logs in results/small-models.
"""

import json
from functools import cache
from importlib.resources import files

SPEAKS = {  # by item and claim: the claims on small models that are about the same ordering
    ("qwen-diagnostics", "values alone beat explicit indices"): (
        "SST-2: value-only beats indexed at equal bits (I)",
        "QNLI: value-only beats indexed at equal bits (I)",
    ),
    ("qwen-momentum", "momentum beats none at the same first step"): (
        "SST-2: momentum 0.9 beats none at the same first step",
    ),
    ("qwen-edge-local", "edge-local beats global support: accuracy, ring n=8"): (
        "SST-2, eight nodes: edge-local I beats global support at equal bits",
        "QNLI, eight nodes: edge-local I beats global support at equal bits",
    ),
    ("qwen-edge-local", "edge-local beats global support: accuracy, ring n=4"): (
        "SST-2: edge-local I beats global support at equal bits",
        "QNLI: edge-local I beats global support at equal bits",
    ),
    ("qwen-couplings", "S is more accurate than G, drop"): (
        "SST-2: S beats G (the paper: +3.75)",
        "QNLI: S beats G (the paper: +3.75)",
    ),
    ("qwen-couplings", "accuracy (points), I minus S, drop"): (
        "SST-2: I beats S (the paper: −1.86, open)",
        "QNLI: I beats S (the paper: −1.86, open)",
    ),
    ("qwen-reencoding", "values alone beat indices, I"): (
        "SST-2: value-only beats indexed at equal bits (I, 1,540 rounds)",
    ),
}


@cache
def _kept() -> dict[str, str]:
    text = files("zocosmo_paper").joinpath("another.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def another_model(item: str, words: str) -> list[str]:
    """Sentences about a claim, each marked as another model; none if no small model speaks to it."""
    return [f"another model, {_kept()[name]}" for name in SPEAKS.get((item, words), ())]
