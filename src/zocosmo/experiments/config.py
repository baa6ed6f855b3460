"""Config files: YAML, with the line of every entry for error messages."""

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
from zocosmo.experiments.starters import hint

Where = tuple[str | int, ...]  # keys and positions that lead to an entry


class Config:
    """A YAML file as plain data, with the line of each entry and the `--set` that changed it."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.lines: dict[Where, int] = {}
        self.overrides: dict[Where, str] = {}
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data = self._read(node, ()) if node is not None else None
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise ConfigError(f"not YAML: {error.problem or error}", source=name, line=line) from None
        except yaml.YAMLError as error:
            raise ConfigError(f"not YAML: {error}", source=name, line=1) from None
        except RecursionError:
            raise ConfigError("lists are nested too deeply", source=name, line=1) from None

    @classmethod
    def load(cls, path: Path) -> "Config":
        try:
            return cls(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            raise ConfigError(f"there is no such file{hint(path)}", source=str(path)) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot be read: {error}", source=str(path)) from None

    def fail(self, key: Where, reason: str, *, missing: str = "") -> ConfigError:
        """An error at an entry, with the line of the nearest entry that has one, or the `--set` behind it."""
        known = key
        while known and known not in self.lines:
            known = known[:-1]
        for k in range(len(known), 0, -1):
            if (text := self.overrides.get(known[:k])) is not None:
                return ConfigError(reason, source=f"--set {text}", key=key, missing=missing)
        return ConfigError(reason, source=self.name, line=self.lines.get(known, 1), key=key, missing=missing)

    def override(self, text: str) -> None:
        """Replace or add an entry: problem.batch=8, methods.0.eta=1e-3.

        Keys are separated by dots; list entries are counted from 0, and `*` selects all of them.
        """
        path, sign, value = text.partition("=")
        keys = path.strip().split(".")
        if not sign or not all(keys):
            reason = "expected KEY=VALUE with dots in the key, such as problem.batch=8"
            raise ConfigError(reason, source=f"--set {text}")
        entry = Config(value, f"--set {text}").data
        self._place(self.data, keys, (), entry, text)

    def _place(self, inside: Any, keys: Sequence[str], where: Where, entry: Any, text: str) -> None:
        key, rest, source = keys[0], keys[1:], f"--set {text}"
        chosen: Sequence[str | int] = [key]
        if isinstance(inside, list):
            every = range(len(inside))
            chosen = every if key == "*" else [k for k in every if str(k) == key]
            if not chosen:
                known = f"0 to {len(inside) - 1}, or *" if inside else "empty"
                raise ConfigError(f"{place(where)} has no entry {key!r}; it is {known}", source=source)
        elif not isinstance(inside, dict):
            raise ConfigError(f"{place(where)} is not a mapping, so it has no {key!r}", source=source)
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
                    raise self.fail((*where, key), f"key {key!r} appears twice")
                out[key] = self._read(value_node, (*where, key))
                self.lines[(*where, key)] = key_node.start_mark.line + 1
            return out
        if isinstance(node, yaml.SequenceNode):
            return [self._read(child, (*where, k)) for k, child in enumerate(node.value)]
        return self._scalar(node, where)

    def _scalar(self, node: yaml.Node, where: Where) -> Any:
        """A number, text or null; booleans, times and dates of YAML 1.1 are refused."""
        try:
            value = yaml.SafeLoader("").construct_object(node)
            str(value).encode()  # lone surrogates have no bytes
        except (yaml.YAMLError, ValueError):
            wrong = f"{node.value!r} cannot be read; put text in quotes"
        else:
            is_number = isinstance(value, int | float)
            if is_number and (isinstance(value, bool) or ":" in node.value):
                wrong = f"YAML reads {node.value} as {value}; write a plain number"
            elif is_number or value is None or isinstance(value, str):
                return value
            else:
                wrong = f"YAML reads {node.value} as a {type(value).__name__}; quote it"
        raise self.fail(where, f"{place(where)}: {wrong}")


def check_keys(config: Config, where: Where, given: Any, known: Iterable[str]) -> dict[str, Any]:
    """Return `given` if it is a mapping with known keys only."""
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
    """Convert the values to the types of `fields` (name → type and default; ... where it is required)."""
    model = create_model(
        "Entry", __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields
    )  # type: ignore[call-overload]
    try:
        checked = dict(model(**given))
    except ValidationError as error:
        first = error.errors()[0]
        inside = (*where, *first["loc"])
        if first["type"] == "missing":
            name = str(first["loc"][-1])
            raise config.fail(where, f"{place(where)} lacks {name!r}", missing=name) from None
        found = f"{first['msg'].lower()}, got {first['input']!r}"
        raise config.fail(inside, f"{place(inside)}: {found}") from None
    for key, value in checked.items():
        if isinstance(value, float) and not math.isfinite(value) and key != "diverged_above":
            raise config.fail((*where, key), f"{place((*where, key))} must be a finite number, got {value}")
    return checked


def own_parts(config: Config) -> Any:
    """The config, in which users' own methods, wires and graphs have module:name for their kind.

    {kind: python, entry: "mine:SignStep"} is what one writes, as for problems.
    """
    data = config.data
    if not isinstance(data, dict):
        return data
    for key in ("methods", "graphs"):
        entries = data.get(key)
        by_name = dict(enumerate(entries)) if isinstance(entries, list) else entries
        for place_in, entry in by_name.items() if isinstance(by_name, dict) else ():
            _own(config, (key, place_in), entry)
            if key == "methods" and isinstance(entry, dict) and "wire" in entry:
                entry["wire"] = _named(config, (key, place_in, "wire"), entry["wire"])
    _own(config, ("graph",), data.get("graph"))  # of a comparison
    if "wire" in data:
        data["wire"] = _named(config, ("wire",), data["wire"])
    return data


def _own(config: Config, where: Where, entry: Any) -> None:
    """Replace kind and entry of a user's own part, in place."""
    if not isinstance(entry, dict) or entry.get("kind") != "python":
        return
    if not isinstance(entry.get("entry"), str):
        raise config.fail(where, f"{place(where)} lacks 'entry', such as entry: mine:SignStep")
    entry["kind"] = entry.pop("entry")
    if ":" not in entry["kind"]:
        raise config.fail(
            (*where, "entry"), f"{place(where)}: entry must be module:name, got {entry['kind']!r}"
        )


def _named(config: Config, where: Where, given: Any) -> Any:
    """The name of a wire that is written as a mapping."""
    if not isinstance(given, dict):
        return given
    _own(config, where, given)
    if set(given) != {"kind"}:
        raise config.fail(
            where, f"{place(where)} of your own is {{kind: python, entry: mine:Wire}}, got {given!r}"
        )
    return given["kind"]


def choices(config: Config, where: Where, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One mapping for each combination of the lists in `given`, in the order they are written."""
    for key, value in given.items():
        if value == []:
            raise config.fail((*where, key), f"{place((*where, key))} is an empty list; give it a value")
    columns = [value if isinstance(value, list) else [value] for value in given.values()]
    for picked in product(*columns):
        yield dict(zip(given, picked, strict=True))


def at(config: Config, where: Where, call: Any, *args: Any, **options: Any) -> Any:
    """Call, and turn an InputError into a ConfigError with the line of the entry."""
    try:
        return call(*args, **options)
    except ConfigError:
        raise
    except (InputError, OverflowError, MemoryError) as error:
        raise config.fail(where, str(error) or "not enough memory for that") from None


def load_schedule(path: Path) -> dict[str, Any]:
    """Matchings and weights from a file that `zocosmo schedule --out` wrote."""
    found = Config.load(path).data
    graphs = found.get("graphs") if isinstance(found, dict) else None
    entry = graphs[0] if isinstance(graphs, list) and graphs else found
    listed = entry.get("schedule") if isinstance(entry, dict) else None
    if not isinstance(listed, dict):
        raise InputError(f"{path} has no matchings; zocosmo schedule --out {path} writes them")
    return listed


def place(where: Where) -> str:
    """methods[0].eta"""
    out = ""
    for part in where:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out or "the file"
