"""The losses of some nodes only, of every kind of problem: the bits of the whole."""

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zocosmo.core import Tape
from zocosmo.errors import InputError
from zocosmo.problems import PROBLEMS
from zocosmo.problems.draws import normals, private

noise_blocks = importlib.import_module("zocosmo.problems.quadratic")._drawn

N = 6
KINDS = [
    ("rosenbrock", {"d": 5, "shift": 0.3}),
    ("quadratic", {"d": 5, "omega": 0.3, "zeta": 1.0}),
    ("quadratic", {"d": 5, "zeta": 1.0, "sigma": 0.5}),
    ("quadratic", {"d": 20_001, "sigma": 0.5}),
    ("logistic", {}),
    ("logistic", {"batch": 3, "split": "dirichlet", "alpha": 0.3}),
    ("logistic", {"data": "digits", "batch": 1}),
    ("network", {"hidden": 2, "batch": 4}),
    ("network", {"hidden": 2, "batch": None, "split": "dirichlet", "alpha": 0.3}),
    ("python", {"entry": "math:fsum", "d": 5}),
]
NAMES = [f"{name} {options}" for name, options in KINDS]
every_kind = pytest.mark.parametrize(("name", "options"), KINDS, ids=NAMES)
SUBSETS = st.sets(st.integers(0, N - 1), min_size=1).map(sorted)


def build(name, options, seed=1):
    return PROBLEMS[name](N, seed, **options)


def states(*shape):
    return normals(private("states"), "x", size=int(np.prod(shape))).reshape(shape)


@every_kind
@settings(max_examples=12)
@given(nodes=SUBSETS, t=st.integers(0, 10_000))
def test_some_nodes_answer_with_the_bits_of_all(name, options, nodes, t):
    whole = build(name, options)
    some, x = whole.at(nodes), states(N, whole.d)
    assert (some(x[nodes], t) == whole(x, t)[nodes]).all()
    assert (some.local(x[nodes]) == whole.local(x)[nodes]).all()


@every_kind
@pytest.mark.parametrize("nodes", [[0], [N - 1], [1, 4], range(N), np.array([2, 3])], ids=str)
def test_they_stack_as_one_trial_with_the_same_bits(name, options, nodes):
    whole = build(name, options)
    alone = type(whole).stack([whole.at(nodes)])
    x, nodes = states(N, whole.d), list(nodes)
    assert (alone(x[nodes][None], 7) == whole(x, 7)[None, nodes]).all()
    assert (alone.local(x[nodes][None]) == whole.local(x)[None, nodes]).all()
    assert alone.n == len(nodes)


@every_kind
def test_some_nodes_of_a_stack_are_a_stack_of_some_nodes(name, options):
    trials = [build(name, options, seed) for seed in (1, 2, 3)]
    x, kind = states(3, 2, trials[0].d), type(trials[0])
    one, other = kind.stack(trials).at([1, 4]), kind.stack([trial.at([1, 4]) for trial in trials])
    assert (one(x, 3) == other(x, 3)).all()
    assert (one.local(x) == other.local(x)).all()


@every_kind
def test_a_part_of_a_part_counts_its_own_rows(name, options):
    whole = build(name, options)
    twice, once, x = whole.at([1, 3, 4]).at([0, 2]), whole.at([1, 4]), states(2, whole.d)
    assert (twice(x, 3) == once(x, 3)).all()


@every_kind
def test_size_start_and_report_are_as_before(name, options):
    whole = build(name, options)
    some, x = whole.at([1, 4]), states(whole.d)
    assert (some.n, some.d, whole.n) == (2, whole.d, N)
    assert (some.x0 == whole.x0).all()
    assert ("accuracy" in whole.report(x)) == (name in ("logistic", "network"))
    assert some.report(x) == whole.report(x)


@every_kind
@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "one or more, in ascending order, each once; got \\[\\]"),
        ([1, 1], "each once; got \\[1, 1\\]"),
        ([3, 2], "ascending order, each once; got \\[3, 2\\]"),
        ([N], "a node must be between 0 and 5, got 6"),
        ([-1, 2], "between 0 and 5, got -1"),
        ([1.0], "a node must be a whole number, got 1.0"),
    ],
)
def test_nodes_that_are_unknown_unsorted_or_repeated_are_refused(name, options, nodes, says):
    with pytest.raises(InputError, match=says):
        build(name, options).at(nodes)


class Counting(Tape):
    """A tape that notes for which nodes coins are drawn."""

    def __getitem__(self, place):
        return self

    def coins(self, label, *ids):
        self.asked = np.ravel(ids[-1]).tolist()
        return super().coins(label, *ids)


def test_noise_and_samples_of_other_nodes_are_not_drawn():
    noisy, sampled = build("quadratic", {"d": 5, "sigma": 0.5}), build("logistic", {"batch": 3})
    noisy.noise.tape, sampled.tape = Counting("noise"), Counting("samples")
    for problem in (noisy.at([1, 4]), sampled.at([1, 4])):
        problem(np.zeros((2, problem.d)), 0)
    assert noisy.noise.tape.asked == sampled.tape.asked == [1, 4]


def test_noise_that_is_kept_is_that_of_the_nodes_that_are_asked():
    before = set(noise_blocks)
    build("quadratic", {"d": 5, "sigma": 0.5}, "kept").at([2])(np.zeros((1, 5)), 0)
    (new,) = noise_blocks.keys() - before
    assert noise_blocks[new].shape[1:] == (1, 5)


def test_only_examples_of_the_nodes_are_held():
    whole = build("logistic", {"split": "dirichlet", "alpha": 0.3})
    some = whole.at([1, 4])
    assert some._shards.real.size == whole.parts[1].size + whole.parts[4].size


@every_kind
def test_parts_of_other_nodes_stack_only_where_nothing_hangs_on_their_numbers(name, options):
    whole = build(name, options)
    parts = [whole.at([0, 1]), whole.at([2, 3])]
    if name == "rosenbrock" or (name == "quadratic" and "sigma" not in options):
        assert type(whole).stack(parts).n == 2
    else:
        with pytest.raises(InputError, match=r"0…1.*2…3"):
            type(whole).stack(parts)
