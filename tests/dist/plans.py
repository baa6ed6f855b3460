"""Plans that cover what the runtime must do as the simulator does it: methods, codecs, graphs, wires."""

import json
from dataclasses import fields

from zocosmo.methods import METHODS

KEY = "5a" * 32
STEP = {"eta": 0.015625, "mu": 0.0009765625}
SPARSE = {**STEP, "q": 5}
ALL = ["values", "indexed", "plain", "delta"]

EVERY = [  # of every method every codec; q does not divide d, so that balanced epochs end in a short round
    {"kind": "cosmo", **SPARSE, "codec": ALL},
    {"kind": "cosmo", **SPARSE, "passes": 2, "beta": 0.5, "rule": "balanced", "codec": ["values", "delta"]},
    {"kind": "edge_local", **SPARSE, "beta": 0.5, "coupling": ["G", "S", "I"]},
    {"kind": "edge_local", **SPARSE, "coupling": "S", "rule": "balanced", "codec": ALL[1:]},
    {"kind": "edge_local", **SPARSE, "hold": 3, "beta": 0.5, "coupling": ["G", "I"], "step": "normalised"},
    {"kind": "edge_local", **SPARSE, "hold": [1, 2], "pairs": "epoch", "rule": "balanced"},
    {"kind": "rand_k", **SPARSE, "beta": 0.5, "codec": ALL},
    {"kind": "com_dszo", **SPARSE, "codec": ["indexed", "plain", "delta"]},
    {"kind": "choco", **SPARSE, "codec": ["indexed", "delta"]},
    {"kind": "choco", **SPARSE, "compressor": "rand_k", "codec": ["values", "plain"]},
    {"kind": "dense", **STEP},
    {"kind": "flood", **STEP},
    {"kind": "seedflood", **STEP},
    {"kind": "subcge", **STEP, "rank": 3, "refresh": 2},
    {"kind": "cosmo", **SPARSE, "directions": 5, "signs": ["independent", "orthogonal"], "sides": [1, 2]},
    {"kind": "cosmo", **SPARSE, "directions": 8, "signs": "orthogonal", "rule": "balanced", "beta": 0.5},
    {"kind": "edge_local", **SPARSE, "directions": 3, "sides": 1, "coupling": ["G", "S", "I"]},
    {"kind": "rand_k", **SPARSE, "directions": 8, "signs": "orthogonal", "step": "normalised"},
    {"kind": "dense", **STEP, "directions": 2, "step": ["normalised", "normalised_local"]},
    {"kind": "tree_sum", **STEP, "perturbations": 13, "bits": [3, 32]},  # more scalars than coordinates
    {"kind": "tree_sum", **STEP, "perturbations": 1, "bits": [2, 16], "sides": 1},
    {"kind": "tree_mean", **SPARSE, "directions": 3, "hold": [1, 3], "wire": ["grid2", "grid7"]},
    {"kind": "tree_mean", **SPARSE, "directions": 8, "signs": "orthogonal", "sides": 1, "rule": "balanced"},
    {"kind": "tree_sum", **STEP, "perturbations": 13, "bits": 32, "wire": "grid3"},
    {"kind": "cosmo", **SPARSE, "wire": "grid4", "codec": ALL},
    {"kind": "edge_local", **SPARSE, "wire": "grid6"},
    {"kind": "moniqua", **STEP, "bits": [1, 9], "theta": 0.5, "gamma": 0.75},
]
ONE_EACH = [
    {"kind": "cosmo", **SPARSE, "codec": "indexed", "passes": 2, "beta": 0.5},
    {"kind": "edge_local", **SPARSE, "coupling": "I", "beta": 0.5},
    {"kind": "rand_k", **SPARSE},
    {"kind": "com_dszo", **SPARSE},
    {"kind": "choco", **SPARSE, "compressor": ["top_k", "rand_k"]},
    {"kind": "dense", **STEP},
    {"kind": "flood", **STEP},
    {"kind": "seedflood", **STEP},
    {"kind": "subcge", **STEP, "rank": 3, "refresh": 2},
    {"kind": "cosmo", **SPARSE, "directions": 3, "sides": 1, "codec": "delta", "step": "normalised"},
    {"kind": "edge_local", **SPARSE, "directions": 8, "signs": "orthogonal", "step": "normalised"},
    {"kind": "tree_sum", **STEP, "perturbations": 3},
    {"kind": "tree_mean", **SPARSE, "directions": 4, "hold": 2, "step": ["plain", "normalised"]},
    {"kind": "tree_mean", **SPARSE, "directions": 4, "wire": "grid3"},
    {
        "kind": "tree_gather",
        **SPARSE,
        "directions": 4,
        "signs": "orthogonal",
        "step": ["plain", "normalised"],
    },
    {"kind": "moniqua", **STEP, "theta": 0.5},
]
TO_ALL = [
    {"kind": "marina_type", **SPARSE, "period": 2, "beta": 0.5, "codec": ALL},
    {"kind": "rand_k_average", **SPARSE, "beta": 0.5, "codec": ALL},
]
APART = {each["kind"] for each in (*EVERY, *TO_ALL)} | {
    *("mezo", "sparse_mezo", "subzero", "fzoo"),  # these send nothing
}
NEW = [  # methods of peers that no line above names, with what they take of q
    {"kind": kind, **{key: value for key, value in SPARSE.items() if key in {f.name for f in fields(method)}}}
    for kind, method in METHODS.items()
    if kind not in APART and not method.server
]
EVERY += NEW
ONE_EACH += NEW

QUADRATIC = {"kind": "quadratic", "d": 12, "omega": 0.5, "zeta": 1.0, "sigma": 0.25}
ROSENBROCK = {"kind": "rosenbrock", "d": 12}
LOGISTIC = {"kind": "logistic", "batch": 8}  # d = 31

WIRES = [("f64", "float64"), ("f32", "float64"), ("f32", "float32"), ("f16", "float64")]
WIRES += [("f16", "float32"), ("bf16", "float64"), ("bf16", "float32")]
WIRES += [("nominal_f32", "float64"), ("nominal_f32", "float32")]
FEW_BITS = [  # of a method each wire by itself: it writes its messages modulo a range
    {"kind": "cosmo", **SPARSE, "beta": 0.5, "wire": ["mod2", "mod5"]},
    {"kind": "cosmo", **SPARSE, "rule": "balanced", "wire": "mod4", "codec": ["indexed", "delta"]},
    {"kind": "edge_local", **SPARSE, "coupling": ["G", "I"], "wire": ["mod3", "mod8"]},
    {"kind": "edge_local", **SPARSE, "rule": "balanced", "beta": 0.5, "wire": "mod4", "codec": "plain"},
    {
        "kind": "edge_local",
        **SPARSE,
        "rule": "balanced",
        "directions": 8,
        "wire": "mod3",
        "correction": 0.125,
    },
    {"kind": "edge_local", **SPARSE, "hold": 2, "wire": "mod4", "correction": 0.25, "coupling": "G"},
    {"kind": "cosmo", **SPARSE, "step": "normalised", "wire": "mod4", "correction": 0.5},
]
ROUGH = {**QUADRATIC, "sigma": 60.0}  # not every message can be read


def graphs(n, kinds=("ring", "path", "star", "grid", "complete", "erdos_renyi")):
    listed = {kind: {"kind": kind, "n": n} for kind in kinds}
    if "erdos_renyi" in listed:
        listed["erdos_renyi"]["p"] = 0.6
    return list(listed.values())


def config(methods, on, *, problem=QUADRATIC, wire=("f64", "float64"), rounds=4, seeds=(7,), lost=()):
    """The text of a config; YAML takes JSON."""
    return json.dumps(
        {
            "problem": problem,
            "graphs": on,
            "methods": methods,
            "seeds": list(seeds),
            "rounds": rounds,
            "log_every": 2,
            "wire": wire[0],
            "dtype": wire[1],
            "lost": list(lost),
        }
    )


def case(name, folder, text, **more):
    """One entry of the driver's list; checkpoints are another test's business."""
    return {
        "name": name,
        "config": text,
        "out": str(folder / name),
        "options": {"checkpoint_every": 10**6},
        **more,
    }
