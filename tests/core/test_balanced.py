import hashlib
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import reference
from zocosmo.core import Tape, balanced_support, epoch_length
from zocosmo.core.balanced import permute, siphash
from zocosmo.errors import InputError

FULL = 6_525_621_760
ALPHA = 1e-6


def word(value):
    return np.array([value], np.uint64)


def test_siphash_gives_its_published_vector():
    """Key 00 01 … 0f, message 00 01 … 07: the ninth vector of the reference implementation."""
    k0, k1 = word(0x0706050403020100), word(0x0F0E0D0C0B0A0908)
    assert int(siphash(k0, k1, word(0x0706050403020100))[0]) == 0x93F5F5799A932462


def test_the_documented_vectors():
    blocks = [balanced_support(Tape(0), t, d=10, q=3).index.tolist() for t in range(6)]
    assert blocks == [[4, 8, 9], [0, 2, 7], [1, 3, 5], [6], [4, 6, 7], [0, 5, 9]]
    assert balanced_support(Tape("alpha"), 3, 1, 2, d=32, q=4).index.tolist() == [5, 8, 24, 25]
    assert balanced_support(Tape(0), 0, d=1025, q=4).index.tolist() == [53, 518, 584, 831]


def test_the_documented_full_model_vector():
    index = balanced_support(Tape(0), 42, d=FULL, q=8192).index
    digest = hashlib.blake2b(index.astype("<u8").tobytes(), digest_size=16).hexdigest()
    assert digest == "f951ab084bb7fc2d49d9b5b9c0fcfb7f"


@given(
    st.integers(1, 2**63), st.integers(1, 12), st.integers(0, 2**40), st.lists(st.integers(0, 9), max_size=2)
)
def test_blocks_equal_the_plain_implementation(d, q, t, ids):
    q = min(q, d)
    got = balanced_support(Tape("b"), t, *ids, d=d, q=q).index.tolist()
    assert got == reference.balanced("b", d, q, t, tuple(ids))


@pytest.mark.parametrize(
    ("d", "q"), [(1, 1), (2, 1), (10, 3), (17, 5), (100, 10), (101, 10), (5000, 700), (9, 9)]
)
def test_every_coordinate_comes_once_in_an_epoch(d, q):
    for epoch in range(3):
        rounds = range(epoch * epoch_length(d, q), (epoch + 1) * epoch_length(d, q))
        blocks = [balanced_support(Tape(1), t, d=d, q=q).index for t in rounds]
        assert sorted(np.concatenate(blocks).tolist()) == list(range(d))


def test_two_visits_are_at_most_2k_minus_1_rounds_apart():
    d, q = 12, 4
    K = epoch_length(d, q)
    visits = [[t for t in range(60) if c in balanced_support(Tape(2), t, d=d, q=q).index] for c in range(d)]
    assert max(np.diff(each).max() for each in visits) <= 2 * K - 1


@pytest.mark.parametrize(("d", "q"), [(2, 1), (4, 2), (5, 1), (7, 3)])
def test_blocks_are_uniform(d, q):
    """χ² over all C(d, q) first blocks in 60,000 epochs, at level 1e-6."""
    blocks = balanced_support(Tape("uniform"), epoch_length(d, q) * np.arange(60_000), d=d, q=q).index
    _, counts = np.unique(blocks, axis=0, return_counts=True)
    expected = 60_000 / comb(d, q)
    assert len(counts) == comb(d, q)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALPHA, comb(d, q) - 1)


@pytest.mark.parametrize("d", [1025, 1089, 5000])
def test_the_network_spreads_points_evenly(d):
    """Images of neighbouring points under 60,000 keys, in a 16 × 16 table: χ² against independence.

    Two images differ always, which moves a cell's share by less than 1/d: nothing beside its 6 % of noise.
    """
    keys = Tape("spread").coins("balanced", np.arange(60_000)).words(2)
    first, second = permute(np.tile(np.arange(7, 9, dtype=np.uint64), (60_000, 1)), keys, d).T
    cell = (first * np.uint64(16) // np.uint64(d)) * np.uint64(16) + second * np.uint64(16) // np.uint64(d)
    share = np.bincount(np.arange(d) * 16 // d, minlength=16) / d
    expected = 60_000 * np.outer(share, share).ravel()
    counts = np.bincount(cell.astype(int), minlength=256)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALPHA, 255)


@pytest.mark.parametrize("d", [1025, 1088, 1089, 4999])
def test_the_network_is_a_bijection(d):
    keys = Tape("bijection").coins("balanced", np.arange(3)).words(2)
    images = permute(np.tile(np.arange(d, dtype=np.uint64), (3, 1)), keys, d)
    assert (np.sort(images, axis=1) == np.arange(d)).all()


def test_pairs_share_a_block_as_often_as_they_should():
    """d = 32, q = 4: two coordinates meet with probability 3/31; χ² over all 496 pairs in 40,000 epochs.

    Meetings in an epoch are not independent across pairs, which widens the statistic little at 3/31;
    the bound is the 1e-6 quantile for 496 degrees, and the sum of counts is exact.
    """
    blocks = balanced_support(Tape("meet"), 8 * np.arange(40_000), d=32, q=4).index
    meet = np.zeros((32, 32))
    for a in range(4):
        for b in range(a + 1, 4):
            np.add.at(meet, (blocks[:, a], blocks[:, b]), 1)
    counts = meet[np.triu_indices(32, 1)]
    expected = 40_000 * 6 / 496
    assert counts.sum() == 240_000
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALPHA, 496)


def test_a_batch_equals_its_draws_one_by_one():
    tapes, t = Tape.stack([1, 2]), np.arange(7)
    batch = balanced_support(tapes[:, None], t, 4, 5, d=31, q=4).index
    for s, k in np.ndindex(2, 7):
        assert (batch[s, k] == balanced_support(tapes[s], k, 4, 5, d=31, q=4).index).all()


def test_blocks_of_two_sizes_do_not_share_an_array():
    with pytest.raises(InputError, match="draw them separately"):
        balanced_support(Tape(0), np.arange(4), d=10, q=3)


@pytest.mark.parametrize("d", [20, 2000])
def test_an_empty_batch_is_empty(d):
    assert balanced_support(Tape(0), np.arange(0), d=d, q=4).index.shape == (0, 4)


@pytest.mark.parametrize("d", [1000, 1001, 1023, 1024, 1025, 1026])
def test_the_two_rules_meet_at_1024(d):
    assert balanced_support(Tape(0), 9, d=d, q=7).index.tolist() == reference.balanced(0, d, 7, 9)


def test_a_batch_larger_than_a_block_equals_its_parts():
    whole = balanced_support(Tape(0), np.arange(4000), d=1000, q=1).index
    assert (whole[3990:] == balanced_support(Tape(0), np.arange(3990, 4000), d=1000, q=1).index).all()
