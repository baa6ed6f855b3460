"""What a host tells a joiner about the job: the config, and how members treat each other."""

from dataclasses import asdict, dataclass, field
from typing import Any

from zocosmo.core.manifest import Manifest
from zocosmo.core.tape import Seed
from zocosmo.dist.engine import check_peers
from zocosmo.dist.manifests import manifest_of
from zocosmo.errors import InputError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import Plan, Trial, read_plan
from zocosmo.methods import Method
from zocosmo.methods.cosmo import Cosmo
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.problems import PROBLEMS

RUNS_CODE = ("python", "command")  # problems that run what a config names


@dataclass(frozen=True)
class Invitation:
    """A job as its host announces it. Seeds travel here, encrypted, and nowhere else."""

    name: str
    text: str  # the config
    changes: list[str] = field(default_factory=list)  # of --set
    seeds: list[Seed] | None = None
    soft: float | None = None  # seconds to wait for a message; None: learned
    lead: int = 200  # rounds by which a member may be ahead of the slowest that is alive
    dead_after: float = 20.0  # seconds without a heartbeat
    clip: float | None = None

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def plan(self, own: list[str] | None = None, *, run_code: bool = True) -> Plan:
        """The plan, with a joiner's own settings of the problem."""
        config = Config(self.text, f"the config of {self.name}")
        for change in (*self.changes, *(own or ())):
            config.override(change)
        if not run_code and not own:
            _check_harmless(config)
        return read_plan(config, self.name, self.seeds)


def only_trial(plan: Plan) -> Trial:
    """The trial of a plan that a network can run."""
    if len(plan.trials) != 1:
        raise InputError(f"a network runs one trial, got {len(plan.trials)}; give one method, graph and seed")
    for key, given in (("until", plan.until), ("guard", plan.guard), ("lost", plan.lost)):
        if given:
            raise InputError(f"{key} is for the simulator; leave it out, or use zocosmo run")
    check_peers(plan.trials[0].method)
    return plan.trials[0]


def can_skip(method: Method) -> bool:
    """Whether an exchange of this method that one end missed can be repaired."""
    if isinstance(method, EdgeLocal):
        return method.is_fleeting
    return isinstance(method, Cosmo) and method.passes == 1


def manifest_for(plan: Plan) -> Manifest:
    """What members must agree on."""
    return manifest_of(plan, only_trial(plan), sealed=False, on_lost_peer="skip")


def differences(ours: Manifest, theirs: Manifest, own: list[str]) -> str:
    """In what a joiner differs, but for its own settings of the problem; empty if in nothing."""
    free = {f"parameters.{change.partition('=')[0].strip()}" for change in own}
    found = [each for each in ours.differences(theirs) if each.field not in free]
    return "; ".join(f"{each.field}: the job has {each.ours}, it has {each.theirs}" for each in found)


def _check_harmless(config: Config) -> None:
    """Refuse a config that would run code by name, unless the joiner agrees."""
    kinds = [str(each) for each in _kinds(config.data)]
    named = [kind for kind in kinds if kind in RUNS_CODE or ":" in kind]
    problem = config.data.get("problem") if isinstance(config.data, dict) else None
    kind = problem.get("kind") if isinstance(problem, dict) else None
    if named or kind not in PROBLEMS:
        raise InputError(
            f"this config runs code on your machine ({', '.join(named) or kind}); if you trust its host, "
            "join with --run-code, or name your own --problem"
        )


def _kinds(data: Any) -> list[Any]:
    if isinstance(data, dict):
        own = [data["kind"]] if "kind" in data else []
        return own + [kind for each in data.values() for kind in _kinds(each)]
    return [kind for each in data for kind in _kinds(each)] if isinstance(data, list) else []
