import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core import CODECS, VALUE_TYPES, Message, Tape, draw_support, entropy_bound
from zocosmo.core.fields import join_bits, pack_flags, split_bits, unpack_flags
from zocosmo.core.values import ValueType
from zocosmo.errors import CorruptMessage, InputError, TruncatedMessage

LORA, FULL = 2_523_136, 6_525_621_760


@st.composite
def messages(draw, codec):
    """(d, value type, message) for a codec: any d it can carry, any bits for values."""
    carries = codec.field.carries
    if codec.name == "dense":
        d = q = draw(st.integers(1, 50))
    else:
        d = draw(st.one_of(st.integers(1, 300), st.integers(1, 2**63)))
        q = 1 if carries == "seed" else draw(st.integers(1, min(d, 60)))
    value = VALUE_TYPES[draw(st.sampled_from(list(VALUE_TYPES)))]
    values = value.unpack(draw(st.binary(min_size=q * value.bits // 8, max_size=q * value.bits // 8)), q)
    index = draw_support(Tape(draw(st.integers(0, 9))), 0, d=d, q=q).index if carries == "index" else None
    seed = draw(st.integers(0, 2**64 - 1)) if carries == "seed" else None
    return d, value, Message(values, index, seed)


def bits_of(array):
    return array.dtype, array.shape, array.tobytes()


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_decode_gives_exactly_what_was_sent_at_the_price_announced(name, data):
    codec = CODECS[name]
    d, value, sent = data.draw(messages(codec))
    encoded = codec.encode(sent, d=d, value=value)
    got = codec.decode(encoded, d=d, q=sent.values.size, value=value)
    assert bits_of(got.values) == bits_of(sent.values)
    assert got.seed == sent.seed
    assert (got.index is None) if sent.index is None else (got.index == sent.index).all()
    assert codec.bits(d, sent.values.size, value).total == 8 * len(encoded)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize("name", ["indexed", "plain", "delta"])
def test_every_support_of_a_small_space_survives(name, d):
    codec, value = CODECS[name], VALUE_TYPES["f16"]
    for pattern in range(1, 2**d):
        index = np.flatnonzero([pattern >> k & 1 for k in range(d)])
        sent = Message(np.ones(index.size, np.float16), index)
        got = codec.decode(codec.encode(sent, d=d, value=value), d=d, q=index.size, value=value)
        assert got.index.tolist() == index.tolist()


@pytest.mark.parametrize("support", [np.arange(8192), np.arange(LORA - 8192, LORA), np.arange(0, LORA, 308)])
@pytest.mark.parametrize("name", ["indexed", "plain", "delta"])
def test_supports_in_one_corner_survive(name, support):
    codec, value = CODECS[name], VALUE_TYPES["f32"]
    sent = Message(np.zeros(support.size, np.float32), support)
    encoded = codec.encode(sent, d=LORA, value=value)
    assert (codec.decode(encoded, d=LORA, q=support.size, value=value).index == support).all()
    assert codec.bits(LORA, support.size, value).total == 8 * len(encoded)


@pytest.mark.parametrize("d", [LORA, FULL])
def test_the_delta_codec_is_within_5_percent_of_the_entropy_bound(d):
    bound = entropy_bound(d, 8192)
    assert bound <= CODECS["delta"].bits(d, 8192).total <= 1.05 * bound


@pytest.mark.parametrize("d", [LORA, FULL])
def test_no_codec_for_a_private_support_beats_the_entropy_bound(d):
    for name in ("indexed", "plain", "delta"):
        assert CODECS[name].bits(d, 8192).total >= entropy_bound(d, 8192)


def test_values_alone_cost_what_the_paper_charges():
    assert CODECS["values"].bits(20, 1).total == 32
    assert CODECS["indexed"].bits(20, 1).payload == 37
    assert CODECS["indexed"].bits(20, 1).total == 40
    assert CODECS["seed_scalar"].bits(128, 16).total == 96


@pytest.mark.parametrize("name", CODECS)
def test_a_byte_more_or_less_is_refused(name):
    codec, value = CODECS[name], VALUE_TYPES["f32"]
    q = {"dense": 20, "seed_scalar": 1}.get(name, 4)
    index = np.arange(q) if codec.field.carries == "index" else None
    sent = Message(np.ones(q, np.float32), index, seed=7 if codec.field.carries == "seed" else None)
    data = codec.encode(sent, d=20, value=value)
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(TruncatedMessage, match=r"takes \d+ bytes, got"):
            codec.decode(wrong, d=20, q=q, value=value)


def reencoded(name, d, index):
    """A message whose coordinates no sender would list, made by hand where the codec allows it."""
    head = {"plain": np.array(index, "<u4").tobytes(), "indexed": bytes([index[0] | index[1] << 3])}[name]
    return CODECS[name].decode(head + bytes(4), d=d, q=2, value=VALUE_TYPES["f16"])


@pytest.mark.parametrize("index", [(3, 3), (4, 2), (0, 6), (7, 7)])
@pytest.mark.parametrize("name", ["plain", "indexed"])
def test_coordinates_that_do_not_ascend_below_d_are_refused(name, index):
    with pytest.raises(CorruptMessage, match="not"):
        reencoded(name, 6, index)


def test_padding_must_be_zero():
    with pytest.raises(CorruptMessage, match="padding"):
        CODECS["indexed"].decode(bytes([0b11_001_000]) + bytes(4), d=6, q=2, value=VALUE_TYPES["f16"])


def test_the_number_of_delta_marks_must_be_that_of_values():
    data = bytearray(
        CODECS["delta"].encode(
            Message(np.ones(2, np.float16), np.array([0, 1])), d=6, value=VALUE_TYPES["f16"]
        )
    )
    data[0] = 0
    with pytest.raises(CorruptMessage, match="0 coordinates are marked, 2 were"):
        CODECS["delta"].decode(bytes(data), d=6, q=2, value=VALUE_TYPES["f16"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("values", Message(np.ones(2, np.float32), np.array([0, 1]))),
        ("values", Message(np.ones(2, np.float32), seed=3)),
        ("values", Message(np.ones((2, 2), np.float32))),
        ("values", Message(np.ones(0, np.float32))),
        ("values", Message(np.ones(21, np.float32))),
        ("indexed", Message(np.ones(2, np.float32))),
        ("indexed", Message(np.ones(2, np.float32), np.array([1, 0]))),
        ("plain", Message(np.ones(2, np.float32), np.array([1, 20]))),
        ("delta", Message(np.ones(2, np.float32), np.array([1, 2, 3]))),
        ("delta", Message(np.ones(2, np.float32), np.array([0.5, 2]))),
        ("dense", Message(np.ones(19, np.float32))),
        ("seed_scalar", Message(np.ones(2, np.float32), seed=3)),
        ("seed_scalar", Message(np.ones(1, np.float32), seed=-1)),
        ("seed_scalar", Message(np.ones(1, np.float32))),
    ],
)
def test_what_a_codec_cannot_send_is_refused(name, message):
    with pytest.raises(InputError):
        CODECS[name].encode(message, d=20, value=VALUE_TYPES["f32"])


def test_codecs_and_value_types_have_wire_ids_of_their_own():
    for table in (CODECS, VALUE_TYPES):
        assert len({entry.wire_id for entry in table.values()}) == len(table)


@pytest.mark.parametrize(("d", "width"), [(2**32 - 1, 4), (2**32, 4), (2**32 + 1, 8)])
def test_plain_coordinates_take_8_bytes_above_2_to_the_32(d, width):
    data = CODECS["plain"].encode(
        Message(np.ones(1, np.float16), np.array([d - 1])), d=d, value=VALUE_TYPES["f16"]
    )
    assert data[:-2] == (d - 1).to_bytes(width, "little")


@pytest.mark.parametrize("name", CODECS)
def test_numpy_sizes_cost_what_numbers_do(name):
    assert CODECS[name].bits(np.int64(FULL), np.int32(8192)) == CODECS[name].bits(FULL, 8192)


def test_lists_are_values_too():
    message = Message(np.float32([1, 2]).tolist(), [3, 5])
    assert (message.values.dtype, message.index.tolist()) == (np.float64, [3, 5])


@pytest.mark.parametrize("index", [(1, 2**63), (2**63, 2**63 + 1), (2**64 - 1, 5), (5, 2**64 - 1)])
def test_plain_coordinates_from_2_to_the_63_on_are_refused(index):
    data = np.array(index, np.uint64).tobytes() + bytes(4)
    with pytest.raises(CorruptMessage, match="ascend"):
        CODECS["plain"].decode(data, d=2**63, q=2, value=VALUE_TYPES["f16"])


class Nibbles(ValueType):
    """Whole numbers below 16, two in a byte."""

    def pack(self, values):
        return pack_flags(split_bits(self._checked(values), 4))

    def unpack(self, data, count):
        return join_bits(unpack_flags(data, 4 * count), 4, count).astype(np.uint8)


U4 = Nibbles("u4", 99, 4, np.dtype(np.uint8), scale_bits=8)
D = 21  # coordinates of 5 bits
SIZES = [(name, q) for name in CODECS for q in {"dense": (D,), "seed_scalar": (1,)}.get(name, (1, 3, 5, 13))]
odd_sizes = pytest.mark.parametrize(("name", "q"), SIZES)


def in_nibbles(name, q):
    """A message of q values of 4 bits, with a scale of one byte and what the codec sends besides."""
    carries, coins = CODECS[name].field.carries, np.random.default_rng(q)
    index = np.sort(coins.permutation(D)[:q]) if carries == "index" else None
    seed = 2**63 + 5 if carries == "seed" else None
    return Message(coins.integers(0, 16, q).astype(np.uint8), index, seed, scale=b"\x9c")


@odd_sizes
def test_half_bytes_and_their_scale_come_back_as_they_were_sent(name, q):
    sent = in_nibbles(name, q)
    got = CODECS[name].decode(CODECS[name].encode(sent, d=D, value=U4), d=D, q=q, value=U4)
    assert bits_of(got.values) == bits_of(sent.values)
    assert (got.scale, got.seed) == (sent.scale, sent.seed)
    assert (got.index is None) if sent.index is None else (got.index == sent.index).all()


@odd_sizes
def test_bits_are_eight_times_the_bytes_and_less_than_a_byte_of_them_is_padding(name, q):
    codec = CODECS[name]
    bits, sent = codec.bits(D, q, U4), codec.encode(in_nibbles(name, q), d=D, value=U4)
    assert bits.total == 8 * len(sent)
    assert (bits.values, bits.framing) == (4 * q, -bits.payload % 8)
    assert bits.control == 8 + codec.field.bits(D, q).control


@odd_sizes
def test_values_begin_at_the_bit_after_the_head_field(name, q):
    codec, message = CODECS[name], in_nibbles(name, q)
    head = codec.field.bits(D, q).total
    sent = codec.encode(message, d=D, value=U4)
    flags = np.unpackbits(np.frombuffer(sent[1:], np.uint8), bitorder="little")
    assert sent[:1] == message.scale
    assert pack_flags(flags[:head]) == codec.field.pack(message, D)
    assert join_bits(flags[head : head + 4 * q], 4, q).tolist() == message.values.tolist()
    assert not flags[head + 4 * q :].any()


def test_the_padding_after_half_bytes_must_be_zero():
    data = bytearray(CODECS["values"].encode(in_nibbles("values", 3), d=D, value=U4))
    data[-1] |= 0x80
    with pytest.raises(CorruptMessage, match="padding"):
        CODECS["values"].decode(bytes(data), d=D, q=3, value=U4)


@pytest.mark.parametrize(("value", "scale"), [(U4, b""), (U4, b"12"), (VALUE_TYPES["f32"], b"1")])
def test_a_scale_has_the_bits_that_its_type_says(value, scale):
    message = Message(np.ones(2, value.dtype), scale=scale)
    with pytest.raises(InputError, match=f"sends a scale of {value.scale_bits} bits, got"):
        CODECS["values"].encode(message, d=D, value=value)


def test_a_scale_before_whole_bytes_costs_its_bits():
    scaled = ValueType("scaled", 98, 32, np.dtype(np.float32), scale_bits=16)
    sent = CODECS["indexed"].encode(
        Message(np.float32([1, -2]), np.array([3, 7]), scale=b"ab"), d=D, value=scaled
    )
    got = CODECS["indexed"].decode(sent, d=D, q=2, value=scaled)
    assert (got.scale, got.index.tolist(), got.values.tolist()) == (b"ab", [3, 7], [1, -2])
    assert CODECS["indexed"].bits(D, 2, scaled).total == 8 * len(sent) == 16 + 16 + 64
