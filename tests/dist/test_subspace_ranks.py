"""Runs in a public subspace over processes: the simulator's log and states, byte for byte."""

from dist.plans import ONE_EACH, QUADRATIC, case, config, graphs
from dist.test_equal import compare

RAGGED = {**QUADRATIC, "d": 50, "subspace": {"size": 12}}  # 12 does not divide 50
EVEN = {"kind": "logistic", "data": "digits", "batch": 8, "subspace": {"size": 26}}  # 26 divides 650


def test_processes_compute_what_the_simulator_does(tmp_path):
    compare(
        tmp_path,
        3,
        [
            case("ragged", tmp_path, config(ONE_EACH, graphs(5, ["ring"]), problem=RAGGED)),
            case("float32", tmp_path, config(ONE_EACH, graphs(3), problem=RAGGED, wire=("f32", "float32"))),
            case("even", tmp_path, config(ONE_EACH, graphs(3, ["path"]), problem=EVEN, rounds=6)),
        ],
    )
