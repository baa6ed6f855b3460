"""Bytes that must never change: what the tape draws and what crosses a link, at version 1.

To add lines after a new draw or codec: python tests/test_golden.py. A changed line is a new protocol version.
"""

import hashlib
from pathlib import Path

import numpy as np

from examples import MANIFEST
from mutants import SESSION, honest_frames
from zocosmo.core import CODECS, VALUE_TYPES, Tape, balanced_support, draw_signs, draw_support
from zocosmo.core.fields import Message
from zocosmo.core.frame import Header, frame
from zocosmo.core.grid import GRID
from zocosmo.core.noise import Noise
from zocosmo.core.residues import RESIDUES
from zocosmo.core.signs import SIGNS, draw_sign_vectors
from zocosmo.core.support import MAX_D
from zocosmo.core.wire import Envelope
from zocosmo.graphs import SCHEDULES, complete, erdos_renyi, grid, ring

GOLDEN = Path(__file__).parent / "golden"


def digest(array):
    return hashlib.blake2b(np.ascontiguousarray(array, "<i8").tobytes(), digest_size=16).hexdigest()


def tape_lines():
    """Digests of many draws at once, over sizes that take every path."""
    t = np.arange(200)
    for d, q in [
        (1, 1),
        (20, 1),
        (32, 4),
        (33, 17),
        (64, 64),
        (1024, 5),
        (1025, 5),
        (10**6, 300),
        (6525621760, 8192),
        (2**63, 3),
    ]:
        rounds = t[:3] if q > 1000 else t
        yield f"support {d} {q} {digest(draw_support(Tape('golden'), rounds, d=d, q=q).index)}"
        blocks = rounds[: -(-d // q) - 1] if d > q else rounds
        yield f"balanced {d} {q} {digest(balanced_support(Tape('golden'), blocks, 5, 9, d=d, q=q).index)}"
    yield f"signs 100 {digest(draw_signs(Tape('golden'), t, 1, 2, q=100))}"
    for signs in SIGNS:
        vectors = draw_sign_vectors(Tape("golden"), t, 1, 2, q=12, directions=7, signs=signs)
        yield f"sign vectors 12 7 {signs} {digest(vectors)}"
    graphs = {
        "complete": complete(9),
        "maximal": erdos_renyi(11, 0.4, seed="golden"),
        "round_robin": grid(12),
    }
    for name, schedule in SCHEDULES.items():
        yield f"matching {name} {digest(schedule(graphs.get(name, ring(10))).partners(Tape('golden'), t))}"


def frame_lines():
    names = [f"{codec} {value}" for codec in CODECS for value in VALUE_TYPES]
    yield from (f"frame {name} {data.hex()}" for name, data in zip(names, honest_frames(), strict=True))
    for value in RESIDUES.values():
        k = (np.arange(5) * 40503 % 2**value.bits).astype(value.dtype)
        data = frame(Header(CODECS["values"], value, 3, 1, 5), Message(k), d=MAX_D, session=SESSION)
        yield f"frame values {value.name} {data.hex()}"
    about = Envelope(3, np.array([1]), 4, None, Noise(Tape("golden"), 4))
    for name, wire in GRID.items():
        letters = wire.encode(np.array([[1.3, -0.7, 0.01, 0.0, 5.5]]), about)
        message = Message(letters.values[0], scale=wire.pack_scale(letters.scale[0]))
        data = frame(Header(CODECS["values"], wire.charged, 3, 1, 5), message, d=MAX_D, session=SESSION)
        yield f"frame values {name} {data.hex()}"
    yield f"manifest {MANIFEST.fingerprint().hex()} {MANIFEST.to_bytes().decode()}"


def test_what_the_tape_draws_has_not_changed():
    assert list(tape_lines()) == (GOLDEN / "tape.txt").read_text(encoding="utf-8").splitlines()


def test_what_crosses_a_link_has_not_changed():
    assert list(frame_lines()) == (GOLDEN / "frames.txt").read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    for name, lines in (("tape.txt", tape_lines()), ("frames.txt", frame_lines())):
        (GOLDEN / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
