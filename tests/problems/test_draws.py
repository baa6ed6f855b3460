import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from zocosmo.core import Tape
from zocosmo.errors import InputError
from zocosmo.problems.draws import normals, private, together, uniforms

DRAWS = [uniforms, normals]


class Words(Tape):
    """A tape whose every word is the one given."""

    def __init__(self, word):
        super().__init__(0)
        self.word = word

    def coins(self, label, *ids):
        return self

    def words(self, count):
        return np.full(count, self.word, np.uint64)


@pytest.mark.parametrize("seed", [0, "alpha", bytes(range(32))])
def test_private_coins_are_not_the_public_ones_of_the_same_seed(seed):
    assert private(seed).commitment() != Tape(seed).commitment()
    assert private(seed).commitment() == private(seed).commitment() != private("other").commitment()


def test_the_private_tape_of_a_seed_never_changes():
    """Pinned once: every split, start and noise of every log hangs on it."""
    assert private(0).coins("noise", 3, 1).bytes(8).tobytes().hex() == "b92600666736070b"
    assert uniforms(private(0), "noise", 3, 1, size=1)[0].hex() == "0x1.60e6ccecc0050p-5"


def test_tapes_go_together_as_one_with_an_axis():
    tape = together([private(1), private("two")])
    assert tape.shape == (2,)
    assert tape[1].commitment() == private("two").commitment()
    with pytest.raises(InputError, match=r"shape \(2,\)"):
        together([tape, tape])


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_many_streams_at_once_equal_one_by_one(draw, size):
    seeds, t, i = [1, "two", 3], np.arange(4), np.arange(2)[:, None]
    drawn = draw(together([private(seed) for seed in seeds])[:, None, None], "noise", t, i, size=size)
    assert drawn.shape == (3, 2, 4, size)
    for s, a, b in np.ndindex(3, 2, 4):
        assert (drawn[s, a, b] == draw(private(seeds[s]), "noise", b, a, size=size)).all()


@pytest.mark.parametrize("draw", DRAWS)
@given(st.integers(0, 40), st.integers(0, 40))
def test_asking_for_more_keeps_those_before(draw, few, more):
    few, more = sorted([few, more])
    long, short = draw(private(7), "x", 1, size=more), draw(private(7), "x", 1, size=few)
    assert (long[:few] == short).all()


@given(st.integers(0, 2**64 - 1))
def test_a_uniform_is_the_middle_of_its_cell(word):
    """Over 2⁵² cells: an exact number strictly inside (0, 1), whatever the word."""
    u = uniforms(Words(word), "x", size=1)[0]
    assert u * 2**53 == 2 * (word >> 12) + 1
    assert 0 < u < 1


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_extreme_words_give_finite_normals(word):
    z = normals(Words(word), "x", size=2)
    assert np.isfinite(z).all()
    assert np.abs(z).max() < 8.6


@pytest.mark.parametrize(("draw", "law"), [(uniforms, "uniform"), (normals, "norm")])
def test_draws_follow_their_law_along_and_across_streams(draw, law):
    """Kolmogorov–Smirnov at 1e-6: a right law fails one time in a million, and the coins are fixed."""
    drawn = draw(private("law"), "x", np.arange(2000), size=10)
    assert kstest(drawn.ravel(), law).pvalue > 1e-6
    assert kstest(drawn[:, 3], law).pvalue > 1e-6


def test_the_two_normals_of_a_pair_are_uncorrelated():
    """The mean of N products of independent normals has deviation 1/√N; six of them are allowed."""
    z = normals(private("pairs"), "x", np.arange(500), size=40)
    assert abs((z[:, 0::2] * z[:, 1::2]).mean()) < 6 / np.sqrt(10_000)
    assert abs((z[:, 0::2] ** 2 * z[:, 1::2] ** 2).mean() - 1) < 6 * np.sqrt(8 / 10_000)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_negative_size_is_refused(draw):
    with pytest.raises(InputError, match="number of draws must be 0 or more, got -1"):
        draw(private(0), "x", size=-1)
