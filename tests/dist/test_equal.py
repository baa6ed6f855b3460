"""The runtime is the simulator, bit for bit, and the bytes between processes are the bits on the ledger.

One start of processes serves all its cases, and one test looks at all of them: starting takes seconds.
"""

import numpy as np
import pytest

from dist.plans import (
    EVERY,
    FEW_BITS,
    KEY,
    LOGISTIC,
    ONE_EACH,
    ROSENBROCK,
    ROUGH,
    TO_ALL,
    WIRES,
    case,
    config,
    graphs,
)
from dist.ranks import run_cases
from zocosmo.core.wires import WIRES as WIRE_TABLE
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import read_log
from zocosmo.sim.engine import Simulation

SPREAD = ("path", "erdos_renyi")
F32, F64 = ("f32", "float32"), ("f64", "float64")


def plan_of(each):
    return read_plan(Config(each["config"], "case.yaml"), "case")


def shared_cases(folder, world):
    """More nodes than processes: 4, 5 and 8 of them, on whole graphs and on random ones."""
    for n in (4, 5, 8):
        yield case(f"shared-{n}", folder, config(ONE_EACH, graphs(n, SPREAD), wire=F32))
        yield case(f"shared-all-{n}", folder, config(TO_ALL, graphs(n, ["complete"])))
    yield case("shared-logistic", folder, config(ONE_EACH, graphs(5, ["ring"]), problem=LOGISTIC))
    yield case("shared-sealed", folder, config(ONE_EACH, graphs(8, ["grid"])), key=KEY)


def own_cases(folder, world):
    """A process for each node."""
    yield case("all", folder, config(TO_ALL, graphs(world, ["complete"]), wire=F32))
    yield case("graphs", folder, config(ONE_EACH, graphs(world)))
    yield case("sealed", folder, config(ONE_EACH[:3], graphs(world, ["star"]), wire=F32), key=KEY)


def varied_cases(folder, world):
    """Every codec of every method, every wire, and problems with noise and batches."""
    yield case("methods", folder, config(EVERY, graphs(world, ["ring", "grid", "complete"])))
    for wire in WIRES:
        yield case("-".join(wire), folder, config(ONE_EACH, graphs(world, ["star"]), wire=wire))
    yield case("all-f16", folder, config(TO_ALL, graphs(world, ["complete"]), wire=("f16", "float32")))
    yield case("rosenbrock", folder, config(ONE_EACH, graphs(world, SPREAD), problem=ROSENBROCK, wire=F32))
    yield case("logistic", folder, config(ONE_EACH, graphs(world, ["ring"]), problem=LOGISTIC))


def few_bits_cases(folder, world):
    """Messages modulo a range: read, not read, wide, lost, and repaired."""
    links = [(0, 1), (1, 0), (0, 1), (1, 2), (3, 2), (2, 3), (3, 0), (0, 3), (0, 1)]
    lost = [[2 + t, *link] for t, link in enumerate(links)]
    ring, rough = graphs(4, ["ring"]), {"problem": ROUGH, "wire": ("f32", "float32")}
    yield case("lost", folder, config(FEW_BITS, ring, rounds=16, lost=lost))
    yield case("rough", folder, config(FEW_BITS, graphs(4, ["star"]), rounds=16, **rough))
    yield case("sealed", folder, config(FEW_BITS[:2], ring, rounds=8, lost=lost, **rough), key=KEY)


def full_cases(folder, world):
    """Every method and codec on every graph over every wire, with a node in each process and with several."""
    for n in {2: (2, 5), 3: (3, 8), 4: (4, 5), 8: (8,)}[world]:
        on = graphs(n) if n != 5 else graphs(n, ("ring", "path", "star", "complete", "erdos_renyi"))
        for wire in WIRES:
            key = {"key": KEY} if wire in (F32, ("bf16", "float64")) else {}
            name = f"{n}-{'-'.join(wire)}"
            yield case(name, folder, config(EVERY, on, wire=wire), **key)
            whole = config(TO_ALL, graphs(n, ["complete"]), wire=wire, rounds=6, seeds=(1, 2))
            yield case(f"all-{name}", folder, whole, **key)
        for problem in (ROSENBROCK, LOGISTIC):
            yield case(f"{n}-{problem['kind']}", folder, config(EVERY, on, problem=problem, wire=F32))


def simulated_states(plan, trial):
    simulation = Simulation(
        [trial.run()],
        codecs=[trial.method.codec],
        wire=plan.wire,
        dtype=plan.dtype,
        bound=plan.diverged_above,
        lost=plan.lost,
    )
    for _ in range(plan.last):
        simulation.round()
    return simulation.states()[0].astype(np.float64)


def other_states(cases, folder):
    """Trials whose last states are not the simulator's."""
    for each in cases:
        plan = plan_of(each)
        with np.load(folder / each["name"] / "states.npz") as states:
            for trial in plan.trials:
                if not np.array_equal(states[f"trial-{trial.number}"], simulated_states(plan, trial)):
                    yield each["name"], *trial.labels


def other_logs(cases, folder):
    """Cases whose log is not, byte for byte, what `zocosmo run` writes, but for the bits of seals."""
    for each in cases:
        ours, theirs = (at / each["name"] / "log.parquet" for at in (folder, folder / "simulated"))
        expected, log = run_plan(plan_of(each), theirs.parent), read_log(ours)
        if log.header != expected.header:
            yield each["name"], "header"
        elif "key" not in each:
            if ours.read_bytes() != theirs.read_bytes():
                yield each["name"], "rows"
        else:
            grown = log.rows["framing_bits"] - expected.rows["framing_bits"]
            log.rows["framing_bits"] -= grown
            if not (log.rows.equals(expected.rows) and is_growth(plan_of(each), grown, log.rows)):
                yield each["name"], "sealed rows"


def is_growth(plan, grown, rows):
    """128 bits more for each message; how many there were is in the value bits, where all have one size."""
    if (grown % 128).any():
        return False
    sizes = [value_bits(plan, trial) for trial in plan.trials]
    sized = [(k, size) for k, size in enumerate(sizes) if size is not None]
    of = rows["trial"]
    return all((grown[of == k] * size == 128 * rows["value_bits"][of == k]).all() for k, size in sized)


def value_bits(plan, trial):
    """q · B of every message of a trial; None where messages are not all of one size."""
    method = trial.method
    if method.kind == "marina_type" or method.wire or getattr(method, "rule", "uniform") != "uniform":
        return None
    if getattr(method, "step_rule", "plain") == "normalised":  # a level of 16 bits beside each message
        return None
    if method.kind in ("tree_sum", "tree_mean", "tree_gather", "moniqua"):
        return own_bits(plan, trial)
    q = {"dense": trial.run().problem.d, "flood": 1, "seedflood": 1, "subcge": 1}.get(method.kind) or method.q
    return q * WIRE_TABLE[plan.wire].charged.bits


def own_bits(plan, trial):
    """As `value_bits`, for messages that are not values of coordinates; the first of a tree_sum is larger."""
    method = trial.method
    if method.kind == "moniqua":
        return trial.run().problem.d * method.bits
    if method.kind in ("tree_mean", "tree_gather"):
        of = trial.graph_of().n if method.kind == "tree_gather" else 1
        return of * method.directions * WIRE_TABLE[plan.wire].charged.bits
    return None if method.wraps else method.perturbations * WIRE_TABLE[plan.wire].charged.bits


def other_bytes(cases, found):
    """Links whose bytes are not their bits, ranks that sent other bytes than their channels say."""
    for each in cases:
        plan = plan_of(each)
        for trial in plan.trials:
            for rank, said in enumerate(found[each["name"]]):
                where = each["name"], *trial.labels, rank
                report = said["trials"][trial.number]
                if sum(sent for *_, sent in report["crossed"]) != sum(
                    b for _, b in report["below"]["messages"]
                ):
                    yield *where, "below"
                if len(found[each["name"]]) == trial.graph_of().n and plan.wire != "nominal_f32":
                    yield from ((*where, problem) for problem in other_bits(plan, trial, report))


def other_bits(plan, trial, report):
    """One node in this process: each of its links crossed, and 8 times its bytes are its bits."""
    crossed = {(i, j): sent for i, j, sent in report["crossed"]}
    below = dict(report["below"]["messages"])
    for i, j, *bits in report["ledger"]:
        if sum(bits) != 8 * crossed.get((i, j), 0) or sum(bits) != 8 * below.get(j, 0):
            yield i, j
    each = value_bits(plan, trial)
    if each is not None and sum(bits[0] for _, _, *bits in report["ledger"]) != report["messages"] * each:
        yield "value bits"


def compare(folder, world, cases):
    found = run_cases(folder, world, cases)
    errors = {name: said[0]["text"] for name, said in found.items() if "error" in said[0]}
    assert errors == {}
    assert list(other_logs(cases, folder)) == []
    assert list(other_states(cases, folder)) == []
    assert list(other_bytes(cases, found)) == []


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_processes_that_host_several_nodes_compute_what_the_simulator_does(tmp_path, world):
    compare(tmp_path, world, [*own_cases(tmp_path, world), *shared_cases(tmp_path, world)])


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_messages_of_a_few_bits_are_the_simulators_with_failures_and_repairs(tmp_path, world):
    cases = list(few_bits_cases(tmp_path, world))
    compare(tmp_path, world, cases)
    rows = [read_log(tmp_path / each["name"] / "log.parquet").rows for each in cases]
    assert all(sum(each[name].sum() for each in rows) > 0 for name in ("failures", "repairs", "wide"))


def test_every_method_codec_wire_and_problem_is_the_simulators_over_four_processes(tmp_path):
    compare(tmp_path, 4, list(varied_cases(tmp_path, 4)))


@pytest.mark.slow
def test_eight_processes_with_a_node_each_compute_what_the_simulator_does(tmp_path):
    compare(tmp_path, 8, list(own_cases(tmp_path, 8)))


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_the_whole_product_of_methods_graphs_and_wires_is_the_simulators(tmp_path, world):
    cases = list(full_cases(tmp_path, world))
    for k in range(0, len(cases), 4):  # starts of a bounded length
        compare(tmp_path, world, cases[k : k + 4])
