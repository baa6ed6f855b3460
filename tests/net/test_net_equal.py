"""Every method, codec, graph and wire of the runtime: members over ZeroMQ equal the simulator."""

import json
from itertools import cycle, product

import numpy as np
import pytest

from dist.plans import EVERY, FEW_BITS, ONE_EACH, QUADRATIC, ROUGH, TO_ALL, WIRES, config, graphs
from net.crowd import Threads
from zocosmo.experiments.plan import load_plan
from zocosmo.net.member import Member
from zocosmo.net.store import NodeFolder
from zocosmo.sim.engine import Simulation

N = 4


def each_of(methods):
    """One method for every choice from the lists of a config."""
    for method in methods:
        choices = [value if isinstance(value, list) else [value] for value in method.values()]
        yield from (dict(zip(method, chosen, strict=True)) for chosen in product(*choices))


def cases():
    """Every method with every codec, wires in turn; of every method one on every graph; wires of few bits."""
    floats, ring = cycle(WIRES), graphs(N, ("ring",))[0]
    for method in each_of(EVERY):
        yield method, ring, next(floats), QUADRATIC
    for method in each_of(TO_ALL):
        yield method, graphs(N, ("complete",))[0], next(floats), QUADRATIC
    for graph, method in product(graphs(N), each_of(ONE_EACH)):
        yield method, graph, next(floats), QUADRATIC
    turn = cycle([(graph, dtype) for graph in graphs(N) for dtype in ("float64", "float32")])
    for method, problem in product(each_of(FEW_BITS), (QUADRATIC, ROUGH)):
        graph, dtype = next(turn)
        yield method, graph, ("f32", dtype), problem


def name_of(case):
    method, graph, wire, problem = case
    told = [f"{key}={value}" for key, value in method.items() if key not in ("kind", "eta", "mu", "q")]
    rough = ["rough"] if problem is ROUGH else []
    return "-".join([method["kind"], *told, graph["kind"], *wire, *rough])


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(each, id=name_of(each)) for each in cases()])
def test_members_equal_the_simulator(tmp_path, monkeypatch, case):
    monkeypatch.setattr("zocosmo.net.links.SILENT", 60.0)  # however busy this machine is
    monkeypatch.setattr("zocosmo.net.links.GRACE", 60.0)
    method, graph, wire, problem = case
    path = tmp_path / "config.yaml"
    path.write_text(config([method], [graph], wire=wire, problem=problem), encoding="utf-8")
    plan = load_plan(path)
    crowd = Threads(path, tmp_path / "out", soft=60.0)
    for _ in range(N):
        crowd.join(kind=Member)
    crowd.wait()
    assert crowd.host.finished == N, json.dumps(crowd.said)
    assert crowd.host.roll.record().events == ()
    sim = Simulation([plan.trials[0].run()], wire=plan.wire, dtype=plan.dtype)
    for _ in range(plan.last):
        sim.round()
    kept = [NodeFolder(crowd.out, k).load(plan.last)["x"] for k in range(N)]
    assert np.array_equal(np.asarray(sim.states()[0], float), kept)
