"""A graph of one's own in a config: its edges as text."""

import pytest

from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.graphs import Graph, ring

REST = """
problem: {kind: quadratic, d: 6}
methods: [{kind: edge_local, q: 2, eta: 0.01, mu: 1.0e-3}]
seeds: [1, 2]
rounds: 4
"""


def plan_of(graphs):
    return read_plan(Config(f"graphs: {graphs}{REST}", "study.yaml"), "study")


def test_edges_make_the_graph_and_its_size():
    plan = plan_of("[{kind: edges, edges: '0-1, 1-2, 2-4, 3-4'}]")
    assert plan.trials[0].graph_of() == Graph.of(5, [(0, 1), (1, 2), (2, 4), (3, 4)])
    assert set(run_plan(plan).rows["n"]) == {5}


def test_a_ring_by_its_edges_runs_as_the_ring_does():
    """All but the name and the schedule that comes with it, so that is given."""
    own, named = (
        run_plan(plan_of(f"[{{{kind}, schedule: alternating}}]")).rows
        for kind in ("kind: edges, edges: '0-1,1-2,2-3,0-3'", "kind: ring, n: 4")
    )
    assert plan_of("[{kind: edges, edges: '0-1,1-2,2-3,0-3'}]").trials[0].graph_of().edges == ring(4).edges
    assert own.drop(columns="graph").equals(named.drop(columns="graph"))


def test_several_graphs_of_ones_own_stand_in_one_study():
    plan = plan_of("[{kind: edges, edges: ['0-1,1-2', '0-1,0-2,0-3']}]")
    assert [trial.graph_of().n for trial in plan.trials[::2]] == [3, 4]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{kind: edges, edges: ring}", "edges must be pairs of nodes, such as 0-1,1-2; got 'ring'"),
        ("{kind: edges, edges: '0-1,2-3'}", "not connected"),
        ("{kind: edges, edges: '0-1', n: 3}", "not connected"),
        ("{kind: edges, n: 3}", "edges"),
        ("{kind: edges, edges: '0-1,1-7', n: 4}", "leaves the nodes 0 to 3"),
    ],
)
def test_edges_that_are_no_graph_are_refused_with_their_line(entry, says):
    with pytest.raises(ConfigError, match=says) as error:
        plan_of(f"[{entry}]")
    assert str(error.value).startswith("study.yaml:1")
