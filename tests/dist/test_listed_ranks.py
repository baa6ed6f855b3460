"""Matchings of one's own over the wire: the simulator's bits, and other lists are refused."""

import pytest

pytest.importorskip("torch")

from dist.plans import SPARSE, case, config
from dist.ranks import run_cases
from dist.test_equal import F32, compare
from zocosmo.graphs import Listing

LIST = {"matchings": [[[0, 1], [2, 3]], [[1, 2]], [[0, 1]]], "weights": [3, 1, 2]}
OTHER = {**LIST, "weights": [3, 2, 1]}
METHODS = [{"kind": "edge_local", **SPARSE, "beta": 0.5, "coupling": ["G", "I"]}]


def on(schedule):
    return config(METHODS, [{"kind": "path", "n": 4, "schedule": schedule}], wire=F32, rounds=8)


def test_processes_follow_a_list_as_the_simulator_does(tmp_path):
    compare(tmp_path, 2, [case("listed", tmp_path, on(LIST))])


def test_peers_with_other_lists_end_before_the_first_round(tmp_path):
    said = run_cases(tmp_path, 2, [case("other", tmp_path, on(LIST), ranks={"1": {"config": on(OTHER)}})])
    names = [Listing.read(each).name for each in (LIST, OTHER)]
    for rank in said["other"]:
        assert (rank["error"], rank["channels"]) == ("ManifestMismatch", 0)
        assert f"schedule: rank 0 has '{names[0]}', rank 1 '{names[1]}'" in rank["text"]
