"""What the model studies cost and count, without a model: mixing, payloads, runs, checkpoints; settings."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from zocosmo.experiments.plan import Trial
from zocosmo.graphs.graph import Graph, complete, ring
from zocosmo.graphs.weights import metropolis, rho
from zocosmo.methods.decay import Drop
from zocosmo.sim.engine import Simulation
from zocosmo_paper.claim import Claim, check, constant
from zocosmo_paper.item import Evidence, Findings, Item, Table
from zocosmo_paper.items.constants import SHORT, Fact, beside
from zocosmo_paper.items.constants import check as judged
from zocosmo_paper.plans import load_config

# fig:qwen_multi_agent: spectral factors of repeated passes, bits over the whole graph

PASSES: tuple[tuple[str, Graph, int, str], ...] = (
    ("ring of 4", ring(4), 1, "0.333"),
    ("ring of 4", ring(4), 2, "0.111"),
    ("ring of 8", ring(8), 1, "0.805"),
    ("ring of 8", ring(8), 4, "0.419"),
)
NETWORKS: tuple[tuple[str, Graph, str], ...] = (
    ("complete graph of 8", complete(8), "1.468G"),
    ("ring of 8", ring(8), "0.419G"),
)


def topology_rows() -> list[Fact]:
    rows = []
    for name, graph, passes, printed in PASSES:
        words = f"{name}: spectral factor, {passes} pass{'es' * (passes > 1)}"
        rows.append(Fact(words, printed, rho(metropolis(graph)) ** passes))
    for name, graph, printed in NETWORKS:
        rows.append(Fact(f"{name}: bits of 100 rounds over all links", printed, 2 * len(graph.edges) * SHORT))
    return rows


def find_topology(evidence: Evidence) -> Findings:
    rows = topology_rows()
    return Findings(
        judged(rows), [beside("qwen-topology-costs", "Mixing and payload of the topologies", rows)]
    )


# tab:appendix_artifacts, appendix:reproducibility_artifacts: runs and checkpoints

SEEDS = 5
ONE_PASS = ("complete 2", "complete 4", "complete 8", "ring 4", "ring 8")  # graphs of the topology study
MORE_PASSES = ("ring 4", "ring 8")
EDGE_LOCAL = ("complete 4", "complete 8", "ring 4", "ring 8")
AT_THE_END, TWICE = 1, 2  # checkpoints: round 100; the budget of an indexed message, and round 100
COUPLINGS, MARKS = "GSI", (100, 308, 912, 924, 1540)  # of the step-drop study


def artifact_claims() -> list[Claim]:
    """Runs and checkpoints of the archive, from the settings that the text gives."""
    topology, edge_local = SEEDS * len(ONE_PASS + MORE_PASSES), SEEDS * len(EDGE_LOCAL)
    early = SEEDS * len(EDGE_LOCAL)  # all-neighbour runs of the same graphs, where the budget ends
    marks = AT_THE_END * topology + early + TWICE * edge_local
    note = (
        "topology runs at round 100, all-neighbour ones also where the budget ends, edge-local at 59 and 100"
    )
    dropped = SEEDS * len(COUPLINGS)
    return [
        constant("topology and edge-local study: trials", "55", topology + edge_local),
        constant("topology and edge-local study: checkpoints", "95", marks, note=note),
        constant("step-drop study: runs", "15", dropped),
        constant("step-drop study: checkpoints", "75", dropped * len(MARKS)),
    ]


DROPPED_AT, EARLY_SEEDS = 100, 2


def drop_claims() -> list[Claim]:
    """A step that drops after round 100 leaves the states at round 100 alone; on quadratics."""
    plan = load_config("appendix-correlation-experiments", EARLY_SEEDS)
    found = []
    for coupling in COUPLINGS:
        trials = [trial for trial in plan.trials if trial.method.settings["coupling"] == coupling]
        runs = [_early_states(trials, decay) for decay in (None, Drop(at=DROPPED_AT, by=0.1))]
        alike = sum(bool((a == b).all()) for a, b in zip(*(states[0] for states in runs), strict=True))
        later = sum(bool((a != b).any()) for a, b in zip(*(states[1] for states in runs), strict=True))
        words = (
            f"runs whose states at round {DROPPED_AT} are those of the constant step, bit by bit: {coupling}"
        )
        note = f"on quadratics; at round {DROPPED_AT + 1}, {later} of {len(trials)} differ"
        found.append(check(constant(words, str(len(trials)), alike, "exactly, on the model", note)))
    return found


def _early_states(trials: Sequence[Trial], decay: Drop | None) -> tuple[Any, Any]:
    """States of all runs after 100 rounds and after 101, with momentum and a decay."""
    settings: dict[str, Any] = {"beta": 0.9} if decay is None else {"beta": 0.9, "decay": decay}
    batch = Simulation([replace(t, method=replace(t.method, **settings)).run() for t in trials])
    for _ in range(DROPPED_AT):
        batch.round()
    early = batch.states().copy()
    batch.round()
    return early, batch.states()


KEPT = (
    (
        "Rosenbrock",
        "tab-synthetic-ablation…, tab-rosen-q-sensitivity, fig-appendix-network-stress, tab-…locality",
    ),
    ("correlation mechanism", "appendix-correlation-experiments, appendix-extension-experiments-v23"),
    ("Qwen2-7B", "configs/model/*.yaml; not run here"),
    ("communication", "items serialisation and two-process-transfer"),
)


def find_artifacts(evidence: Evidence) -> Findings:
    claims = [*artifact_claims(), *drop_claims()]
    rows = [[name, ours] for name, ours in KEPT]
    notes = "Each item writes its manifest before the run, raw logs as Parquet, tables and figures."
    return Findings(
        claims, [Table("artifacts", "What stands in for the archive", ("study", "ours"), rows, notes)]
    )


# tab:appendix_hyperparams: that our configs have the printed settings

ROWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "Rosenbrock main",
        "tab-synthetic-ablation",
        {"d": 20, "n": [10], "q": [1], "eta": [2.5e-3], "rounds": 3000},
    ),
    (
        "Rosenbrock q sweep",
        "tab-rosen-q-sensitivity",
        {"d": 20, "n": [10], "q": [1, 2, 4, 8, 16], "eta": [8e-4], "rounds": 3000},
    ),
    (
        "network stress",
        "fig-appendix-network-stress",
        {"d": 128, "n": [4, 8, 16, 32, 64], "q": [16], "eta": [4e-4], "rounds": 1200},
    ),
    (
        "support locality",
        "tab-appendix-support-locality",
        {"d": 128, "n": [8, 16, 32, 64], "q": [16], "eta": [4e-4], "rounds": 2200},
    ),
)


def settings_of(name: str) -> dict[str, Any]:
    """d, N, q, η, rounds and μ of a config, as its trials have them."""
    plan = load_config(name, None)
    trials = plan.trials
    return {
        "d": int(dict(trials[0].problem)["d"]),
        "n": sorted({int(dict(trial.graph)["n"]) for trial in trials}),
        "q": sorted({int(t.method.settings["q"]) for t in trials if "q" in t.method.settings}),
        "eta": sorted({float(trial.method.eta) for trial in trials}),
        "rounds": plan.rounds,
        "mu": sorted({float(trial.method.mu) for trial in trials}),
    }


def setting_claims() -> list[Claim]:
    found = []
    for words, name, printed in ROWS:
        expected, ours = {**printed, "mu": [5e-3]}, settings_of(name)
        alike = sum(ours[key] == value for key, value in expected.items())
        off = ", ".join(key for key, value in expected.items() if ours[key] != value)
        found.append(check(constant(f"{words}: settings as printed", "6", alike, "6 of 6", off)))
    return found


ITEMS: Sequence[Item] = [
    Item(
        "qwen-topology-costs",
        "Mixing and payload of the Qwen topologies",
        ("fig:qwen_multi_agent", "eq:appendix_rho_compute"),
        "Two passes on the ring of 4 and four on the ring of 8 mix like 0.111 and 0.419; 100 rounds of eight "
        "workers cost 1.468 Gbit over the complete graph, 0.419 over the ring.",
        find_topology,
    ),
    Item(
        "artifacts",
        "Runs and checkpoints of the archive",
        ("tab:appendix_artifacts", "appendix:reproducibility_artifacts"),
        "The topology and edge-local study has 55 trials and 95 checkpoints, the step-drop study 15 and 75.",
        find_artifacts,
        ours={"archive": "the paper's own is not at hand; counts follow from the settings in the text"},
    ),
]
