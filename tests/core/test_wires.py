"""Wires of other kinds than floats: a scale in each message, public coins, and the receiver's own values."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zocosmo.channel import MemoryChannel
from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.payload import Bits
from zocosmo.core.support import draw_support
from zocosmo.core.tape import Tape
from zocosmo.core.values import ValueType
from zocosmo.core.wire import Envelope, Letters, Wire
from zocosmo.core.wires import WIRES
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, erdos_renyi, ring, star

N, Q = 4, 5
PAIRS = np.array([[1, 0, 3, 2], [0, 1, 3, 2]])  # of two runs; in the second two nodes are idle


class Dithered(Wire):
    """Four bits a value: the number of its step modulo 16, from which the receiver's value gives the step.

    A step is half the least power of two above all values, and steps are shifted by public coins.
    """

    charged = ValueType("u4", 99, 4, np.dtype(np.uint8), scale_bits=8)
    by_receiver = True

    def crosses_as(self, dtype):
        return self.charged

    def is_lossless(self, dtype):
        return False

    def encode(self, values, envelope):
        scale = 2.0 ** np.floor(np.log2(np.abs(values).max(axis=-1, keepdims=True)))
        step = np.floor(values / scale + dither(envelope, values.shape[-1]))
        return Letters((step % 16).astype(np.uint8), scale)

    def decode(self, letters, envelope, *, dtype, own):
        shift = dither(envelope, letters.values.shape[-1])
        near = np.floor(own / letters.scale + shift)
        step = near + (letters.values - near + 8) % 16 - 8
        return ((step + 0.5 - shift) * letters.scale).astype(dtype)


def dither(envelope, q):
    """Between 0 and 1, in steps of 1/256."""
    return envelope.coins("dither").bytes(q) / 256


@pytest.fixture
def dithered(monkeypatch):
    monkeypatch.setitem(WIRES, "dithered", Dithered())


def channel(*graphs, wire="dithered", **options):
    return MemoryChannel(graphs, d=20, wire=wire, codecs=("values",), dtype="float64", **options)


def two_runs():
    """Channels of two runs side by side and of each alone, in round 7."""
    together = channel(complete(N), complete(N), tape=Tape.stack([3, 4]))
    alone = [channel(complete(N), tape=Tape(seed)) for seed in (3, 4)]
    for each in (together, *alone):
        each.begin(7)
    return together, alone


def values(*shape, seed=0):
    """Dyadic, above 1/2 in size at even nodes and half of that at odd ones: at most 6 steps apart."""
    rng = np.random.default_rng(seed)
    found = rng.integers(33, 65, shape) / 64 * rng.choice([-1.0, 1.0], shape)
    found[..., 1::2, :] /= 2
    return found


def of_partners(y):
    return np.take_along_axis(y, PAIRS[..., None], axis=1)


def envelope(rows, *, t=7, seeds=(3,)):
    return Envelope(t, np.asarray(rows), N, Tape.stack(seeds))


def test_what_is_read_lies_within_half_a_step_of_what_was_written():
    y, own, wire = values(N, Q), values(N, Q, seed=1), Dithered()
    letters = wire.encode(y, envelope(range(N)))
    read = wire.decode(letters, envelope(range(N)), dtype=np.float64, own=own)
    assert letters.values.max() < 16
    assert len(np.unique(letters.scale)) > 1
    assert (np.abs(read - y) <= letters.scale / 2).all()


def test_mixing_keeps_the_average_of_each_run_exactly(dithered):
    """Weights 1/4, and values, steps and coins are dyadic: nothing rounds but the wire."""
    y = values(2, N, Q)
    mixed = two_runs()[0].mix(y)
    assert (mixed != y).any()
    assert_array_equal(mixed.sum(axis=1), y.sum(axis=1))


def test_pairs_keep_their_average_exactly_and_the_idle_their_values(dithered):
    y = values(2, N, Q)
    mixed = two_runs()[0].mix_pairs(y, PAIRS)
    assert (mixed[0] != y[0]).any()
    assert_array_equal(mixed + of_partners(mixed), y + of_partners(y))
    assert_array_equal(mixed[1, :2], y[1, :2])


def test_runs_mix_side_by_side_as_each_alone(dithered):
    y, (together, alone) = values(2, N, Q), two_runs()
    assert_array_equal(together.mix(y), np.stack([each.mix(y[k]) for k, each in enumerate(alone)]))


def test_runs_mix_pairs_side_by_side_as_each_alone(dithered):
    y, (together, alone) = values(2, N, Q), two_runs()
    apart = [each.mix_pairs(y[k], PAIRS[k]) for k, each in enumerate(alone)]
    assert_array_equal(together.mix_pairs(y, PAIRS), np.stack(apart))


def test_graphs_with_other_neighbours_mix_side_by_side_as_each_alone(dithered):
    graphs, y = [ring(6), star(6), erdos_renyi(6, 0.5, 1)], values(3, 6, Q)
    together = channel(*graphs, tape=Tape.stack([1, 2, 3])).mix(y)
    alone = [channel(graph, tape=Tape(k + 1)).mix(y[k]) for k, graph in enumerate(graphs)]
    assert_array_equal(together, np.stack(alone))


def test_each_neighbour_is_read_by_the_coins_of_its_sender_and_by_ones_own_values(dithered):
    """Node by node: y_i + Σ_j (Q(y_j) − Q(y_i)) / 4, where the Q are what node i reads."""
    y, wire = values(N, Q), Dithered()
    letters = wire.encode(y, envelope(range(N)))
    mixed = two_runs()[1][0].mix(y)
    for i in range(N):
        own = np.broadcast_to(y[i], (N, Q))
        read = wire.decode(letters, envelope(range(N)), dtype=np.float64, own=own)
        assert_array_equal(mixed[i], y[i] + sum((read[j] - read[i]) / 4 for j in range(N) if j != i))


def test_coins_differ_by_run_round_and_sender():
    every = [envelope([row], t=t, seeds=(3, 4)) for t in range(3) for row in range(2 * N)]
    assert len({dither(each, Q).tobytes() for each in every}) == 3 * 2 * N
    assert_array_equal(dither(envelope([N + 1], seeds=(3, 4)), Q), dither(envelope([1], seeds=(4,)), Q))


def test_a_message_is_charged_four_bits_a_value_and_its_scale(dithered):
    """5 values: 8 + 20 bits, and 4 that fill the last byte."""
    mixing = channel(ring(N), tape=Tape(3))
    mixing.mix(values(N, Q))
    each = Bits(values=4 * Q, control=8, framing=4).plus(FRAME_BITS)
    assert mixing.ledger("values").network() == each.times(2 * N)


def test_what_depends_on_the_receiver_cannot_be_read_for_all(dithered):
    mixing = channel(ring(N), tape=Tape(3))
    with pytest.raises(InputError, match="against the receiver's values; choose a wire of floats"):
        mixing.as_read(values(N, Q))


def test_a_wire_that_draws_coins_needs_a_tape(dithered):
    with pytest.raises(InputError, match="public coins; make the channel with the tape"):
        channel(ring(N)).mix(values(N, Q))


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "nominal_f32"])
def test_wires_of_floats_need_no_tape_and_read_the_same_for_all(name):
    y = values(N, Q)
    assert_array_equal(channel(ring(N), wire=name).as_read(y), y)  # 7 bits or less: no wire rounds them


class Rounded(Dithered):
    """Read alike by all: steps are counted from zero."""

    by_receiver = False

    def decode(self, letters, envelope, *, dtype, own):
        return super().decode(letters, envelope, dtype=dtype, own=np.zeros(letters.values.shape))


def test_what_all_read_of_many_runs_is_what_they_read_of_each_alone(monkeypatch):
    monkeypatch.setitem(WIRES, "dithered", Rounded())
    y, (together, alone) = values(2, N, Q), two_runs()
    assert_array_equal(together.as_read(y), np.stack([each.as_read(y[k]) for k, each in enumerate(alone)]))


def test_what_all_read_is_what_everyone_hears(monkeypatch):
    monkeypatch.setitem(WIRES, "dithered", Rounded())
    y, (mixing, _) = values(N, Q), two_runs()[1]
    assert_array_equal(mixing.as_read(y), mixing.everyone(y, over="links"))


@pytest.mark.parametrize(
    "move",
    [
        lambda mixing, y, s: mixing.everyone(y, over="tree"),
        lambda mixing, y, s: mixing.mix_lifted(y, s.index),
        lambda mixing, y, s: mixing.mix_overlaps(y, s, s),
    ],
)
def test_moves_that_do_not_compare_the_same_coordinates_refuse_such_a_wire(dithered, move):
    s = draw_support(Tape(0), 0, np.arange(N), d=20, q=Q)
    with pytest.raises(InputError, match="against the receiver's values"):
        move(channel(complete(N), tape=Tape(3)), values(N, Q), s)
