"""Users' own parts by name: module:name from the current folder, or what installed packages offer.

A `Table` is a dictionary of built-in parts. A key with a colon is imported, and a key that is not built in is
looked up among the entry points of its group, which a package declares in its pyproject.toml:

    [project.entry-points."zocosmo.methods"]
    sign_step = "mine:SignStep"
"""

import importlib
import re
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zocosmo.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY = re.compile(r"[\w.]+:[\w.]+")
LONGEST = 200  # of a foreign message

Part = TypeVar("Part")


class Table(dict[str, Part]):
    """Parts by name; `check` refuses what is imported and cannot be such a part."""

    def __init__(self, parts: dict[str, Part], group: str, check: Callable[[str, Any], Part]) -> None:
        super().__init__(parts)
        self.group, self.check = group, check
        self._found: dict[str, Part] = {}  # not listed: built-in parts are what one chooses from

    def __missing__(self, name: str) -> Part:
        if name not in self._found:
            self._found[name] = self.check(name, self._load(name))
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        return isinstance(name, str) and (ENTRY.fullmatch(name) is not None or self._entry(name) is not None)

    def installed(self) -> dict[str, str]:
        """Names that installed packages offer, each with its package; without those of built-in parts."""
        from importlib.metadata import entry_points  # takes a while to import

        found = entry_points(group=self.group)
        return {each.name: _package(each) for each in found if each.name not in self.keys()}

    def offered(self) -> list[str]:
        """All names that can be chosen: built-in ones, then those of installed packages."""
        return [*self, *self.installed()]

    def _load(self, name: str) -> Any:
        if ENTRY.fullmatch(name):
            return find(name)
        entry = self._entry(name)
        if entry is None:
            raise KeyError(name)
        try:
            return entry.load()
        except Exception as error:
            package = _package(entry)
            why = f"{type(error).__name__}: {_line(str(error))}"
            text = f"{name} of {package} cannot be loaded ({why})"
            raise InputError(f"{text}; update or uninstall {package}") from error

    def _entry(self, name: str) -> "EntryPoint | None":
        from importlib.metadata import entry_points  # takes a while to import

        return next(iter(entry_points(group=self.group, name=name)), None)


def find(entry: str) -> Any:
    """The object that module:name refers to; the current folder comes first, as for `python -m`."""
    if not ENTRY.fullmatch(entry):
        raise InputError(f"entry must be module:name, such as rig:loss; got {entry!r:.80}")
    module, name = entry.split(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            lost = f"no module {error.name!r} in this folder or installed; run in the folder that has it"
            raise InputError(lost) from None
        said = f"{type(error).__name__}: {_line(str(error))}"
        raise InputError(f"importing {module!r} raised {said}; correct the module") from error
    try:
        return reduce(getattr, name.split("."), found)
    except AttributeError:
        raise InputError(f"module {module!r} has no {name!r}; use a name that it defines") from None


def _package(entry: "EntryPoint") -> str:
    return entry.dist.name if entry.dist else "an unknown package"


def entry_of(part: type) -> str:
    """module:name of a class."""
    return f"{part.__module__}:{part.__qualname__}"


def _line(text: str) -> str:
    """Text on one line, shortened if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
