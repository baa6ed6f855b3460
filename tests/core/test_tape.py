import numpy as np
import pytest

import reference
from zocosmo.core import Tape
from zocosmo.core.tape import tape_key
from zocosmo.errors import InputError


def test_keys_are_those_of_the_protocol():
    assert tape_key(0).hex() == "e367d085e4017d7837c26ca89060db8be83bf26f687aa0096e664c25edf92445"
    assert tape_key("alpha").hex() == "fd3a8afa535d25be6110627b05d56638e3202c83696feb444345ab85a69ba95f"
    assert tape_key(bytes(range(32))) == bytes(range(32))


def test_the_stream_begins_as_in_the_protocol():
    assert Tape(0).coins("support", 0).bytes(16).tobytes().hex() == "7a406023821d5a1f315a9e8b7306160a"


def test_signs_are_those_of_the_protocol():
    text = "".join("+" if sign > 0 else "-" for sign in Tape(0).coins("sign", 0).signs(16))
    assert text == "+-++-+-+-----+--"
    assert Tape(0).coins("sign", 3, 1, 2).signs(5).tolist() == [1, -1, -1, 1, 1]


@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_permutations_equal_the_plain_implementation(n):
    assert Tape("p").coins("matching", 5).permutation(n).tolist() == reference.permutation(
        "p", n, "matching", (5,)
    )


def test_many_streams_at_once_equal_one_by_one():
    tapes, t, i = Tape.stack([1, "two", bytes(32)]), np.arange(4), np.array([[7], [2**63]], np.uint64)
    words = tapes[:, None, None].coins("x", t, i).words(3)
    assert words.shape == (3, 2, 4, 3)
    for s, seed in enumerate([1, "two", bytes(32)]):
        for a, b in np.ndindex(2, 4):
            assert (words[s, a, b] == Tape(seed).coins("x", b, int(i[a, 0])).words(3)).all()


def test_reading_again_gives_the_same_coins():
    coins = Tape(1).coins("sign", 9)
    assert coins.bytes(100)[:10].tolist() == coins.bytes(10).tolist()


def test_a_commitment_names_the_key_and_not_the_seed():
    assert Tape(0).commitment() == Tape(tape_key(0)).commitment() != Tape(1).commitment()
    assert tape_key(0).hex() not in repr(Tape(0)) + Tape(0).commitment()


@pytest.mark.parametrize("seed", [b"short", 1.5, None, True, "\ud800"])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(InputError, match="seed"):
        Tape(seed)


def test_a_number_too_long_for_text_is_refused():
    with pytest.raises(InputError, match="this seed has no text form"):
        Tape(10**5000)


@pytest.mark.parametrize("ids", [(-1,), (0, -3), (2**64,), (1.5,), (np.array([3, -1]),)])
def test_a_bad_id_is_refused(ids):
    with pytest.raises(InputError, match="id must be an integer"):
        Tape(0).coins("support", *ids)


@pytest.mark.parametrize("label", ["", "seventeen letters", "größe", "a\0", 5])
def test_a_bad_label_is_refused(label):
    with pytest.raises(InputError, match="label"):
        Tape(0).coins(label)


def test_indexing_a_tape_never_cuts_its_keys():
    tapes = Tape.stack([1, 2, 3])
    assert tapes[1].coins("x").bytes(8).tolist() == Tape(2).coins("x").bytes(8).tolist()
    assert (tapes[None, 1:].shape, tapes[..., None].shape, Tape(0)[None].shape) == ((1, 2), (3, 1), (1,))
    for wrong in (lambda: Tape(0)[0], lambda: Tape(0)[1:5], lambda: tapes[:, :5]):
        with pytest.raises(IndexError):
            wrong()


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(InputError, match=r"\(3,\), \(2,\)"):
        Tape.stack([1, 2, 3]).coins("x", np.arange(2))


def test_a_negative_number_of_coins_is_refused():
    with pytest.raises(InputError, match="number of coins"):
        Tape(0).coins("x").bytes(-1)
