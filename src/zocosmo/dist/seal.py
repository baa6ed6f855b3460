"""Seals: only holders of a pre-shared key can read, change or send messages.

    key of a link   BLAKE2b-256(key = pre-shared key, person = "zo-cosmo seal v1",
                    session ‖ sender u32 ‖ receiver u32 ‖ salt of the sender ‖ salt of the receiver)
    nonce           round u40 ‖ sequence u24 ‖ node that sends the message u32
    sealed          ChaCha20-Poly1305(body; the head as associated data) ‖ tag of 16 bytes

    key of a blob   BLAKE2b-256(key = pre-shared key, person = "zo-cosmo blob v1", label ‖ salt)
    sealed blob     salt ‖ ChaCha20-Poly1305(data, nonce 0) ‖ tag of 16 bytes

All integers are little-endian; a session and a salt have 32 bytes.
"""

import hashlib
import os
import re
import secrets
import shlex
import stat
import struct
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from zocosmo.core.payload import Bits
from zocosmo.errors import InputError, SealBroken, check_whole

SEAL_BITS = Bits(framing=128)
SALT_BYTES = 32

_KEY_BYTES = 32
_PERSON_LINK = b"zo-cosmo seal v1"
_PERSON_BLOB = b"zo-cosmo blob v1"
_ENDS = struct.Struct("<II")
_NONCE = struct.Struct("<QI")
_HEX = re.compile(rb"[0-9a-fA-F]{64}(\r?\n)?")
_MAKE = "python -c \"from zocosmo.dist.seal import make_key; make_key('key')\""

Bytes = bytes | bytearray | memoryview  # contiguous, one byte per item


class Seal:
    """One direction of one link, under a key for one start of the two processes.

    Both ends contribute 32 random bytes, their salts, to the key of the link. Salts are sent in plain text:
    they must be new at every start but need not be secret. So each start has its own keys, even if a session
    is rerun with the same seed: no nonce is reused with a key, and recorded messages cannot be replayed.
    Within a start the caller must not close or open the same (round, sequence, sender) twice.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)

    @classmethod
    def pair(
        cls, key: bytes, session: bytes, mine: int, theirs: int, my_salt: bytes, their_salt: bytes
    ) -> tuple[Self, Self]:
        """The seals of the link to the peer and of the link from it."""
        if mine == theirs:
            raise InputError(f"both ends of the link are {mine}; a seal needs two different ends")
        outgoing = link_key(key, session, ends=(mine, theirs), salts=(my_salt, their_salt))
        incoming = link_key(key, session, ends=(theirs, mine), salts=(their_salt, my_salt))
        return cls(outgoing), cls(incoming)

    def close(self, body: Bytes, *, round: int, sequence: int, sender: int, head: Bytes) -> bytes:  # noqa: A002
        """The encrypted body and a tag of 16 bytes that also authenticates head and numbers."""
        return _encrypt(self._cipher, link_nonce(round, sequence, sender), body, head)

    def open(self, data: Bytes, *, round: int, sequence: int, sender: int, head: Bytes) -> bytes:  # noqa: A002
        """The body, if the other end of the link closed exactly this message.

        The numbers may come from a head that is not authenticated yet: impossible ones raise SealBroken too.
        """
        try:
            return self._cipher.decrypt(link_nonce(round, sequence, sender), data, head)
        except (InvalidTag, OverflowError):
            found = "another key, tampering or a replay; compare the key files of both ends"
        except InputError as error:
            found = f"{error}; another key, tampering or a replay"
        raise SealBroken(f"message {sequence} of round {round} from node {sender} does not open: {found}")


def link_key(key: bytes, session: bytes, *, ends: tuple[int, int], salts: tuple[bytes, bytes]) -> bytes:
    """The key of one directed link; ends and salts are (sender's, receiver's)."""
    _check_size("a session", session, 32)
    for end, salt in zip(ends, salts, strict=True):
        check_whole("an end of a link", end, 0, 2**32 - 1)
        _check_size("a salt", salt, SALT_BYTES)
    return _derive(key, _PERSON_LINK, b"".join((session, _ENDS.pack(*ends), *salts)))


def link_nonce(round: int, sequence: int, sender: int) -> bytes:  # noqa: A002
    """The 12 bytes that number a message on its link."""
    round = check_whole("a sealed round", round, 0, 2**40 - 1)  # noqa: A001
    sequence = check_whole("a sequence number", sequence, 0, 2**24 - 1)
    return _NONCE.pack(sequence << 40 | round, check_whole("a sender", sender, 0, 2**32 - 1))


def seal_blob(key: bytes, session_label: bytes, data: Bytes) -> bytes:
    """Seal data outside rounds, such as a seed; adds 48 bytes.

    Each blob has its own key, hence the nonce 0. A blob can be replayed under its label: to prevent that,
    put something new into the label, such as the reader's salt.
    """
    salt = fresh_salt()
    return salt + _encrypt(_blob_cipher(key, session_label, salt), bytes(12), data, b"")


def open_blob(key: bytes, session_label: bytes, data: Bytes) -> bytes:
    """What was sealed under this key and label."""
    salt, sealed = memoryview(data)[:SALT_BYTES], memoryview(data)[SALT_BYTES:]
    try:
        return _blob_cipher(key, session_label, salt).decrypt(bytes(12), sealed, b"")
    except (InvalidTag, OverflowError):
        raise SealBroken(
            f"blob of {len(data)} bytes labelled {session_label!r} does not open: another key, another label "
            "or tampering; compare the key files of both ends"
        ) from None


def _blob_cipher(key: bytes, label: bytes, salt: Bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(_derive(key, _PERSON_BLOB, label + salt))


def shared_key(secret: bytes, public: bytes) -> bytes:
    """What two members have in common, each from its own secret and the other's public key: X25519."""
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))


def fresh_salt() -> bytes:
    """Not from a tape: two starts with the same seed must have different salts."""
    return secrets.token_bytes(SALT_BYTES)


def make_key(path: Path | str) -> None:
    """Create a key file of 64 hex digits with mode 600; never overwrites a file."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(_KEY_BYTES) + "\n")
    except FileExistsError:
        raise InputError(f"{path} exists; remove it, or choose another name for the key") from None
    except OSError as error:
        raise InputError(f"key file {path} cannot be written: {error.strerror}; choose another") from None


def read_key(path: Path | str) -> bytes:
    """The pre-shared key, 32 bytes or 64 hex digits, from a file that only its owner can access."""
    text = read_private(path, 80)
    if len(text) == _KEY_BYTES:
        return text
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    raise InputError(
        f"key file {path} of {Path(path).stat().st_size} bytes is neither {_KEY_BYTES} bytes "
        f"nor {2 * _KEY_BYTES} hex digits; make one: {_MAKE}"
    )


def read_private(path: Path | str, most: int = 4096) -> bytes:
    """The first `most` bytes of a file that only its owner can access."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer must not block
        try:
            _check_private(path, os.fstat(handle))  # of the open file, not of a path that could be swapped
            return os.read(handle, most)
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(
            f"key file {path} cannot be read: {error.strerror}; "
            f"copy it from another host, or make one: {_MAKE}"
        ) from None


def _check_private(path: Path | str, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise InputError(
            f"key file {path} is {stat.filemode(info.st_mode)}, not a regular file; make one: {_MAKE}"
        )
    if info.st_uid not in (0, os.geteuid()):
        raise InputError(
            f"key file {path} belongs to user {info.st_uid}, who can change it; "
            f"use a copy that belongs to user {os.geteuid()}"
        )
    if info.st_mode & 0o077:
        raise InputError(
            f"key file {path} is accessible to others (mode {stat.S_IMODE(info.st_mode):o}); "
            f"chmod 600 {shlex.quote(str(path))}"
        )


def _derive(key: bytes, person: bytes, data: bytes) -> bytes:
    _check_size("a pre-shared key", key, _KEY_BYTES)
    return hashlib.blake2b(data, key=key, person=person, digest_size=_KEY_BYTES).digest()


def _encrypt(cipher: ChaCha20Poly1305, nonce: bytes, body: Bytes, head: Bytes) -> bytes:
    try:
        return cipher.encrypt(nonce, body, head)
    except OverflowError:
        raise InputError(
            f"a seal takes less than 2 GiB, got {len(body)} bytes; send several messages"
        ) from None


def _check_size(what: str, given: bytes, size: int) -> None:
    if len(given) != size:
        raise InputError(f"{what} must have {size} bytes, got {len(given)}")
