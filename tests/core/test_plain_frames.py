"""Frames of values only, written and read in one step: the bytes of `frame`, and nothing else is read."""

import random

import numpy as np
import pytest

from mutants import mutate, with_checksum
from zocosmo.core import CODECS, VALUE_TYPES, Header, Message, frame, unframe
from zocosmo.core.frame import FrameBuffer, PlainFrames
from zocosmo.errors import InputError, MessageError

SESSION, D = bytes(range(32)), 9


class Xor:
    """A seal that can be read: every byte turned over, and a tag of the numbers."""

    def close(self, body, *, round, sequence, sender, head):  # noqa: A002
        return bytes(255 - each for each in body) + bytes([round % 251, sequence % 251, sender, head[0]])

    def open(self, data, *, round, sequence, sender, head):  # noqa: A002
        assert data[-4:] == bytes([round % 251, sequence % 251, sender, head[0]])
        return bytes(255 - each for each in data[:-4])


@pytest.mark.parametrize("seal", [None, Xor()], ids=["plain", "sealed"])
@pytest.mark.parametrize("name", VALUE_TYPES)
@pytest.mark.parametrize(("codec", "size"), [("values", 5), ("dense", D)])
def test_the_bytes_are_those_of_a_frame_and_come_back(codec, size, name, seal):
    value = VALUE_TYPES[name]
    values, plain = value.round(np.linspace(-3, 3, size)), PlainFrames(CODECS[codec], value, 7, size, SESSION)
    for t, sequence in ((0, 0), (3, 1), (2**64 - 1, 2**24 - 1)):
        header = Header(CODECS[codec], value, t, 7, size, sequence)
        data = b"".join(plain.write(values, t, sequence, seal))
        assert data == frame(header, Message(values), d=D, session=SESSION, seal=seal)
        back = plain.read(memoryview(data), t, sequence, seal)
        assert (back.dtype, back.tobytes()) == (values.dtype, values.tobytes())
        assert not back.flags.writeable
        for other in ((t - 1, sequence), (t, sequence - 1)):
            assert min(other) < 0 or plain.read(memoryview(data), *other, seal) is None


@pytest.mark.parametrize("seal", [None, Xor()], ids=["plain", "sealed"])
@pytest.mark.parametrize("name", VALUE_TYPES)
def test_frames_written_in_place_have_the_same_bytes_and_come_back(name, seal):
    """The buffer is used again and again: nothing of an earlier frame is left."""
    value, plain = VALUE_TYPES[name], PlainFrames(CODECS["values"], VALUE_TYPES[name], 7, 5, SESSION)
    memory = np.full(32 + plain.length + 4 * (seal is not None), 255, np.uint8)
    buffer = FrameBuffer(memory, value, 5)
    for t, sequence in ((0, 0), (3, 1), (2**64 - 1, 2**24 - 1)):
        values = value.round(np.linspace(-3, t % 7, 5))
        plain.fill(buffer, values[None], t, sequence, seal)
        assert memory.tobytes() == b"".join(plain.write(values, t, sequence, seal))
        back = plain.take(buffer, t, sequence, seal)
        assert (back.dtype, back.tobytes()) == (values.dtype, values.tobytes())
        assert plain.take(buffer, t, sequence ^ 1, seal) is None


def test_every_flipped_bit_of_a_frame_in_place_is_seen():
    value, plain = VALUE_TYPES["f32"], PlainFrames(CODECS["values"], VALUE_TYPES["f32"], 7, 5, SESSION)
    memory = np.zeros(52, np.uint8)
    buffer = FrameBuffer(memory, value, 5)
    plain.fill(buffer, np.arange(5, dtype=np.float32), 4, 0, None)
    for at in range(8 * len(memory)):
        memory[at // 8] ^= 1 << at % 8
        assert plain.take(buffer, 4, 0, None) is None
        memory[at // 8] ^= 1 << at % 8
    assert plain.take(buffer, 4, 0, None).tolist() == [0, 1, 2, 3, 4]


def test_values_of_another_type_are_not_written():
    plain, buffer = PlainFrames(CODECS["values"], VALUE_TYPES["f32"], 7, 5, SESSION), np.zeros(52, np.uint8)
    with pytest.raises(InputError, match="f32 messages carry float32 values, got float64"):
        plain.fill(FrameBuffer(buffer, VALUE_TYPES["f32"], 5), np.zeros(5), 4, 0, None)


def test_what_is_read_is_what_unframe_reads():
    """Mutants: None where `unframe` raises; otherwise the same values."""
    rng, value = random.Random(3), VALUE_TYPES["f32"]
    plain, header = (
        PlainFrames(CODECS["values"], value, 7, 5, SESSION),
        Header(CODECS["values"], value, 4, 7, 5),
    )
    data = frame(header, Message(np.arange(5, dtype=np.float32)), d=D, session=SESSION)
    read = 0
    for _ in range(3000):
        mutant = mutate(data, data, rng)
        mutant = with_checksum(mutant) if rng.random() < 0.6 else mutant
        found = plain.read(memoryview(mutant), 4, 0, None)
        try:
            expected = unframe(mutant, d=D, session=SESSION, expect=header)[1].values
        except MessageError:
            assert found is None
        else:
            read += 1
            assert found.tobytes() == expected.tobytes()
    assert read > 100


def test_only_values_in_whole_bytes_suit():
    suited = {name for name, codec in CODECS.items() if PlainFrames.suit(codec, VALUE_TYPES["f32"])}
    assert suited == {"values", "dense"}
