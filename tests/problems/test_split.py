from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, kstest

from zocosmo.core import Tape
from zocosmo.errors import InputError
from zocosmo.problems.data import BLOCK, Shards, example_losses, is_right, load
from zocosmo.problems.draws import private
from zocosmo.problems.split import check_positive, dirichlet, split

LABELS = np.arange(200) % 4


def skew(labels, parts):
    """Mean over nodes of the distance (total variation) from a node's label shares to those of all."""
    shares = [np.bincount(labels[part], minlength=labels.max() + 1) / part.size for part in parts]
    return np.abs(np.array(shares) - np.bincount(labels) / labels.size).sum(axis=1).mean() / 2


@given(st.integers(0, 99), st.integers(1, 12), st.sampled_from(["iid", "dirichlet"]), st.integers(1, 5))
def test_parts_are_disjoint_cover_all_and_are_large_enough(seed, n, how, least):
    parts = split(LABELS, n, how=how, alpha=0.5, tape=private(seed), least=least)
    assert len(parts) == n
    assert min(part.size for part in parts) >= least
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))


@pytest.mark.parametrize("how", ["iid", "dirichlet"])
def test_the_tape_alone_decides(how):
    first, again, other = (split(LABELS, 5, how=how, tape=private(seed)) for seed in (1, 1, 2))
    assert [part.tolist() for part in first] == [part.tolist() for part in again]
    assert [part.tolist() for part in first] != [part.tolist() for part in other]


def test_iid_sizes_differ_by_one_at_most():
    assert sorted(part.size for part in split(LABELS, 7, tape=private(0))) == [28] * 3 + [29] * 4


@pytest.mark.parametrize("name", ["breast_cancer", "digits"])
def test_labels_differ_more_between_nodes_as_alpha_falls(name):
    labels = load(name).labels
    even = split(labels, 8, tape=private(0))
    mild, strong = (split(labels, 8, how="dirichlet", alpha=a, tape=private(0)) for a in (1.0, 0.1))
    assert 2 * skew(labels, even) < skew(labels, mild) < skew(labels, strong)


class Counting(Tape):
    """A tape that notes the attempts it was asked for."""

    def __init__(self, seed):
        super().__init__(seed)
        self.attempts = set()

    def coins(self, label, *ids):
        self.attempts.add(ids[0])
        return super().coins(label, *ids)


def test_a_split_that_leaves_a_node_short_is_drawn_again():
    tapes = [Counting(seed) for seed in range(20)]
    for tape in tapes:
        assert min(part.size for part in split(LABELS, 10, how="dirichlet", alpha=0.2, tape=tape)) >= 1
        assert tape.attempts == set(range(len(tape.attempts)))
    assert max(len(tape.attempts) for tape in tapes) > 1


@given(st.integers(0, 99))
def test_nodes_get_their_shares_of_a_class(seed):
    """Cut at ⌊100 · (p_1 + … + p_i)⌋; with α = 5 the first attempt leaves nobody without."""
    parts = split(np.zeros(100), 4, how="dirichlet", alpha=5.0, tape=private(seed))
    ends = np.floor(100 * np.cumsum(dirichlet(private(seed), 0, 0, n=4, alpha=5.0))[:-1])
    assert [part.size for part in parts] == np.diff([0, *ends, 100]).tolist()


def test_a_split_that_cannot_be_drawn_is_given_up():
    with pytest.raises(InputError, match=r"alpha = 0\.001 all left one of 50 nodes with fewer than 3"):
        split(LABELS, 50, how="dirichlet", alpha=0.001, tape=private(0), least=3)


@pytest.mark.parametrize("alpha", [0.05, 1.0, 30.0])
def test_a_share_follows_its_beta_law(alpha):
    """One of n Dirichlet shares is Beta(α, (n − 1) α). Kolmogorov–Smirnov at 1e-6, on fixed coins."""
    shares = np.array([dirichlet(private("law"), t, n=4, alpha=alpha) for t in range(2000)])
    assert np.abs(shares.sum(axis=1) - 1).max() < 1e-15
    assert kstest(shares[:, 2], beta(alpha, 3 * alpha).cdf).pvalue > 1e-6


@pytest.mark.parametrize("alpha", [1e-4, 1e8])
def test_shares_stay_finite_for_extreme_alpha(alpha):
    shares = dirichlet(private(0), 0, n=50, alpha=alpha)
    assert np.isfinite(shares).all()
    assert (shares.max() > 0.99) == (alpha < 1)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"n": 0}, "between 1 and 200, got 0"),
        ({"n": 201}, "between 1 and 200, got 201"),
        ({"n": 101, "least": 2}, "2 or more each, must be between 1 and 100, got 101"),
        ({"n": 2.0}, "whole number, got 2.0"),
        ({"least": 0}, "must be 1 or more, got 0"),
        ({"how": "random"}, "split 'random' is not known; choose from iid, dirichlet"),
        ({"alpha": 0.0}, "alpha must be a number > 0, got 0.0"),
        ({"alpha": float("nan")}, "alpha must be a number > 0, got nan"),
        ({"alpha": "1"}, "alpha must be a number > 0, got '1'"),
        ({"labels": LABELS[None]}, r"one axis and a tape of one key, got \(1, 200\)"),
        ({"tape": Tape.stack([1, 2])}, r"tape of one key, got \(200,\), \(2,\)"),
    ],
)
def test_a_bad_argument_is_refused(bad, says):
    with pytest.raises(InputError, match=says):
        split(**{"labels": LABELS, "n": 4, "tape": private(0), **bad})


def test_zero_is_allowed_only_where_said():
    assert check_positive("l2", 0, zero=True) == 0.0
    with pytest.raises(InputError, match="l2 must be a number ≥ 0, got -1"):
        check_positive("l2", -1, zero=True)


@pytest.mark.parametrize(
    ("name", "shape", "columns"), [("breast_cancer", (569, 31), 1), ("digits", (1797, 65), 10)]
)
def test_data_sets_end_in_a_bias_and_are_loaded_once(name, shape, columns):
    data = load(name)
    assert (data.features.shape, data.columns) == (shape, columns)
    assert (data.features[:, -1] == 1).all()
    assert load(name) is data


def test_features_are_scaled():
    digits, cancer = load("digits").features, load("breast_cancer").features[:, :-1]
    assert (digits.min(), digits.max()) == (0.0, 1.0)
    assert np.abs(cancer.mean(axis=0)).max() < 1e-13
    assert np.abs(cancer.std(axis=0) - 1).max() < 1e-13


def test_shared_data_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        load("digits").features[0] = 0


def test_an_unknown_data_set_is_refused():
    with pytest.raises(InputError, match="data set 'mnist' is not known"):
        load("mnist")


@given(st.lists(st.integers(1, 3 * BLOCK), min_size=1, max_size=5))
def test_blocks_sum_each_owner_apart_and_leave_padding_out(sizes):
    ends = np.cumsum(sizes)
    shards = Shards.of(
        load("digits"), [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    )
    assert shards.sums(np.ones(shards.labels.shape)).tolist() == sizes
    assert (shards.labels.ravel()[shards.real] == load("digits").labels[: ends[-1]]).all()


def test_losses_of_far_scores_are_exact():
    far = np.array([[1000.0, -1000.0]])
    assert example_losses(far, np.array([1, 1])).tolist() == [0.0, 1000.0]
    assert example_losses(np.concatenate([0 * far, far, far]), np.array([1, 0])).tolist() == [log(2), 0.0]


def test_ties_go_to_the_lowest_class_and_nan_is_never_right():
    assert is_right(np.zeros((3, 2)), np.array([0, 1])).tolist() == [True, False]
    assert is_right(np.array([[0.0, 2.0, np.nan]]), np.array([0, 1, 0])).tolist() == [True, True, False]
    assert is_right(np.full((3, 1), np.nan), np.array([0])).tolist() == [False]
