"""The manifest of a trial: what the processes of a plan agree on before the first round."""

from typing import Any

from zocosmo.core.manifest import Manifest
from zocosmo.dist.handshake import make_manifest
from zocosmo.experiments.plan import Plan, Trial


def manifest_of(plan: Plan, trial: Trial, *, sealed: bool, on_lost_peer: str) -> Manifest:
    """What all processes must agree on about a trial."""
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
        "on_lost_peer": on_lost_peer,
        "diverged_above": min(plan.diverged_above, 1e308),
    }
    fields = {"q": method.settings.get("q", run.problem.d), "method": method.kind, "codec": method.codec}
    wire = method.wire_for(plan.wire, plan.dtype)
    about: dict[str, Any] = {"wire": wire, "dtype": plan.dtype, "sealed": sealed}
    parameters = {**settings, **decay, **problem, **rest}
    return make_manifest(run.world, trial.seed, parameters=parameters, **about, **fields)
