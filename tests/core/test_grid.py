"""Wires on a grid: no value lies off it, errors are fair and within half a step, a head has one meaning."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header, frame, unframe
from zocosmo.core.grid import GRID, UNREADABLE, ZEROS, step_of
from zocosmo.core.message import CODECS
from zocosmo.core.noise import Noise
from zocosmo.core.tape import Tape
from zocosmo.core.wire import Envelope
from zocosmo.errors import InputError
from zocosmo.methods import Cosmo, DeComFL, Ef21, SeedFlood, TreeMean, TreeSum

ROWS, Q = 10_000, 100  # a million values
N = 8
CODES = np.arange(1, UNREADABLE)
PASSES = {"q": 2, "passes": 2}
GOLDEN, READ = "a74f", [[1.3851256370544434, -0.6926722526550293]]


@pytest.fixture(params=GRID.values(), ids=GRID)
def wire(request):
    return request.param


def envelope(rows, *, t=3, seed=1):
    return Envelope(t, rows, N, None, Noise(Tape(seed), N))


class Fixed:
    """Dither that a test chooses, in place of the tape's."""

    def __init__(self, r):
        self.r = r

    def dither(self, t, rows, q):
        return self.r


def crossed(wire, y, r):
    """What is read of values (rows, q) with the dither r, and the letters."""
    about = Envelope(0, np.arange(len(y)), N, None, Fixed(np.broadcast_to(r, y.shape)))
    letters = wire.encode(y, about)
    return wire.decode(letters, about, dtype=np.float64, own=None), letters


def test_a_million_values_lie_on_the_grid_and_are_off_by_half_a_step_at_most(wire):
    """Values of every size, the largest of many rows at the very edge of what its step reaches."""
    rng = np.random.default_rng(wire.bits)
    y = np.ldexp(rng.uniform(-1, 1, (ROWS, Q)), rng.integers(-30, 18, (ROWS, 1)))
    code = rng.integers(60, 200, ROWS // 2)
    y[: ROWS // 2] *= (step_of(code) * wire.half / np.abs(y[: ROWS // 2]).max(axis=1))[:, None] / 4
    y[: ROWS // 2, 7] = step_of(code) * (wire.half - 0.5) * rng.choice([-1, 1], ROWS // 2)
    about = envelope(np.arange(ROWS) % N)
    letters = wire.encode(y, about)
    read = wire.decode(letters, about, dtype=np.float64, own=None)
    step = step_of(letters.scale)
    assert letters.values.dtype == np.uint8
    assert (letters.values.min(), letters.values.max()) == (0, 2**wire.bits - 1)
    assert_array_equal(letters.scale[: ROWS // 2, 0], code)
    assert (np.abs(read - y) <= step * (0.5 + 2.0**-40)).all()
    assert (np.abs(y).max(axis=1, keepdims=True) <= step * (wire.half - 0.5)).all()


def test_the_step_is_the_least_that_reaches(wire):
    """For every code: its reach, a value just below, one just above, and all in between."""
    reach = step_of(CODES) * (wire.half - 0.5)
    for value, code in ((reach, CODES), (np.nextafter(reach, np.inf), CODES + 1)):
        assert_array_equal(crossed(wire, value[:, None], 0.5)[1].scale[:, 0], code)
    between = np.sqrt(reach[1:] * reach[:-1])
    assert_array_equal(crossed(wire, -between[:, None], 0.5)[1].scale[:, 0], CODES[1:])
    tiny = np.array([[5e-324], [2.0**-1000], [reach[0] / 2]])
    assert crossed(wire, tiny, 0.5)[1].scale.tolist() == [[1], [1], [1]]


def test_there_are_four_steps_in_an_octave():
    assert step_of(CODES[:5]).tolist() == [m * 2.0**-44 for m in (1, 1.25, 1.5, 1.75, 2)]
    assert all(a < b <= 1.25 * a for a, b in pairwise(step_of(CODES).tolist()))


@given(st.integers(-(2**15), 2**15), st.sampled_from(sorted(GRID)), st.integers(1, 254))
def test_the_mean_over_all_dithers_is_the_value(m, name, code):
    """y = m Δ/2^16 beside a value that fixes Δ; all 2^16 numbers r = (2w + 1)/2^17, added as integers."""
    wire, step = GRID[name], step_of(np.array(code))
    y = np.broadcast_to(np.array([m * 2.0**-16 * step, (wire.half - 0.5) * step]), (2**16, 2))
    r = ((2 * np.arange(2**16) + 1) / 2**17)[:, None]
    read, letters = crossed(wire, y, r)
    assert (letters.scale == code).all()
    units = read[:, 0] / step * 2**17  # whole numbers: (k + 1) 2^17 − (2w + 1)
    assert_array_equal(units, np.rint(units))
    assert Fraction(int(units.astype(np.int64).sum()), 2**16) == 2 * m


def test_the_error_is_uniform_whatever_the_value_is(wire):
    """Mean 0 and variance Δ²/12 over the dither, within six standard errors of 80,000 draws."""
    y = np.broadcast_to(np.array([wire.half - 0.5, 0.3]), (80_000, 2))
    r = np.concatenate([Noise(Tape(seed), N).dither(0, np.arange(N), 1) for seed in range(10_000)])
    error = crossed(wire, y, r)[0][:, 1] - 0.3
    assert abs(error.mean()) <= 6 * math.sqrt(1 / 12 / error.size)
    assert abs((error**2).mean() - 1 / 12) <= 6 * math.sqrt(1 / 180 / error.size)


def test_zeros_cross_as_zeros_and_what_is_not_finite_or_too_large_as_nan(wire):
    largest = step_of(np.array(254)) * (wire.half - 0.5)
    y = np.array(
        [[0.0, -0.0], [1.0, np.nan], [np.inf, 0.0], [largest, 0.0], [np.nextafter(largest, np.inf), 0.0]]
    )
    read, letters = crossed(wire, y, 0.25)
    assert letters.scale[:, 0].tolist() == [ZEROS, UNREADABLE, UNREADABLE, 254, UNREADABLE]
    assert not letters.values[[0, 1, 2, 4]].any()
    assert_array_equal(read[0], [0.0, 0.0])
    assert_array_equal(np.isnan(read).all(axis=1), [False, True, True, False, True])


def test_no_receiver_needs_values_of_its_own(wire):
    y, about = np.array([[1.5, -0.25]]), envelope(np.array([2]))
    letters = wire.encode(y, about)
    one, other = (wire.decode(letters, about, dtype=np.float64, own=own) for own in (None, 7 * y))
    assert_array_equal(one, other)


def test_states_of_float32_are_read_as_the_nearest_of_them():
    wire, about = GRID["grid5"], envelope(np.array([4]))
    y = np.array([[0.1, 3.7, -2.2]], np.float32)
    letters = wire.encode(y, about)
    double = wire.decode(letters, about, dtype=np.float64, own=None)
    single = wire.decode(letters, about, dtype=np.float32, own=None)
    assert single.dtype == np.float32
    assert_array_equal(single, double.astype(np.float32))


@pytest.mark.parametrize("codec", ["values", "indexed", "plain", "delta"])
def test_frames_have_the_bits_of_the_ledger(wire, codec):
    q, d = 7, 40
    values = np.random.default_rng(1).integers(0, 2**wire.bits, q).astype(np.uint8)
    index = None if codec == "values" else np.arange(q) * 5
    head = wire.pack_scale(np.array([201], np.uint8))
    header = Header(CODECS[codec], wire.charged, 5, 2, q)
    data = frame(header, Message(values, index, scale=head), d=d, session=bytes(32))
    assert 8 * len(data) == CODECS[codec].bits(d, q, wire.charged).plus(FRAME_BITS).total
    got = unframe(data, d=d, session=bytes(32), expect=header)[1]
    assert_array_equal(got.values, values)
    assert wire.unpack_scale(got.scale).tolist() == [[201]]
    if codec == "values":
        assert CODECS[codec].bits(d, q, wire.charged).payload == 8 + q * wire.bits


def test_golden_bytes():
    """A message of four bits from node 5 in round 3: its step is 3/16."""
    wire, about = GRID["grid4"], envelope(np.array([5]), seed=0)
    letters = wire.encode(np.array([[1.3, -0.7]]), about)
    message = Message(letters.values[0], scale=wire.pack_scale(letters.scale[0]))
    assert CODECS["values"].encode(message, d=9, value=wire.charged).hex() == GOLDEN
    assert wire.decode(letters, about, dtype=np.float64, own=None).tolist() == READ
    assert step_of(letters.scale) == 0.1875


@pytest.mark.parametrize(
    ("method", "given", "says"),
    [
        (SeedFlood, {}, "wire grid3 has no codec 'seed_scalar'; use wire f32"),
        (TreeSum, {"bits": 5}, "wire grid3 has no codec 'residues5'; use wire f32"),
        (DeComFL, {}, "decomfl cannot use wire grid3, which has no dither for a server; use f32"),
        (Ef21, {"q": 2}, "ef21 cannot use wire grid3, which has no dither for a server; use f32"),
        (
            Cosmo,
            {"q": 2, "passes": 2},
            "wire grid3 is read once a round; use passes = 1, or a wire of floats",
        ),
    ],
)
def test_a_method_that_has_no_room_for_the_step_or_sends_twice_is_refused(method, given, says):
    """Dither is drawn by round and sender, so a second message of a round would have that of the first."""
    with pytest.raises(InputError) as error:
        method(eta=0.1, mu=0.1, **given).wire_for("grid3", "float64")
    assert str(error.value) == says


def test_sums_over_a_tree_may_cross_on_it():
    assert TreeSum(eta=0.1, mu=0.1, bits=32).wire_for("grid3", "float32") == "grid3"
    assert TreeMean(eta=0.1, mu=0.1, q=2, wire="grid3").wire_for("f32", "float32") == "grid3"
