"""Keys of members: a secret key of 32 bytes in a file of its own, and lists of public keys that may join."""

from collections.abc import Callable
from pathlib import Path

from zocosmo.dist.seal import make_key, read_key
from zocosmo.errors import InputError
from zocosmo.net.sockets import public_of


def new_key(path: Path) -> str:
    """Make a key file that only its owner can read; gives the public key as 64 hex digits."""
    make_key(path)
    return public_key(path)


def public_key(path: Path) -> str:
    return public_of(read_key(path)).hex()


def read_seed(path: Path) -> str:
    """A secret seed: 64 hex digits, since a short one could be guessed from what is public of a job."""
    return read_key(path).hex()


def host_key(path: Path) -> bytes:
    """The secret key of a host, made when it first starts: its address has the public one in it."""
    if not path.exists():
        make_key(path)
    return read_key(path)


def read_allowed(path: Path) -> dict[bytes, str]:
    """Names by public key, from lines such as `64 hex digits  name`; # begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the list of keys {path} cannot be read: {error}; make it, or use --allow-any"
        ) from None
    found: dict[bytes, str] = {}
    for number, line in enumerate(lines, 1):
        key, _, name = line.partition("#")[0].strip().partition(" ")
        if not key:
            continue
        try:
            found[bytes.fromhex(key)] = name.strip() or key[:8]
        except ValueError:
            raise InputError(f"{path}:{number}: a line is a public key, 64 hex digits, and a name") from None
    return found


class AllowList:
    """Keys that may join, read again when their file changes."""

    def __init__(self, path: Path | None, say: Callable[[str], None]) -> None:
        self.path, self._say = path, say
        self._names: dict[bytes, str] = {}
        self._read_at = 0.0
        if path is not None:
            self._names, self._read_at = read_allowed(path), path.stat().st_mtime

    def name_of(self, key: bytes) -> str | None:
        """The name of a key; None if it may not join. Without a list anyone may."""
        if self.path is None:
            return key.hex()[:8]
        try:
            if (changed := self.path.stat().st_mtime) != self._read_at:
                self._names, self._read_at = read_allowed(self.path), changed
        except (OSError, InputError) as error:
            self._say(f"keeps the old list of keys: {error}")
        return self._names.get(key)
