"""Config files: YAML in which every mistake has a line."""

import copy
import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, ValidationError, create_model

from zocosmo.errors import ConfigError, InputError

Where = tuple[str | int, ...]  # keys and positions that lead to an entry


class Config:
    """A YAML file as plain data, and the line of each of its entries."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.lines: dict[Where, int] = {}
        self.overrides: dict[Where, str] = {}
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data = self._read(node, ()) if node is not None else None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            raise ConfigError(
                f"{name}:{line}: not YAML: {getattr(error, 'problem', None) or error}"
            ) from None
        except RecursionError:
            raise ConfigError(f"{name}:1: lists in lists without end") from None

    @classmethod
    def load(cls, path: Path) -> "Config":
        try:
            return cls(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            raise ConfigError(f"{path}: there is no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from None

    def fail(self, where: Where, message: str) -> ConfigError:
        """An error at an entry, or at the nearest that has a line."""
        while where and where not in self.lines:
            where = where[:-1]
        inside = (where[:k] for k in range(len(where), 0, -1))
        if (
            said := next((self.overrides[each] for each in inside if each in self.overrides), None)
        ) is not None:
            return ConfigError(f"--set {said}: {message}")
        return ConfigError(f"{self.name}:{self.lines.get(where, 1)}: {message}")

    def override(self, text: str) -> None:
        """Put a value in the place of an entry, or beside the others: problem.batch=8, methods.0.eta=1e-3.

        Keys are separated by dots, entries of lists counted from 0, and `*` is all of them.
        """
        path, sign, value = text.partition("=")
        keys = path.strip().split(".")
        if not sign or not all(keys):
            raise ConfigError(
                f"--set {text}: expected KEY=VALUE with dots in the key, such as problem.batch=8"
            )
        entry = Config(value, f"--set {text}").data
        self._place(self.data, keys, (), entry, text)

    def _place(self, inside: Any, keys: Sequence[str], where: Where, entry: Any, text: str) -> None:
        key, rest = keys[0], keys[1:]
        chosen: Sequence[str | int] = [key]
        if isinstance(inside, list):
            every = range(len(inside))
            chosen = every if key == "*" else [k for k in every if str(k) == key]
            if not chosen:
                known = f"0 to {len(inside) - 1}, or *" if inside else "empty"
                raise ConfigError(f"--set {text}: {place(where)} has no entry {key!r}; it is {known}")
        elif not isinstance(inside, dict):
            raise ConfigError(f"--set {text}: {place(where)} is no mapping, so it has no {key!r}")
        for each in chosen:
            here = (*where, each)
            if rest:
                if isinstance(inside, dict) and key not in inside:
                    inside[key], self.lines[here], self.overrides[here] = {}, 0, text
                self._place(inside[each], rest, here, entry, text)
            else:
                inside[each] = copy.deepcopy(entry)
                self.lines = {at: line for at, line in self.lines.items() if at[: len(here)] != here}
                self.lines[here], self.overrides[here] = 0, text

    def _read(self, node: yaml.Node, where: Where) -> Any:
        self.lines[where] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            out: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = str(key_node.value)
                if key in out:
                    self.lines[(*where, key)] = key_node.start_mark.line + 1
                    raise self.fail((*where, key), f"key {key!r} stands here twice")
                out[key] = self._read(value_node, (*where, key))
                self.lines[(*where, key)] = key_node.start_mark.line + 1
            return out
        if isinstance(node, yaml.SequenceNode):
            return [self._read(child, (*where, k)) for k, child in enumerate(node.value)]
        return self._scalar(node, where)

    def _scalar(self, node: yaml.Node, where: Where) -> Any:
        """A number, text or null, as written; YAML's surprises are refused."""
        try:
            value = yaml.SafeLoader("").construct_object(node)
            str(value).encode()  # lone surrogates have no bytes
        except (yaml.YAMLError, ValueError):
            raise self.fail(
                where, f"{place(where)}: {node.value!r} cannot be read; put text in quotes"
            ) from None
        if isinstance(value, int | float) and (isinstance(value, bool) or ":" in node.value):
            raise self.fail(
                where, f"{place(where)}: YAML reads {node.value} as {value}; write a plain number"
            )
        if value is None or isinstance(value, int | float | str):
            return value
        raise self.fail(
            where, f"{place(where)}: YAML reads {node.value} as a {type(value).__name__}; quote it"
        )


def check_keys(config: Config, where: Where, given: Any, known: Iterable[str]) -> dict[str, Any]:
    """`given` if it is a mapping with known keys only."""
    if not isinstance(given, dict):
        raise config.fail(where, f"{place(where)} must be a mapping, got {given!r}")
    names = list(known)
    for key in given:
        if key not in names:
            close = difflib.get_close_matches(key, names, 1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            known = ", ".join(names)
            raise config.fail((*where, key), f"unknown key {key!r} in {place(where)}{hint} (known: {known})")
    return given


def check_fields(
    config: Config, where: Where, given: Mapping[str, Any], fields: Mapping[str, tuple[Any, Any]]
) -> dict[str, Any]:
    """The given values in the types of `fields` (name → type and default; ... where there is none)."""
    model = create_model(
        "Entry", __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields
    )  # type: ignore[call-overload]
    try:
        checked = dict(model(**given))
    except ValidationError as error:
        first = error.errors()[0]
        inside = (*where, *first["loc"])
        if first["type"] == "missing":
            raise config.fail(where, f"{place(where)} lacks {first['loc'][-1]!r}") from None
        raise config.fail(
            inside, f"{place(inside)}: {first['msg'].lower()}, got {first['input']!r}"
        ) from None
    for key, value in checked.items():
        if isinstance(value, float) and not math.isfinite(value) and key != "diverged_above":
            raise config.fail((*where, key), f"{place((*where, key))} must be a finite number, got {value}")
    return checked


def choices(config: Config, where: Where, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One mapping for each choice from the lists in `given`, in the order they are written."""
    for key, value in given.items():
        if value == []:
            raise config.fail((*where, key), f"{place((*where, key))} is an empty list; give it a value")
    columns = [value if isinstance(value, list) else [value] for value in given.values()]
    for picked in product(*columns):
        yield dict(zip(given, picked, strict=True))


def at(config: Config, where: Where, call: Any, *args: Any, **options: Any) -> Any:
    """Call, and give an InputError the line it comes from."""
    try:
        return call(*args, **options)
    except ConfigError:
        raise
    except (InputError, OverflowError, MemoryError) as error:
        raise config.fail(where, str(error) or "not enough memory for that") from None


def place(where: Where) -> str:
    """methods[0].eta"""
    out = ""
    for part in where:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out or "the file"
