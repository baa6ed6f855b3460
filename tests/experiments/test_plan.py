import pytest

from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import load_plan, read_plan

STUDY = """\
problem: {kind: quadratic, d: 8, zeta: 1.0}
graphs: [{kind: ring, n: 4}, {kind: erdos_renyi, n: 6, p: 0.5}]
methods:
  - {kind: cosmo, q: 2, eta: 1e-2, mu: 1.0e-3}
  - {kind: edge_local, q: 2, eta: [1e-2, 2e-2], mu: 1.0e-3, coupling: [G, I]}
seeds: [1, 2, 3]
rounds: 40
budgets: [1000]
"""


def plan(text=STUDY, seeds=None):
    return read_plan(Config(text, "study.yaml"), "study", seeds)


def swapped(old, new):
    assert old in STUDY
    return STUDY.replace(old, new)


def test_trials_are_all_combinations_in_the_order_of_the_file():
    trials = plan().trials
    assert len(trials) == (1 + 4) * 2 * 3
    assert [trial.seed for trial in trials[:6]] == [1, 2, 3, 1, 2, 3]
    assert [trial.labels[2] for trial in trials[::6]] == [
        "cosmo",
        "edge_local eta=0.01 coupling=G",
        "edge_local eta=0.01 coupling=I",
        "edge_local eta=0.02 coupling=G",
        "edge_local eta=0.02 coupling=I",
    ]


def test_numbers_that_yaml_takes_for_text_are_numbers():
    assert plan().trials[0].method.eta == 0.01


def test_every_seed_has_a_random_graph_of_its_own_unless_one_is_named():
    graphs = {trial.run().graph for trial in plan().trials if trial.labels[1] == "erdos_renyi"}
    assert len(graphs) == 3
    named = plan(swapped("p: 0.5", "p: 0.5, seed: 7")).trials
    assert len({trial.run().graph for trial in named if trial.labels[1] == "erdos_renyi"}) == 1


def test_a_method_may_change_the_problem():
    text = swapped("mu: 1.0e-3}", "mu: 1.0e-3, problem: {sigma: [0, 0.5]}}")
    sigmas = [trial.run().problem.sigma for trial in plan(text).trials[:12:6]]
    assert sigmas == [0.0, 0.5]


def test_a_range_of_seeds_is_all_of_them():
    assert [trial.seed for trial in plan(swapped("seeds: [1, 2, 3]", "seeds: [7, 1-3]")).trials[:4]] == [
        7,
        1,
        2,
        3,
    ]


def test_decays_that_differ_have_names_that_differ():
    text = swapped("mu: 1.0e-3}", "mu: 1.0e-3, decay: [{kind: drop, at: 10}, {kind: drop, at: 5}]}")
    names = [trial.labels[2] for trial in plan(text).trials[:12:6]]
    assert names == ["cosmo decay=drop(at=10, by=0.1)", "cosmo decay=drop(at=5, by=0.1)"]


def test_a_decay_is_read():
    text = swapped("mu: 1.0e-3}", "mu: 1.0e-3, decay: {kind: drop, at: 10}}")
    assert plan(text).trials[0].method.eta_at(10) == pytest.approx(1e-3)


def test_seeds_of_the_caller_take_the_place_of_the_files():
    mine = plan(seeds=[9])
    assert {trial.seed for trial in mine.trials} == {9}
    assert mine.fingerprint != plan().fingerprint


def test_the_fingerprint_is_of_the_content():
    assert plan().fingerprint == plan(STUDY + "# a comment\nlog_every: 10\n").fingerprint
    assert plan().fingerprint != plan(swapped("rounds: 40", "rounds: 41")).fingerprint


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rounds: 40", "round: 40", "study.yaml:7: unknown key 'round' in the file, did you mean 'rounds'?"),
        ("rounds: 40\n", "", "study.yaml:1: the file lacks 'rounds'"),
        ("rounds: 40", "rounds: 0", "study.yaml:7: rounds must be 1 or more, got 0"),
        ("rounds: 40", "rounds: many", "study.yaml:7: rounds: "),
        ("seeds: [1, 2, 3]", "seeds: []", "study.yaml:6: seeds is empty"),
        ("seeds: [1, 2, 3]", "seeds: [1, 1]", "study.yaml:6: seeds must differ"),
        ("kind: cosmo", "kind: cosmos", "study.yaml:4: unknown method 'cosmos'; choose from cosmo,"),
        ("kind: ring", "kind: ringg", "study.yaml:2: unknown graph 'ringg'; choose from ring, path"),
        ("kind: quadratic", "kind: cubic", "study.yaml:1: unknown problem 'cubic'; choose from rosenbrock"),
        ("q: 2, eta: 1e-2", "q: 2, etta: 1e-2", "study.yaml:4: unknown key 'etta' in methods[0], did you"),
        ("q: 2, eta: 1e-2,", "q: 2,", "study.yaml:4: methods[0] lacks 'eta'"),
        ("q: 2, eta: 1e-2", "q: 20, eta: 1e-2", "study.yaml:4: q = 20 coordinates of d = 8 cannot be drawn"),
        ("q: 2, eta: 1e-2", "q: 2, eta: -1", "study.yaml:4: eta must be a finite number"),
        ("q: 2, eta: 1e-2", "q: 2, eta: fast", "study.yaml:4: methods[0].eta: "),
        ("coupling: [G, I]", "coupling: X", "study.yaml:5: methods[1].coupling: "),
        ("n: 4", "n: four", "study.yaml:2: graphs[0].n: "),
        ("p: 0.5", "q: 0.5", "study.yaml:2: unknown key 'q' in graphs[1]"),
        ("n: 4}", "n: 4, schedule: daily}", "study.yaml:2: graphs[0].schedule: "),
        ("n: 4}", "n: 5, schedule: alternating}", "study.yaml:5: schedule 'alternating' needs a ring"),
        ("zeta: 1.0", "zeta: -1.0", "study.yaml:1: a quadratic needs"),
        ("budgets: [1000]", "budgets: [1e5]", "study.yaml:8: budgets[0]: "),
        ("budgets: [1000]", "rounds: 3", "study.yaml:8: key 'rounds' appears twice"),
        ("budgets: [1000]", "wire: tin", "study.yaml:8: wire: "),
        ("budgets: [1000]", "budgets: [1000", "study.yaml:9: not YAML"),
        ("budgets: [1000]", "budgets: [-5]", "study.yaml:8: a budget in bits must be 0 or more"),
        ("budgets: [1000]", "log_every: 41", "study.yaml:8: log_every must be between 1 and 40"),
        ("budgets: [1000]", "wire: f64\ndtype: float32", "study.yaml:8: wire f64 spends 64 bits"),
        ("budgets: [1000]", "budgets: &x [*x]", "study.yaml:"),
        ("budgets: [1000]", "wire: !foo 3", "study.yaml:8: "),
        ("rounds: 40", "rounds: true", "study.yaml:7: rounds: YAML reads true as True"),
        ("rounds: 40", "rounds: 1:30", "study.yaml:7: rounds: YAML reads 1:30 as 90"),
        ("seeds: [1, 2, 3]", "seeds: [2020-12-01]", "study.yaml:6: seeds[0]: YAML reads"),
        ("seeds: [1, 2, 3]", "seeds: [9-3]", "study.yaml:6: seeds 9-3 must ascend"),
        ("seeds: [1, 2, 3]", "seeds: [2, 1-3]", "study.yaml:6: seeds must differ"),
        ("zeta: 1.0", "zeta: .inf", "study.yaml:1: problem.zeta must be a finite number"),
        ("zeta: 1.0", "zeta: nan", "study.yaml:1: problem.zeta must be a finite number"),
        ("q: 2, eta: 1e-2", "q: 2, eta: []", "study.yaml:4: methods[0].eta is an empty list"),
        ("eta: [1e-2, 2e-2]", "label: x, eta: [1e-2, 2e-2]", "study.yaml:5: two entries are called 'x'"),
        ("{kind: ring, n: 4}", "{kind: ring, n: 4}, {kind: ring, n: 4}", "study.yaml:2: two entries"),
        ("mu: 1.0e-3}", "mu: 1.0e-3, problem: {kind: rosenbrock}}", "study.yaml:4: a method may change"),
        ("n: 4}", "n: 200000}", "study.yaml:2: n must be between 1 and 100000"),
        ("d: 8", "d: 99999999999999999999", "study.yaml:1: "),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_and_what_is_known(old, new, says):
    with pytest.raises(ConfigError) as error:
        plan(swapped(old, new))
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "just words"])
def test_what_is_no_mapping_is_refused(text):
    with pytest.raises(ConfigError, match="must be a mapping"):
        plan(text)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_plan(tmp_path / "none.yaml")
