"""The key `schedule` of a graph as a list of matchings: read, refused with its line, named in labels."""

import pytest

from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import graph_entry, read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.graphs import Listing
from zocosmo.sim.engine import Simulation

LIST = "{matchings: [[[0, 1], [2, 3]], [[1, 2]]], weights: [3, 1]}"
STUDY = f"""problem: {{kind: quadratic, d: 8, zeta: 1.0}}
graphs:
  - kind: path
    n: 4
    schedule: {LIST}
methods: [{{kind: edge_local, q: 2, eta: 1e-2, mu: 1e-3}}]
seeds: [1, 2]
rounds: 20
"""


def plan(text=STUDY):
    return read_plan(Config(text, "study.yaml"), "study")


def swapped(old, new):
    assert STUDY.count(old) == 1
    return STUDY.replace(old, new)


def test_a_list_is_read_and_a_trial_follows_it():
    run = plan().trials[0].run()
    listing = Listing.of([[(0, 1), (2, 3)], [(1, 2)]], [3, 1])
    assert run.world.schedule_name == listing.name
    assert run.world.schedule.listing == listing


def test_a_run_is_another_than_without_the_list(tmp_path):
    logs = [
        run_plan(plan(text), tmp_path / name).rows
        for name, text in (("listed", STUDY), ("auto", swapped(LIST, "auto")))
    ]
    assert (logs[0]["objective"] != logs[1]["objective"]).any()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[1, 2]]]", "[1, 3]]]", "study.yaml:5: matching 1 pairs 1 and 3, which is not an edge of Graph(n=4"),
        ("[[1, 2]]]", "[[1, 2], [2, 3]]]", "study.yaml:5: matching 1 pairs node 2 2 times"),
        (", [[1, 2]]]", "]", "study.yaml:5: 1 matchings need one weight each, got 2"),
        ("weights: [3, 1]", "weights: [3, -1]", "study.yaml:5: weight 1 must be an integer ≥ 1"),
        ("weights: [3, 1]", "weights: [3, 0.5]", "study.yaml:5: weight 1 must be an integer ≥ 1"),
        (
            "weights: [3, 1]",
            "weight: [3, 1]",
            "study.yaml:5: unknown key 'weight' in graphs[0].schedule, did",
        ),
        (
            ", weights: [3, 1]",
            "",
            "study.yaml:5: a custom schedule lists matchings and weights; add",
        ),
        ("[[1, 2]]]", "[[0, 1]]]", "study.yaml:5: the listed pairs are not connected"),
        ("n: 4", "n: 5", "study.yaml:5: the listed pairs are not connected"),
    ],
)
def test_a_mistake_in_a_list_ends_as_one_line_with_its_place(old, new, says):
    with pytest.raises(ConfigError) as error:
        plan(swapped(old, new))
    assert says in str(error.value)


def test_a_list_is_refused_where_no_method_uses_it():
    text = swapped("kind: edge_local", "kind: cosmo").replace("[1, 2]]]", "[1, 3]]]")
    with pytest.raises(ConfigError, match=r"study.yaml:5: matching 1 pairs 1 and 3"):
        plan(text)


def test_labels_name_lists_by_their_first_digits():
    other = LIST.replace("[3, 1]", "[1, 1]")
    names = {trial.labels[1] for trial in plan(swapped(LIST, f"[auto, {LIST}, {other}]")).trials}
    listings = [Listing.of([[(0, 1), (2, 3)], [(1, 2)]], weights) for weights in ([3, 1], [1, 1])]
    assert names == {"path schedule=auto", *(f"path schedule={each.name[:11]}" for each in listings)}


def test_one_list_needs_no_label():
    assert {trial.labels[1] for trial in plan().trials} == {"path"}


def test_runs_of_two_lists_share_a_batch_and_not_their_draws():
    other = LIST.replace("[3, 1]", "[1, 3]")
    trials = plan(swapped(LIST, f"[{LIST}, {other}]")).trials
    together = Simulation([trial.run() for trial in trials], wire="f64")
    for _ in range(10):
        together.round()
    for k, trial in enumerate(trials):
        alone = Simulation([trial.run()], wire="f64")
        for _ in range(10):
            alone.round()
        assert (together.states()[k] == alone.states()[0]).all()


def test_a_resolved_entry_reads_back_to_the_same_list():
    trial = plan().trials[0]
    again = read_plan(Config(swapped(LIST, str(graph_entry(trial.graph)["schedule"])), "again.yaml"), "again")
    assert again.trials[0].graph == trial.graph
    assert again.fingerprint == plan().fingerprint
