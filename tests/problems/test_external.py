"""People's own programs and functions as the problem of a study."""

import json
import sys

import numpy as np
import pytest

from zocosmo.blackbox.functions import Functions
from zocosmo.errors import InputError, OracleError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.oracle import Problem
from zocosmo.problems import command, python, quadratic
from zocosmo.problems.external import External

X = np.arange(12.0).reshape(4, 3)
RIG = """
import sys

def loss(x, node, t, seed):
    return float(sum((value - node) ** 2 for value in x)) + 1000 * t + 10**6 * seed

def plain(x):
    return 1.0

def width(x):
    x[:] = 0.0
    return x.itemsize

def picky(x, node):
    return 1 / (node - 2)

class Rig:
    made = []

    def __init__(self, node):
        if node == 3:
            raise RuntimeError("no port")
        self.made.append(node)
        self.node, self.asked = node, 0

    def __call__(self, x):
        self.asked += 1
        return 100 * self.node + self.asked

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = state["asked"]

class Forgetful:
    def __call__(self, x, t):
        return t

class Odd(Forgetful):
    def state_dict(self):
        return {1, 2}

    def load_state_dict(self, state):
        raise KeyError("gain")

class Bare: pass

class Needy:
    def __init__(self, port): pass
    __call__ = Forgetful.__call__

def two(x, y): return 0.0
def backwards(node, x): return 0.0

losses = [plain, picky, Forgetful(), sum]
answer = 42

if __name__ == "__main__":
    print(loss([float(v) for v in sys.argv[1].split(",")], int(sys.argv[2]), int(sys.argv[3]), 0))
"""


@pytest.fixture
def rig(tmp_path, monkeypatch):
    """A folder with rig.py in it, as that of somebody who starts a study there."""
    (tmp_path / "rig.py").write_text(RIG)
    (tmp_path / "broken.py").write_text("import numpy\nraise SystemExit('usage: broken X\\nmore')\n")
    (tmp_path / "lacking.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    sys.modules.pop("rig", None)
    yield tmp_path
    sys.modules.pop("rig", None)


def entry(name, n=4, seed=0, **options):
    return python(n, seed, **{"entry": f"rig:{name}", "d": 3, **options})


def program(n=4, **options):
    return command(n, 0, **{"run": f"{sys.executable} rig.py {{x}} {{node}} {{round}}", "d": 3, **options})


def in_bytes(memory):
    return np.frombuffer(json.dumps(memory).encode(), np.uint8)


def by_hand(node, t, seed=0):
    return sum((value - node) ** 2 for value in X[node].tolist()) + 1000 * t + 10**6 * seed


def test_a_program_gets_its_values_node_and_round(rig):
    assert program()(X, 5).tolist() == [by_hand(node, 5) for node in range(4)]


def test_a_function_is_told_what_it_declares(rig):
    assert entry("loss", seed=7)(X, 5).tolist() == [by_hand(node, 5, 7) for node in range(4)]
    assert entry("Forgetful")(X, 5).tolist() == [5.0] * 4


@pytest.mark.parametrize("build", [program, lambda: entry("loss")])
def test_the_exact_loss_is_a_query_of_round_minus_one(rig, build):
    assert build().local(X).tolist() == [by_hand(node, -1) for node in range(4)]


def test_a_list_has_a_function_for_each_node(rig):
    assert entry("losses")(X, 5).tolist() == [1.0, -1.0, 5.0, 9 + 10 + 11]


def test_what_a_function_gets_is_its_own_and_double(rig):
    x = X.astype(np.float32)
    assert entry("width")(x, 0).tolist() == [8.0] * 4
    assert (x == X).all()


def test_a_built_in_that_declares_nothing_gets_x_alone():
    assert python(4, 0, entry="builtins:max", d=3)(X, 0).tolist() == [2.0, 5.0, 8.0, 11.0]


@pytest.mark.parametrize("build", [program, lambda: entry("loss")])
def test_some_nodes_keep_their_numbers(rig, build):
    some = build().at([1, 3])
    assert isinstance(some, Problem)
    assert some(X[[1, 3]], 5).tolist() == [by_hand(1, 5), by_hand(3, 5)]
    assert type(some).stack([some])(X[None, [1, 3]], 5).tolist() == [[by_hand(1, 5), by_hand(3, 5)]]


def test_a_part_of_a_part_keeps_the_numbers_of_the_whole(rig):
    assert entry("loss").at([0, 1, 3]).at([2])(X[[3]], 5).tolist() == [by_hand(3, 5)]
    assert entry("losses").at([1, 3])(X[[1, 3]], 5).tolist() == [-1.0, 9 + 10 + 11]


@pytest.mark.parametrize("nodes", [[1], [1, 1], [1, 2, 3], [1, 2, 2]])
def test_an_oracle_needs_a_number_for_each_node(nodes):
    with pytest.raises(InputError, match="2 nodes need 2 distinct numbers, got"):
        Functions(max, 2, nodes=nodes)


def test_an_error_names_the_node_by_its_number_and_the_round(rig):
    says = "node 2, round 8, query x + μu: the function raised ZeroDivisionError: division by zero"
    for nodes in ([0, 2], [1, 2, 3]):
        with pytest.raises(OracleError, match=f"^{says.replace('+', '.')}"):
            entry("picky").at(nodes)(X[nodes], 8)
    with pytest.raises(OracleError, match="node 2, round -1, at a checkpoint: the function raised"):
        entry("picky").local(X)


def test_trials_of_a_stack_have_their_own_starts_and_seeds(rig):
    trials = [entry("loss", seed=seed, start=seed) for seed in (1, 2)]
    stack = External.stack(trials)
    assert stack.x0.tolist() == [[1.0] * 3, [2.0] * 3]
    assert stack(np.stack([X, X]), 5).tolist() == [[by_hand(i, 5, s) for i in range(4)] for s in (1, 2)]


def test_further_leading_axes_are_points_of_their_own(rig):
    stack = External.stack([entry("loss", seed=seed) for seed in (1, 2, 3)])
    x = np.stack([X, X + 1, X + 2])
    assert (stack(np.stack([x, 2 * x]), 4) == np.stack([stack(x, 4), stack(2 * x, 4)])).all()


def test_only_active_nodes_are_asked(rig):
    stack = External.stack([entry("picky"), entry("picky")])
    active = np.array([[True, True, False, True], [False, True, False, False]])
    assert stack(np.stack([X, X]), 0, active=active).tolist() == [[-0.5, -1, 0, 1], [0, -1, 0, 0]]
    assert [oracle.queries.tolist() for oracle in stack.oracles] == [[1, 1, 0, 1], [0, 1, 0, 0]]


def test_a_state_that_ran_away_is_not_asked(rig):
    problem, x = entry("plain"), X.copy()
    x[1, 2] = np.inf
    assert np.isnan(problem(x, 0)).tolist() == [False, True, False, False]
    assert problem.oracles[0].queries.tolist() == [1, 0, 1, 1]


def study(problem):
    text = f"""
        problem: {{{problem}, d: 3, start: [0.5, "1, 2, 3"]}}
        graphs: [{{kind: ring, n: 4}}]
        methods: [{{kind: cosmo, q: 1, eta: 0.1, mu: 0.1}}]
        seeds: [0]
        rounds: 2
    """
    return run_plan(read_plan(Config(text, "study"), "study")).rows.drop(columns="problem")


def test_a_study_runs_on_them_and_a_program_and_a_function_give_one_log(rig):
    """At the starts the mean of Σ_j (x_j − i)² over i = 0…3 is 27/4 and 13/2; a checkpoint adds −1000."""
    line = program().makes[0].args[0]
    programs, functions = study(f"kind: command, run: '{line}'"), study("kind: python, entry: 'rig:loss'")
    assert programs.equals(functions)
    assert functions["round"].tolist() == [0, 2, 0, 2]
    assert functions["objective"][::2].tolist() == [-993.25, -993.5]


def test_losses_of_a_class_start_anew_in_every_trial_and_only_where_they_are_hosted(rig):
    problem, made = entry("Rig"), sys.modules["rig"].Rig.made
    stack = type(problem).stack([problem.at([0, 2])] * 2)
    assert made == []
    assert stack(np.zeros((2, 2, 3)), 0).tolist() == [[1, 201], [1, 201]]
    assert made == [0, 2, 0, 2]


def test_what_losses_remember_can_be_kept_and_restored(rig):
    first, then = entry("Rig").at([0, 2]), entry("Rig").at([2])
    first(X[:2], 0), first(X[:2], 0)
    kept = first.snapshot()
    assert {name: json.loads(array.tobytes()) for name, array in kept.items()} == {
        "0.memory": {"0": {"asked": 2}, "2": {"asked": 2}}
    }
    then.restore(kept)
    assert then(X[:1], 1).tolist() == first(X[:2], 1).tolist()[1:] == [203.0]


def test_only_problems_that_remember_have_something_to_keep(rig):
    assert entry("Rig", n=3).snapshot() != {}
    for problem in (entry("loss"), entry("Forgetful"), program(), quadratic(4, 0, d=3)):
        assert problem.snapshot() == {}
        problem.restore({})


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        ({}, "the snapshot lacks node 0"),
        ({"1.memory": in_bytes({"0": {"asked": 1}, "1": {"asked": 1}})}, "is of 2 trials, but there are 1"),
        ({"0.memory": in_bytes({"0": {"asked": 1}})}, "the snapshot lacks node 1; it has 0"),
    ],
)
def test_a_snapshot_of_something_else_is_refused(rig, kept, says):
    with pytest.raises(InputError, match=says):
        entry("Rig").at([0, 1]).restore(kept)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: entry("Rig")(X, 0), "node 3: Rig raised RuntimeError: no port; make it work"),
        (
            lambda: entry("Odd").snapshot(),
            "node 0: state_dict is not JSON: Object of type set",
        ),
        (
            lambda: entry("Odd").restore({"0.memory": in_bytes({"0": 1})}),
            "node 0: load_state_dict raised KeyError: 'gain'",
        ),
    ],
)
def test_code_that_fails_outside_a_query_is_an_oracle_error_too(rig, call, says):
    with pytest.raises(OracleError, match=f"^{says}"):
        call()


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("rig", "entry must be module:name, such as rig:loss; got 'rig'"),
        ("a:b:c", "entry must be module:name"),
        ("gone:loss", "no module 'gone' in this folder or installed"),
        ("rig.sub:loss", "importing 'rig.sub' raised|no module 'rig.sub'"),
        ("lacking:loss", "importing 'lacking' raised ModuleNotFoundError: No module named 'no_such_library'"),
        ("broken:loss", "importing 'broken' raised SystemExit: usage: broken X more; correct the module"),
        ("rig:gone", "module 'rig' has no 'gone'"),
        ("rig:Rig.gone", "module 'rig' has no 'Rig.gone'"),
        ("rig:answer", "rig:answer must be a function, a list of them, or a class; got 42"),
        ("rig:two", "rig:two cannot be a loss: missing a required argument: 'y'; it is called with"),
        ("rig:backwards", "rig:backwards cannot be a loss: multiple values for argument 'node'"),
        ("rig:Bare", "rig:Bare is a class without __call__"),
        ("rig:Needy", "rig:Needy cannot be a loss: missing a required argument: 'port'"),
    ],
)
def test_an_entry_that_cannot_be_a_loss_is_refused_in_one_line(rig, named, says):
    with pytest.raises(InputError, match=f"^{says}") as caught:
        python(4, 0, entry=named, d=3)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"n": 3}, "rig:losses lists 4 functions for 3 nodes; list one per node"),
        ({"d": 0}, "d must be 1 or more, got 0"),
        ({"start": "1, 2"}, "start has 2 numbers for d = 3"),
        ({"start": "1, two, 3"}, "start must be a finite number, or d of them separated by commas; got"),
        ({"start": "1, inf, 3"}, "start must be a finite number"),
        ({"start": float("nan")}, "start must be a finite number"),
        ({"start": None}, "start must be a finite number.*got None"),
        ({"timeout": 0}, "timeout is a number of seconds above 0, got 0"),
        ({"workers": 0}, "workers must be 1 or more, got 0"),
    ],
)
def test_a_bad_argument_is_refused(rig, bad, says):
    with pytest.raises(InputError, match=says):
        entry("losses", **bad)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"run": "rig {node}"}, "the command must say where x goes, with {x} or {file}; got 'rig {node}'"),
        ({"run": "rig '{x}"}, "the command cannot be split into words: No closing quotation"),
        ({"n": 0}, "n must be 1 or more, got 0"),
        ({"timeout": -1}, "timeout is a number of seconds above 0, got -1"),
    ],
)
def test_a_command_that_cannot_work_is_refused_before_any_work(bad, says):
    with pytest.raises(InputError, match=says):
        program(**bad)


def test_states_of_another_shape_are_refused(rig):
    with pytest.raises(InputError, match=r"ends in \(4, 3\), got \(3, 3\)"):
        entry("loss")(X[:3], 0)
    with pytest.raises(InputError, match=r"ends in \(2, 4, 3\), got \(4, 3\)"):
        External.stack([entry("loss")] * 2).local(X)


def test_neither_nothing_nor_a_stack_nor_other_sizes_stack(rig):
    one = entry("loss")
    for problems in ([], [External.stack([one])], [one, entry("loss", d=2)]):
        with pytest.raises(InputError, match="only single problems of the same nodes and d stack"):
            External.stack(problems)
