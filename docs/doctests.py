"""For mkdocstrings: examples of docstrings become code, and a NamedTuple says what its fields are."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^[ \t]*>>> .*(?:\n[ \t]*\S.*)*", re.M)


def fenced(text: str) -> str:
    """The docstring with each example in a block of its own."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{_flush(found.group())}\n```", text)


def _flush(text: str) -> str:
    lines = text.splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[indent:] for line in lines)


class Examples(griffe.Extension):
    """Changes docstrings as they are read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class(self, *, cls: Any, **_: Any) -> None:
        if cls.docstring and any(str(base).endswith("NamedTuple") for base in cls.bases):
            parts = [part for part in cls.members.values() if part.is_attribute and part.annotation]
            fields = [part.name for part in parts if "property" not in part.labels]
            if fields:
                cls.docstring.value += "\n\nFields: " + ", ".join(f"`{name}`" for name in fields) + "."
