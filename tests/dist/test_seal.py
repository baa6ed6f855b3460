import mmap
import os
import random
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.dist import seal as seal_module
from zocosmo.dist.seal import (
    SEAL_BITS,
    Seal,
    link_key,
    link_nonce,
    make_key,
    open_blob,
    read_key,
    seal_blob,
)
from zocosmo.errors import InputError, MessageError, SealBroken

KEY, SESSION = bytes(range(32)), bytes(range(32, 64))
SALT_A, SALT_B = b"\xaa" * 32, b"\xbb" * 32
OUT, BACK = Seal.pair(KEY, SESSION, 3, 258, SALT_A, SALT_B)
_, IN = Seal.pair(KEY, SESSION, 258, 3, SALT_B, SALT_A)  # the other end of OUT
NUMBERS = {"round": 5, "sequence": 2, "sender": 7}
SEALED = OUT.close(b"values", **NUMBERS, head=b"head")


def refused(data, seal=IN, head=b"head", **numbers):
    try:
        seal.open(data, **{**NUMBERS, **numbers}, head=head)
    except SealBroken:
        return True
    return False


def flipped(data, at):
    """The same bytes but for bit `at`."""
    return data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]


@given(
    st.binary(max_size=300),
    st.binary(max_size=40),
    st.integers(0, 2**40 - 1),
    st.integers(0, 2**24 - 1),
    st.integers(0, 2**32 - 1),
)
def test_what_one_end_closes_the_other_opens(body, head, round_, sequence, sender):
    numbers = {"round": round_, "sequence": sequence, "sender": sender}
    sealed = OUT.close(body, **numbers, head=head)
    assert IN.open(sealed, **numbers, head=head) == body
    assert 8 * (len(sealed) - len(body)) == SEAL_BITS.total == SEAL_BITS.framing


@given(st.binary(max_size=50))
def test_any_kind_of_bytes_gives_the_same_seal(body):
    wide = memoryview(b"<" + body + b">")[1:-1]
    sealed = OUT.close(body, **NUMBERS, head=b"head")
    assert OUT.close(bytearray(body), **NUMBERS, head=bytearray(b"head")) == sealed
    assert OUT.close(wide, **NUMBERS, head=memoryview(b"head")) == sealed
    assert IN.open(memoryview(sealed), **NUMBERS, head=b"head") == body


def test_the_body_cannot_be_read_on_the_way():
    assert b"values" not in SEALED
    assert len(SEALED) == 6 + 16


@pytest.mark.parametrize(
    "change", [{"round": 4}, {"round": 6}, {"sequence": 1}, {"sequence": 3}, {"sender": 8}, {"head": b"heaD"}]
)
def test_head_and_numbers_are_bound_to_the_message(change):
    assert not refused(SEALED)
    assert refused(SEALED, **change)


def test_every_single_flipped_bit_is_refused():
    assert all(refused(flipped(SEALED, at)) for at in range(8 * len(SEALED)))
    assert all(refused(SEALED, head=flipped(b"head", at)) for at in range(8 * 4))


def test_every_cut_and_every_addition_is_refused():
    assert all(refused(SEALED[:size]) for size in range(len(SEALED)))
    assert refused(SEALED + b"\0")
    assert refused(b"\0" + SEALED)


def test_10000_messages_with_one_flipped_bit_each_are_refused():
    """Poly1305 lets one pass with probability 8 · 15 / 2^106 at most (15 blocks of 16 bytes): never."""
    rng, escaped = random.Random(0), 0
    for sequence in range(10_000):
        body = rng.randbytes(rng.randrange(200))
        sealed = OUT.close(body, round=1, sequence=sequence, sender=7, head=b"head")
        damaged = flipped(sealed, rng.randrange(8 * len(sealed)))
        escaped += not refused(damaged, round=1, sequence=sequence)
    assert escaped == 0


def test_a_broken_seal_names_the_message_and_the_possible_causes():
    words = r"message 2 of round 5 from node 7 does not open: another key, tampering or a replay"
    with pytest.raises(SealBroken, match=words) as caught:
        IN.open(flipped(SEALED, 9), **NUMBERS, head=b"head")
    assert isinstance(caught.value, MessageError)
    assert "\n" not in str(caught.value)


def test_the_two_directions_of_a_link_have_different_keys():
    assert refused(SEALED, seal=BACK)  # a message thrown back at its sender
    assert OUT.close(b"", **NUMBERS, head=b"") != BACK.close(b"", **NUMBERS, head=b"")


@pytest.mark.parametrize(
    ("place", "other"),
    [(0, bytes(32)), (1, bytes(32)), (2, 259), (3, 4), (4, bytes(32)), (5, bytes(32))],
    ids=["key", "session", "receiver", "sender", "salt of the receiver", "salt of the sender"],
)
def test_everything_that_makes_the_key_of_a_link_matters(place, other):
    ends = [KEY, SESSION, 258, 3, SALT_B, SALT_A]
    assert not refused(SEALED, seal=Seal.pair(*ends)[1])
    ends[place] = other
    assert refused(SEALED, seal=Seal.pair(*ends)[1])


def test_salts_that_change_places_change_the_key():
    assert refused(SEALED, seal=Seal.pair(KEY, SESSION, 258, 3, SALT_A, SALT_B)[1])


def test_the_key_of_a_link_is_the_golden_one():
    """This value and the two below come from the RFCs' formulas in plain Python, not from a library."""
    key = link_key(KEY, SESSION, ends=(3, 258), salts=(SALT_A, SALT_B))
    assert key.hex() == "979d322df7de2e9e3dabf1bf05f4f840370b2c843fb89bc9d975726b3bec0d09"


def test_nonce_and_sealed_bytes_are_the_golden_ones():
    numbers = {"round": 0x0102030405, "sequence": 0x060708, "sender": 0x090A0B0C}
    assert link_nonce(**numbers).hex() == "0504030201" + "080706" + "0c0b0a09"
    sealed = OUT.close(b"values", **numbers, head=b"head")
    assert sealed.hex() == "95cf212f2ebf28102087b0b7102b0c082f5b4ce73283"


def test_a_sealed_blob_is_the_golden_one(monkeypatch):
    monkeypatch.setattr(seal_module, "fresh_salt", lambda: SALT_B)
    golden = "bb" * 32 + "59ec108895d83d57c7e927a488840cb3e4c0f25cee9e"
    assert seal_blob(KEY, b"seed", b"values").hex() == golden


def test_different_numbers_never_give_the_same_nonce():
    """The two largest and two smallest numbers of each field, and all their combinations."""
    edges = [(0, 1, 2**bits - 2, 2**bits - 1) for bits in (40, 24, 32)]
    nonces = {link_nonce(r, s, n) for r in edges[0] for s in edges[1] for n in edges[2]}
    assert len(nonces) == 4**3


IMPOSSIBLE = [("round", 2**40), ("sequence", 2**24), ("sender", 2**32), ("round", -1), ("sequence", 1.0)]


@pytest.mark.parametrize(("field", "number"), IMPOSSIBLE)
def test_a_number_that_the_nonce_cannot_hold_is_refused(field, number):
    with pytest.raises(InputError, match=f"{field}.* must be .*got {number}"):
        OUT.close(b"", **{**NUMBERS, field: number}, head=b"")


@pytest.mark.parametrize(("field", "number"), IMPOSSIBLE)
def test_a_number_that_nobody_can_have_sealed_breaks_the_seal(field, number):
    """It may come from a peer's head, where rounds have 64 bits; a peer must not cause an InputError."""
    with pytest.raises(SealBroken, match=f"{field}.* must be .*got {number}"):
        IN.open(SEALED, **{**NUMBERS, field: number}, head=b"head")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, bytes(31), "pre-shared key must have 32 bytes, got 31"),
        (1, bytes(4), "session must have 32 bytes, got 4"),
        (2, 3, "both ends of the link are 3"),
        (2, 2**32, "end of a link must be between"),
        (3, -1, "end of a link must be between"),
        (4, b"", "salt must have 32 bytes, got 0"),
        (5, bytes(33), "salt must have 32 bytes, got 33"),
    ],
)
def test_a_link_is_set_up_with_whole_parts_only(place, value, words):
    ends = [KEY, SESSION, 258, 3, SALT_B, SALT_A]
    ends[place] = value
    with pytest.raises(InputError, match=words):
        Seal.pair(*ends)


def test_a_message_too_long_for_the_cipher_is_refused_before_any_work():
    with mmap.mmap(-1, 2**31) as pages, pytest.raises(InputError, match=r"less than 2 GiB, got 2147483648"):
        OUT.close(pages, **NUMBERS, head=b"")


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_blob_opens_under_its_key_and_label(label, data):
    blob = seal_blob(KEY, label, data)
    assert open_blob(KEY, label, blob) == data
    assert len(blob) == len(data) + 48


@pytest.mark.parametrize(("key", "label"), [(bytes(32), b"seed"), (KEY, b"sees"), (KEY, b"")])
def test_a_blob_of_another_key_or_label_is_refused(key, label):
    with pytest.raises(SealBroken, match="blob of 54 bytes"):
        open_blob(key, label, seal_blob(KEY, b"seed", b"values"))


def test_a_blob_that_was_changed_or_cut_is_refused():
    blob = seal_blob(KEY, b"seed", b"values")
    changed = [flipped(blob, at) for at in range(8 * len(blob))]
    for data in [*changed, *(blob[:size] for size in range(len(blob)))]:
        with pytest.raises(SealBroken, match="does not open"):
            open_blob(KEY, b"seed", data)


def test_equal_blobs_are_sealed_differently():
    assert len({seal_blob(KEY, b"seed", b"values") for _ in range(100)}) == 100


@pytest.fixture
def key_file(tmp_path):
    """Writes a key file; its mode does not depend on the umask."""

    def write(content, mode=0o600):
        path = tmp_path / "key"
        path.write_bytes(content)
        path.chmod(mode)
        return path

    return write


@pytest.mark.parametrize(
    "content",
    [KEY, KEY.hex().encode(), KEY.hex().encode() + b"\n", KEY.hex().upper().encode() + b"\r\n"],
)
def test_a_key_is_32_bytes_or_64_hex_digits(key_file, content):
    assert read_key(key_file(content)) == KEY
    assert read_key(str(key_file(content, 0o400))) == KEY


def test_a_raw_key_may_end_like_a_line(key_file):
    assert read_key(key_file(bytes(31) + b"\n")) == bytes(31) + b"\n"


@pytest.mark.parametrize(
    "content",
    [b"", bytes(31), KEY + b"\n", b"g" * 64, b"0" * 63, b"0" * 66, b"0" * 64 + b"\n\n", bytes(10**6)],
)
def test_a_key_of_another_length_is_refused(key_file, content):
    with pytest.raises(InputError, match=rf"of {len(content)} bytes is neither .*make one: python -c"):
        read_key(key_file(content))


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o777])
def test_a_key_open_to_others_is_refused(key_file, mode):
    path = key_file(KEY, mode)
    with pytest.raises(InputError, match=rf"mode {mode:o}\); chmod 600 {path}"):
        read_key(path)


def test_a_missing_key_is_refused_with_the_line_that_makes_one(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read: No such file.*make_key") as caught:
        read_key(tmp_path / "key")
    assert "\n" not in str(caught.value)


def test_only_a_regular_file_is_a_key(tmp_path):
    """A pipe that nobody writes to is refused, not waited for."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(InputError, match="not a regular file"):
            read_key(path)


def test_a_link_to_a_key_is_followed_and_its_target_checked(tmp_path, key_file):
    link = tmp_path / "link"
    link.symlink_to(key_file(KEY))
    assert read_key(link) == KEY
    key_file(KEY, 0o644)
    with pytest.raises(InputError, match="mode 644"):
        read_key(link)


def test_the_key_of_another_user_is_refused(key_file, monkeypatch):
    path = key_file(KEY)
    try:
        os.chown(path, 12345, -1)
    except PermissionError:  # only root can give files away; others become somebody else
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(InputError, match=f"belongs to user {path.stat().st_uid}"):
        read_key(path)


def test_a_refusal_does_not_show_the_key(key_file):
    content = KEY.hex().encode() + b"0"
    with pytest.raises(InputError) as caught:
        read_key(key_file(content))
    assert KEY.hex() not in str(caught.value)


def test_a_made_key_can_be_read_by_its_owner_only(tmp_path):
    old = os.umask(0)
    try:
        make_key(tmp_path / "a")
        make_key(str(tmp_path / "b"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert read_key(tmp_path / "a") != read_key(tmp_path / "b")


def test_a_key_is_never_made_over_a_file_or_a_link(tmp_path, key_file):
    path = key_file(KEY)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in (path, tmp_path / "link"):
        with pytest.raises(InputError, match="exists; remove it"):
            make_key(taken)
    assert path.read_bytes() == KEY
    assert not (tmp_path / "nowhere").exists()


def test_a_key_in_a_folder_that_is_missing_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be written: No such file"):
        make_key(tmp_path / "folder" / "key")
