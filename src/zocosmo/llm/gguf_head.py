"""The header of a GGUF file, walked once before a library reads it: every count must fit in the file.

A library would loop over entries that are not there, 2^60 of them if the file says so. Here each entry
takes at least a byte of the file, so the walk ends at its end.
"""

import mmap
import struct
from pathlib import Path

MAGIC = b"GGUF"
STRING, ARRAY = 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value, by type
MOST_DIMENSIONS = 8
DEEPEST = 4  # arrays of arrays


def check_counts(path: Path) -> None:
    """A ValueError unless keys, values and descriptions of tensors end within the file."""
    with path.open("rb") as file:
        if not file.read(1):
            raise ValueError("the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            walk = _Walk(data)
            try:
                walk.header()
            except struct.error:
                raise ValueError(f"a count leads beyond the end, from byte {walk.at}") from None


class _Walk:
    """A place in the bytes of a header, which only moves forward."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at, self.order = data, 4, "<"
        if data[:4] != MAGIC:
            raise ValueError(f"it starts with {data[:4]!r}, not with {MAGIC!r}")

    def number(self, kind: str) -> int:
        layout = struct.Struct(self.order + kind)
        (found,) = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return int(found)

    def skip(self, size: int) -> None:
        if size > len(self.data) - self.at:
            raise ValueError(f"{size} bytes from byte {self.at} lead beyond the end")
        self.at += size

    def header(self) -> None:
        if self.number("I") & 0xFFFF == 0:
            self.order = ">"
        tensors, entries = self.number("Q"), self.number("Q")
        for _ in range(entries):
            self.text()
            self.values(self.number("I"), 1, 0)
        for _ in range(tensors):
            self.text()
            dimensions = self.number("I")
            if dimensions > MOST_DIMENSIONS:
                raise ValueError(f"a tensor of {dimensions} dimensions; {MOST_DIMENSIONS} is the most")
            self.skip(8 * dimensions + 12)  # sizes, then type and place

    def text(self) -> None:
        self.skip(self.number("Q"))

    def values(self, kind: int, count: int, depth: int) -> None:
        """Some values of one type."""
        if kind in SIZES:
            self.skip(count * SIZES[kind])
        elif kind not in (STRING, ARRAY) or depth > DEEPEST:
            raise ValueError(f"a value of type {kind} before byte {self.at}, {depth} arrays deep")
        else:
            for _ in range(count):
                if kind == STRING:
                    self.text()
                else:
                    self.values(self.number("I"), self.number("Q"), depth + 1)
