"""Encoding and decoding messages of 8,192 float32 values.   make bench

values only, against coordinates as 32-bit integers at 2.5e6: at least 3 times faster (the paper: 3.22)
values only, against coordinates as 64-bit integers at 6.5e9: at least 4 times faster (the paper: 4.04)
"""

import numpy as np
from timing import race, report

from zocosmo.core import CODECS, VALUE_TYPES, Header, Message, Tape, draw_support, frame, unframe

Q, F32, SESSION = 8192, VALUE_TYPES["f32"], bytes(32)
VALUES = np.linspace(-1, 1, Q, dtype=np.float32)


def round_trip(name: str, d: int) -> object:
    codec = CODECS[name]
    index = draw_support(Tape(0), 0, d=d, q=Q).index if codec.field.carries == "index" else None
    message = Message(VALUES, index)
    return lambda: codec.decode(codec.encode(message, d=d, value=F32), d=d, q=Q, value=F32)


def framed() -> object:
    header, message = Header(CODECS["values"], F32, 0, 0, Q), Message(VALUES)
    return lambda: unframe(frame(header, message, d=Q, session=SESSION), d=Q, session=SESSION)


def main() -> None:
    for d, aim in ((2_523_136, "≥ 3×"), (6_525_621_760, "≥ 4×")):
        names = ("values", "plain", "indexed", "delta")
        took = race({name: round_trip(name, d) for name in names}, trials=101, repeat=10)
        for name in names[1:]:
            title = f"values, d = {d:,}: encode + decode against {name}"
            report(title, took["values"], took[name], aim if name == "plain" else "beside it")
    took = race({"bare": round_trip("values", 2_523_136), "framed": framed()}, trials=101, repeat=10)
    report("values: bare against framed, checksums and all", took["bare"], took["framed"], "beside it")


if __name__ == "__main__":
    main()
