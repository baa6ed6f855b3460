import pickle

import numpy as np
import pytest

from mutants import SESSION, D, fuzz, honest_frames, with_checksum
from zocosmo.core import CODECS, FRAME_BITS, VALUE_TYPES, Header, Message, frame, unframe
from zocosmo.errors import (
    CorruptMessage,
    ForeignMessage,
    InputError,
    MessageError,
    SealBroken,
    TruncatedMessage,
)

HEADER = Header(CODECS["values"], VALUE_TYPES["f32"], 12, 3, 3)
VALUES = np.array([1.5, -2.0, 0.25], np.float32)
FRAME = frame(HEADER, Message(VALUES), d=10, session=SESSION)


def open_frame(data, **options):
    return unframe(data, **{"d": 10, "session": SESSION, **options})


def edited(at, byte):
    """The frame with one byte changed and the checksum made right again."""
    return with_checksum(FRAME[:at] + bytes([byte]) + FRAME[at + 1 :])


def test_a_frame_brings_header_and_values():
    header, message = open_frame(FRAME)
    assert header == HEADER
    assert message.values.tobytes() == VALUES.tobytes()


def test_framing_costs_32_bytes():
    assert 8 * len(FRAME) == CODECS["values"].bits(10, 3).plus(FRAME_BITS).total == 8 * (32 + 12)


def test_every_honest_frame_is_accepted():
    for data in honest_frames():
        header, message = unframe(data, d=D, session=SESSION)
        assert frame(header, message, d=D, session=SESSION) == data


def test_every_single_flipped_bit_is_noticed():
    for at in range(8 * len(FRAME)):
        damaged = bytearray(FRAME)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(MessageError):
            open_frame(bytes(damaged))


def test_every_cut_is_noticed():
    for size in range(len(FRAME)):
        with pytest.raises(MessageError):
            open_frame(FRAME[:size])


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (FRAME[:31], TruncatedMessage, "header of 32 bytes"),
        (edited(0, 3), ForeignMessage, "version 3"),
        (FRAME[:40] + b"\xff" + FRAME[41:], CorruptMessage, "checksum"),
        (edited(24, 99), ForeignMessage, "session 63010203"),
        (edited(1, 77), CorruptMessage, "codec 77"),
        (edited(2, 9), CorruptMessage, "value type 9"),
        (edited(3, 2), CorruptMessage, "seal flag 2"),
        (edited(3, 1), SealBroken, "is sealed; give all nodes the same key file"),
        (edited(16, 0), CorruptMessage, "cannot hold 0 values"),
        (edited(16, 11), CorruptMessage, "cannot hold 11 values"),
        (edited(20, 1), CorruptMessage, "cannot hold"),
        (edited(16, 4), TruncatedMessage, "takes 16 bytes, got 12"),
        (edited(1, 5), CorruptMessage, "'dense' frame in d = 10 cannot hold 3"),
        (edited(1, 6), CorruptMessage, "'seed_scalar' frame in d = 10 cannot hold 3"),
    ],
)
def test_what_is_wrong_is_named(data, error, words):
    with pytest.raises(error, match=words):
        open_frame(data)


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        (HEADER._replace(round=13), "from node 3 has round 12, expected 13"),
        (HEADER._replace(sender=4), "has sender 3, expected 4"),
        (HEADER._replace(codec=CODECS["dense"]), "has codec values, expected dense"),
        (HEADER._replace(value=VALUE_TYPES["f16"]), "has value f32, expected f16"),
        (HEADER._replace(size=4), "has size 3, expected 4"),
        (HEADER._replace(sequence=1), "has sequence 0, expected 1"),
    ],
)
def test_a_frame_other_than_the_one_expected_is_refused(expect, words):
    with pytest.raises(ForeignMessage, match=words):
        open_frame(FRAME, expect=expect)


def test_20000_mutants_raise_only_our_errors():
    """The same mutants, a million of them, are `make bench`."""
    fared = fuzz(20_000)
    assert fared.keys() == {"TruncatedMessage", "CorruptMessage", "ForeignMessage", "SealBroken", "accepted"}


@pytest.mark.parametrize(
    "header",
    [
        HEADER._replace(round=-1),
        HEADER._replace(round=1.0),
        HEADER._replace(sender=2**32),
        HEADER._replace(sender=-1),
        HEADER._replace(sequence=2**24),
        HEADER._replace(size=4),
    ],
)
def test_what_a_header_cannot_say_is_refused(header):
    with pytest.raises(InputError, match=r"must be|announces"):
        frame(header, Message(VALUES), d=10, session=SESSION)


@pytest.mark.parametrize("session", [b"", b"four", bytes(33)])
def test_a_session_is_a_whole_fingerprint(session):
    with pytest.raises(InputError, match="32 bytes"):
        frame(HEADER, Message(VALUES), d=10, session=session)
    with pytest.raises(InputError, match="32 bytes"):
        open_frame(FRAME, session=session)


@pytest.mark.parametrize("value", VALUE_TYPES)
def test_values_do_not_change_with_the_buffer_they_came_in(value):
    """A receiver reuses its buffer; what was checked must stay as it was checked."""
    header = HEADER._replace(value=VALUE_TYPES[value])
    buffer = bytearray(frame(header, Message(VALUE_TYPES[value].round(VALUES)), d=10, session=SESSION))
    _, message = open_frame(buffer)
    buffer[:] = bytes(len(buffer))
    assert message.values.tolist() == [1.5, -2.0, 0.25]
    assert not message.values.flags.writeable


def test_a_header_that_was_pickled_is_still_expected():
    """Worker processes are given headers that way; codecs compare by what they are."""
    assert open_frame(FRAME, expect=pickle.loads(pickle.dumps(HEADER)))[0] == HEADER
