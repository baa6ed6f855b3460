"""Configs to start from: in an installed package beside the code, in a clone in its folder configs."""

from collections import Counter
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from zocosmo.errors import InputError, closest

FIRST = "first"  # what `zocosmo example` prints
HERE = Path(__file__).parent


class Starter(NamedTuple):
    """A config that comes with the package."""

    name: str  # its path in the folder, without .yaml
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """The first sentence of its comment, without labels of the paper."""
        lines = takewhile(lambda line: line.startswith("#") and "zocosmo " not in line[:10], self._lines())
        whole = " ".join(line.removeprefix("#").split("   [")[0].strip() for line in lines)
        return whole.split(". ")[0].strip(" .:")

    @property
    def verb(self) -> str:
        """The command that takes it: the one that its first comments show."""
        for line in self._lines():
            words = line.removeprefix("#").split("zocosmo ")
            for word in (part.split(" ")[0] for part in words[1:]):
                if word in ("run", "compare", "check", "launch", "audit"):
                    return word
        return "run"

    def _lines(self) -> list[str]:
        return self.text.splitlines()


def configs_folder() -> Path:
    """The folder of all configs: copied beside the code when a wheel is built, at the top of a clone."""
    packaged = HERE.parent / "configs"
    return packaged if packaged.is_dir() else HERE.parents[2] / "configs"


@cache
def starters() -> dict[str, Starter]:
    """All of them by name: the first, studies, then those of language models by folder."""
    folder = configs_folder()
    paths = sorted(folder.glob("*.yaml")) + sorted(folder.glob("*/*.yaml"))
    named = {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}
    every = {FIRST: HERE / "example.yaml", **named}
    return {name: Starter(name, path) for name, path in every.items()}


def starter(name: str) -> Starter:
    """One of them by its name; field.yaml and configs/field.yaml are field."""
    name = name.removeprefix("configs/").removesuffix(".yaml")
    if name not in starters():
        why = f"there is no example {name!r}; zocosmo example --list lists them{closest(name, starters())}"
        raise InputError(why)
    return starters()[name]


def in_folder(name: str) -> list[Starter]:
    """Those of a folder: model or small-models, or the top one for an empty name."""
    return [each for each in starters().values() if each.name.rpartition("/")[0] == name]


def folders() -> dict[str, int]:
    """Folders below the top one, and how many each has."""
    return dict(Counter(name.rpartition("/")[0] for name in starters() if "/" in name))


def hint(path: Path) -> str:
    """For a file that does not exist: the command that writes it, where there is a config of its name."""
    name = path.as_posix().removeprefix("configs/").removesuffix(".yaml")
    if name not in starters():
        return ""
    return f"; write it with: zocosmo example {name} > {Path(name).name}.yaml"
