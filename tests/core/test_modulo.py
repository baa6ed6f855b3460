"""Wires of a few bits: what is read is what was written within the stated range, and nothing else passes."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header, frame, unframe
from zocosmo.core.message import CODECS
from zocosmo.core.modulo import MODULO, WIDE, check_bits, is_wide, least_exponent, step_of
from zocosmo.core.noise import Noise
from zocosmo.core.tape import Tape
from zocosmo.core.wire import Envelope
from zocosmo.core.wires import FEW_BITS

ROWS, Q = 10_000, 100  # a million values
N = 8
GOLDEN, READ = "7dec7bd805", [[1.360917091369629, -0.6492815017700195]]


@pytest.fixture(params=MODULO.values(), ids=MODULO)
def wire(request):
    return request.param


def envelope(rows, exponent, *, t=3, wide=None, seed=1):
    return Envelope(t, rows, N, None, Noise(Tape(seed), N), exponent, wide)


def drawn(seed, rows=ROWS, q=Q):
    """Rows of values of every size, on a grid of 2^−20 of it, and the exponents of their steps."""
    rng = np.random.default_rng(seed)
    exponent = rng.integers(-60, 60, rows)
    y = np.ldexp(rng.integers(-(2**24), 2**24, (rows, q)) * 2.0**-10, exponent[:, None])
    return rng, exponent, y, np.arange(rows) % N


def exchanged(wire, y, x, rows, exponent, *, wide=None):
    about = envelope(rows, exponent, wide=wide)
    letters = wire.encode(y, about)
    own = wire.decode(letters, about, dtype=np.float64, own=y)
    return letters, own, wire.decode(letters, about, dtype=np.float64, own=x)


def test_a_million_values_within_reach_are_read_exactly(wire):
    """|y − x| ≤ (2^{b−1} − ½) Δ, ends included: what is read is what the sender knows it wrote."""
    rng, exponent, y, rows = drawn(wire.bits)
    reach = np.ldexp(wire.reach, exponent)[:, None]
    apart = reach * rng.choice([1.0, 0.5, 2.0**-7, 0.0], y.shape) * rng.choice([-1.0, 1.0], y.shape)
    letters, own, read = exchanged(wire, y, y - apart, rows, exponent)
    assert letters.values.max() == 2**wire.bits - 1
    assert_array_equal(read, own)
    assert (np.abs(own - y) <= np.ldexp(0.5, exponent)[:, None]).all()


def test_wide_messages_reach_as_far_as_32_bits_do(wire):
    rng, exponent, y, rows = drawn(wire.bits)
    far = np.ldexp(2.0 ** (WIDE - 1) - 0.5, exponent)[:, None] * rng.choice([-1.0, 1.0, 0.25], y.shape)
    wide = rng.random(ROWS) < 0.5
    near = np.where(wide[:, None], far, np.ldexp(wire.reach, exponent)[:, None])
    letters, own, read = exchanged(wire, y, y + near, rows, exponent, wide=wide)
    assert_array_equal(is_wide(letters.scale)[:, 0], wide)
    assert_array_equal(read, own)


def test_what_is_out_of_reach_is_read_once_in_65536_times(wire):
    """One value of each row is far off by a random number of ranges.

    The check bits of a wrong row are uniform, so of R rows a number with mean and variance R/65536 pass; more
    than mean + 6 deviations do so less than once in 10^6 times, as a Poisson number of this size.
    """
    passed, total = 0, 0
    for seed in range(8):
        rng, exponent, y, rows = drawn(100 * wire.bits + seed)
        rows = rng.permutation(rows)
        ranges = rng.integers(1, 2**20, ROWS) * rng.choice([-1, 1], ROWS)
        x = y.copy()
        x[np.arange(ROWS), rng.integers(0, Q, ROWS)] += np.ldexp(ranges * 2.0**wire.bits, exponent)
        _, own, read = exchanged(wire, y, x, rows, exponent)
        wrong = ~np.isnan(read[:, 0])
        assert (read[wrong] != own[wrong]).any(axis=1).all()
        passed, total = passed + wrong.sum(), total + ROWS
    mean = total / 2**16
    assert passed <= mean + 6 * math.sqrt(mean) + 6


def test_factors_make_check_bits_uniform():
    """All errors of one value by 2^b with random factors: each of 2^16 differences is as likely as any.

    Of R draws the number with difference 0 is binomial with mean R/2^16.
    """
    rng, rows = np.random.default_rng(0), 2**22
    factors = rng.integers(0, 2**64, (rows, 1), np.uint64)
    k = rng.integers(-(2**40), 2**40, (rows, 1))
    same = (check_bits(k, factors) == check_bits(k + 2**4, factors)).sum()
    assert abs(same - 64) <= 6 * 8


def test_the_error_is_uniform_whatever_the_value_is(wire):
    """Mean 0 and variance Δ²/12 over the dither, within six standard errors of 800,000 draws."""
    size = 8000
    y = np.full((size, Q), 0.3)
    noise = [Noise(Tape(seed), N) for seed in range(size // N)]
    about = [Envelope(0, np.arange(N), N, None, each, np.zeros(N, np.int64)) for each in noise]
    read = [wire.decode(wire.encode(y[:N], a), a, dtype=np.float64, own=y[:N]) for a in about]
    error = np.concatenate(read).reshape(-1) - 0.3
    assert abs(error.mean()) <= 6 * math.sqrt(1 / 12 / error.size)
    assert abs((error**2).mean() - 1 / 12) <= 6 * math.sqrt(1 / 180 / error.size)


def test_values_that_are_not_finite_cannot_be_read(wire):
    y = np.array([[1.0, np.nan], [np.inf, 0.0], [1.0, 2.0]])
    letters, _, read = exchanged(wire, y, np.ones((3, 2)), np.arange(3), np.zeros(3, np.int64))
    assert_array_equal(np.isnan(read).all(axis=1), [True, True, False])
    assert letters.values.dtype == np.uint8


@pytest.mark.parametrize("value", FEW_BITS.values(), ids=FEW_BITS)
@pytest.mark.parametrize("q", [1, 3, 8, 33])
def test_integers_are_packed_without_gaps(value, q):
    sent = np.random.default_rng(q).integers(0, 2**value.bits, q).astype(value.dtype)
    data = value.pack(sent)
    assert len(data) == -(-q * value.bits // 8)
    assert_array_equal(value.unpack(data, q), sent)


@pytest.mark.parametrize("codec", ["values", "indexed", "plain", "delta"])
def test_frames_have_the_bits_of_the_ledger(wire, codec):
    q, d = 7, 40
    values = np.random.default_rng(1).integers(0, 2**wire.bits, q).astype(np.uint8)
    index = None if codec == "values" else np.arange(q) * 5
    head = wire.pack_scale(np.array([2**27 - 1], np.uint32))
    header = Header(CODECS[codec], wire.charged, 5, 2, q)
    data = frame(header, Message(values, index, scale=head), d=d, session=bytes(32))
    assert 8 * len(data) == CODECS[codec].bits(d, q, wire.charged).plus(FRAME_BITS).total
    got = unframe(data, d=d, session=bytes(32), expect=header)[1]
    assert_array_equal(got.values, values)
    assert wire.unpack_scale(got.scale) == 2**27 - 1
    if codec == "values":
        assert CODECS[codec].bits(d, q, wire.charged).payload == 27 + q * wire.bits


def test_golden_bytes():
    """A message of four bits: exponent −3, two values of which the receiver holds others."""
    wire, about = MODULO["mod4"], envelope(np.array([5]), np.array([-3]), seed=0)
    letters = wire.encode(np.array([[1.3, -0.7]]), about)
    message = Message(letters.values[0], scale=wire.pack_scale(letters.scale[0]))
    assert CODECS["values"].encode(message, d=9, value=wire.charged).hex() == GOLDEN
    read = wire.decode(letters, about, dtype=np.float64, own=np.array([[1.0, -1.0]]))
    assert read.tolist() == READ
    assert step_of(letters.scale) == 0.125


def test_the_least_power_of_two():
    assert least_exponent(np.array([1.0, 1.5, 2.0, 0.25, 0.3, 7.0])).tolist() == [0, 1, 1, -2, -1, 3]


def test_noise_is_the_same_for_one_run_and_many():
    many = Noise(Tape.stack([1, 2, 1]), N)
    rows = np.array([0, 3, N + 3, 2 * N + 3])
    for t, q in ((0, 5), (1, 5), (1, 9)):
        alone = [
            Noise(Tape(seed), N).dither(t, np.array([row]), q)[0] for seed, row in ((1, 0), (1, 3), (2, 3))
        ]
        assert_array_equal(many.dither(t, rows, q), [*alone, alone[1]])
    factors = many.factors(rows, 4)
    assert_array_equal(factors[3], Noise(Tape(1), N).factors(np.array([3]), 9)[0, :4])
