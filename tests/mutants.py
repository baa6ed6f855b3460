"""Frames that no honest peer sent: damaged, cut, spliced, forged with a right checksum, or plain noise."""

import random
from collections import Counter

import numpy as np
from google_crc32c import value as crc32c

from zocosmo.core import CODECS, VALUE_TYPES, Header, Message, Tape, draw_support, frame, unframe
from zocosmo.errors import MessageError

D, SESSION = 37, bytes(range(32))


def honest_frames():
    """One frame for each codec and value type."""
    frames = []
    for codec in CODECS.values():
        for value in VALUE_TYPES.values():
            q = {"dense": D, "seed_scalar": 1}.get(codec.name, 5)
            index = draw_support(Tape(1), 0, d=D, q=q).index if codec.field.carries == "index" else None
            message = Message(
                value.round(np.linspace(-1, 1, q)), index, 9 if codec.field.carries == "seed" else None
            )
            frames.append(frame(Header(codec, value, 3, 1, q), message, d=D, session=SESSION))
    return frames


def with_checksum(data):
    """The same frame with the checksum that its bytes deserve: what a forger, not a bad wire, would send."""
    if len(data) < 32:
        return data
    return data[:28] + crc32c(data[:28] + data[32:]).to_bytes(4, "little") + data[32:]


def mutate(data, other, rng):
    kind = rng.randrange(7)
    if kind == 0:  # a flipped bit
        at = rng.randrange(8 * len(data))
        return data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]
    if kind == 1:  # cut short
        return data[: rng.randrange(len(data))]
    if kind == 2:  # too long
        return data + rng.randbytes(rng.randint(1, 40))
    if kind == 3:  # noise, sometimes behind a right start
        return data[: rng.choice([0, 1, 4, 24])] + rng.randbytes(rng.randrange(200))
    if kind == 4:  # two frames spliced
        return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]
    changed = bytearray(data)  # a few bytes overwritten; half of the time in the header
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(min(32, len(data)) if kind == 5 else len(data))] = rng.choice(
            [0, 1, 2, 3, 4, 5, 6, 7, 37, 255, rng.randrange(256)]
        )
    return bytes(changed)


def fuzz(count, seed=0):
    """How `count` mutants fared, by name of error; anything but a MessageError escapes.

    A mutant that is accepted must be a frame in its own right: framing what it decoded to gives its bytes.
    """
    rng, frames, fared = random.Random(seed), honest_frames(), Counter()
    for _ in range(count):
        data = mutate(rng.choice(frames), rng.choice(frames), rng)
        if rng.random() < 0.6:
            data = with_checksum(data)
        try:
            header, message = unframe(data, d=D, session=SESSION)
        except MessageError as error:
            fared[type(error).__name__] += 1
        else:
            if frame(header, message, d=D, session=SESSION) != data:
                raise AssertionError(f"accepted, but not what was sent: {data.hex()}")
            fared["accepted"] += 1
    return fared
