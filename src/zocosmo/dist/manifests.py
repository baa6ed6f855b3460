"""Manifests: what the processes of a session or a plan agree on before the first round."""

from collections.abc import Mapping
from typing import Any

from zocosmo._version import __version__
from zocosmo.core.manifest import Manifest, Scalar
from zocosmo.core.tape import Seed, Tape
from zocosmo.core.wires import WIRES
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.log import source_hash
from zocosmo.methods.base import World


def manifest_of(plan: Plan, trial: Trial, *, sealed: bool, salt: bytes = b"", **runtime: Scalar) -> Manifest:
    """What all processes must agree on about a trial; `runtime` are settings of whoever runs it."""
    run, method = trial.run(), trial.method
    apart = ("q", "codec", "decay", "wire", *method.unstated)
    settings = {k: value for k, value in method.settings.items() if k not in apart}
    decay = {f"decay.{k}": v for k, v in {"kind": method.decay.kind, **vars(method.decay)}.items()}
    problem = {f"problem.{k}": v for k, v in trial.problem if (k, v) != ("rows", None)}
    rest: dict[str, Any] = {
        "trial": trial.number,
        "rounds": plan.rounds,
        "log_every": plan.log_every,
        **({"checkpoints": " ".join(map(str, plan.checkpoints))} if plan.checkpoints else {}),
        **({f"guard.{k}": v for k, v in vars(plan.guard).items()} if plan.guard else {}),
        **({"lost": str(plan.config["lost"])} if plan.lost else {}),
        **runtime,
        "diverged_above": min(plan.diverged_above, 1e308),
    }
    fields = {"q": method.settings.get("q", run.problem.d), "method": method.kind, "codec": method.codec}
    wire = method.wire_for(plan.wire, plan.dtype)
    about: dict[str, Any] = {"wire": wire, "dtype": plan.dtype, "sealed": sealed, "salt": salt}
    parameters = {**settings, **decay, **problem, **rest}
    return make_manifest(run.world, trial.seed, parameters=parameters, **about, **fields)


def make_manifest(
    world: World,
    seed: Seed,
    *,
    wire: str,
    dtype: str,
    sealed: bool,
    parameters: Mapping[str, Scalar],
    salt: bytes = b"",
    **fields: Any,
) -> Manifest:
    """What all processes must agree on about a session; `fields` are method, q and codec.

    A `salt` hardens the commitment to the seed.
    """
    code = f"{__version__} {source_hash()[:16]}"
    return Manifest(
        seed_commitment=Tape(seed).commitment(salt),
        d=world.d,
        n=world.graph.n,
        edges=world.graph.edges,
        schedule=world.schedule_name,
        value=WIRES[wire].crosses_as(dtype).name,
        parameters={**parameters, "dtype": dtype, "wire": wire, "code": code, "sealed": sealed},
        **fields,
    )
