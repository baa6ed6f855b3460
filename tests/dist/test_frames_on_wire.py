"""What a node makes of bytes that its peer did not send: nothing, and an error that says what they are."""

import random
from collections import Counter

import numpy as np
import pytest

from dist.tins import KEY, VALUES, D, accept, channel, forged, hear, honest
from mutants import with_checksum
from zocosmo.core import Support
from zocosmo.errors import (
    CorruptMessage,
    ForeignMessage,
    InputError,
    MessageError,
    NonFiniteMessage,
    SealBroken,
    SupportMismatch,
    TruncatedMessage,
)

HEAD_BITS, CHECKSUM_BITS = 8 * 28, 8 * 32
KEYS = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])


def flipped(data, at):
    """The same bytes but for bit `at`."""
    return data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]


def refusal(data, t, **options):
    """The error that bytes meet, by name; None where they are taken."""
    try:
        hear(data, t, **options)
    except MessageError as error:
        return type(error).__name__
    return None


@KEYS
def test_what_a_peer_sent_is_mixed(key):
    """Values that agree stay as they are, and a path of two weighs both alike."""
    assert hear(honest(3, key=key), 3, key=key).tolist() == VALUES.tolist()
    theirs = np.array([0.5, 4.0], np.float32)
    assert hear(honest(3, values=theirs, key=key), 3, key=key).tolist() == [1.0, 1.0]


@KEYS
def test_every_flipped_bit_of_a_frame_is_refused(key):
    """The version, 8 bits, is read before the checksum; all other bits break the checksum."""
    data = honest(3, key=key)
    found = [refusal(flipped(data, at), 3, key=key) for at in range(8 * len(data))]
    assert found == ["ForeignMessage"] * 8 + ["CorruptMessage"] * (8 * len(data) - 8)


def test_a_flipped_bit_with_its_checksum_made_right_does_not_pass_a_seal():
    """Whoever changes a message can also mend its checksum; the seal stands against that."""
    data = honest(3, key=KEY)
    places = [at for at in range(8 * len(data)) if not HEAD_BITS <= at < CHECKSUM_BITS]
    found = [refusal(with_checksum(flipped(data, at)), 3, key=KEY) for at in places]
    assert None not in found
    assert set(found[HEAD_BITS:]) == {"SealBroken"}


def test_ten_thousand_sealed_frames_with_one_flipped_bit_each_are_all_refused():
    """Half of them with a checksum that fits again; places from a fixed seed, all over the frame."""
    drawn, fared = random.Random(5), Counter()
    frames = [honest(t, key=KEY) for t in range(100)]
    for k in range(10_000):
        data = frames[k % 100]
        forged = k % 200 < 100  # the checksum is made right again, so it is the only part that is not flipped
        at = drawn.choice([b for b in range(8 * len(data)) if not (forged and 28 * 8 <= b < 32 * 8)])
        changed = flipped(data, at)
        fared[refusal(with_checksum(changed) if forged else changed, k % 100, key=KEY)] += 1
    assert sum(fared.values()) == 10_000
    assert fared.keys() == {"ForeignMessage", "CorruptMessage", "SealBroken"}


@KEYS
@pytest.mark.parametrize("earlier", [0, 2])
def test_a_frame_of_another_round_is_refused(key, earlier):
    with pytest.raises(ForeignMessage, match=f"from node 1 has round {earlier}, expected 3"):
        hear(honest(earlier, key=key), 3, key=key)


@KEYS
def test_a_frame_heard_earlier_in_the_round_is_refused(key):
    ours = channel(0, key=key)
    ours.begin(3)
    ours.links.next = honest(3, key=key)
    ours.mix(VALUES[None])
    with pytest.raises(ForeignMessage, match="has sequence 0, expected 1"):
        ours.mix(VALUES[None])


@KEYS
def test_a_frame_that_comes_before_its_turn_is_refused(key):
    with pytest.raises(ForeignMessage, match="has sequence 1, expected 0"):
        hear(honest(3, sequence=1, key=key), 3, key=key)


def test_sequences_begin_anew_with_each_round():
    ours = channel(0)
    for t in range(3):
        ours.begin(t)
        ours.links.next = honest(t)
        ours.mix(VALUES[None])
    assert [data[21:24] for data in ours.links.sent] == [b"\0\0\0"] * 3


@KEYS
def test_a_frame_cut_short_is_refused_at_every_length(key):
    """Below the header's 32 bytes it is too short; above, its checksum does not fit what is left."""
    data = honest(3, key=key)
    found = [refusal(data[:size], 3, key=key) for size in range(len(data))]
    assert found == ["TruncatedMessage"] * 32 + ["CorruptMessage"] * (len(data) - 32)


def test_a_frame_shorter_than_its_header_says_is_refused():
    with pytest.raises(TruncatedMessage, match="takes 8 bytes, got 4"):
        hear(with_checksum(honest(3)[:-4]), 3)


def test_a_frame_of_another_sender_is_refused():
    with pytest.raises(ForeignMessage, match="has sender 0, expected 1"):
        hear(with_checksum(honest(3)[:4] + bytes(4) + honest(3)[8:]), 3)


def test_a_frame_of_another_session_is_refused():
    with pytest.raises(ForeignMessage, match=r"session ff000000, expected 00010203"):
        hear(honest(3, session=b"\xff" + bytes(31)), 3)


@KEYS
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_not_heard(key, value):
    with pytest.raises(NonFiniteMessage, match="from node 1 in round 3"):
        hear(forged(3, np.array([1.0, value], np.float32), key=key), 3, key=key)


@KEYS
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e7])
def test_a_message_on_a_grid_that_has_no_values_is_not_heard(key, value):
    """The integers of such a message are zeros; its head says that they mean nothing."""
    few = np.array([1.0, 2.0], np.float32)
    assert np.isfinite(hear(honest(3, values=few, key=key, wire="grid4"), 3, key=key, wire="grid4")).all()
    none = honest(3, values=np.array([1.0, value], np.float32), key=key, wire="grid4")
    with pytest.raises(NonFiniteMessage, match="from node 1 in round 3"):
        hear(none, 3, key=key, wire="grid4")


@KEYS
def test_a_flipped_bit_between_two_partners_is_refused(key):
    ours, data = channel(0, key=key), honest(3, key=key)
    ours.begin(3)
    ours.links.next = flipped(data, 8 * 35)
    with pytest.raises(CorruptMessage, match="checksum"):
        ours.mix_pairs(VALUES[None], np.array([1]))


def test_values_whose_squares_overflow_are_heard():
    big = np.array([3e38, -3e38], np.float32)
    assert np.isfinite(hear(honest(3, values=big), 3)).all()


@pytest.mark.parametrize(("theirs", "ours"), [(None, KEY), (KEY, None)], ids=["plain", "sealed"])
def test_sealed_and_plain_nodes_do_not_hear_each_other(theirs, ours):
    with pytest.raises(SealBroken, match="give all nodes the same key file, or none"):
        accept(honest(3, key=theirs), 3, key=ours)


def test_a_node_with_another_key_is_not_heard():
    with pytest.raises(SealBroken, match="compare the key files"):
        hear(honest(3, key=b"\x5b" * 32), 3, key=KEY)


def test_a_node_on_other_coordinates_than_the_tape_says_is_not_heard():
    here, there = Support(np.array([1, 4]), D), np.array([1, 5])
    with pytest.raises(SupportMismatch, match="from node 1 in round 3 is on other coordinates"):
        hear(honest(3, support=there, codec="indexed"), 3, support=here, codec="indexed")
    assert hear(honest(3, support=here.index, codec="indexed"), 3, support=here, codec="indexed").size == 2


@pytest.mark.parametrize("other", ["plain", "delta"])
def test_a_node_with_another_codec_is_not_heard(other):
    here = Support(np.array([1, 4]), D)
    with pytest.raises(ForeignMessage, match=f"has codec {other}, expected indexed"):
        accept(honest(3, support=here.index, codec=other), 3, codec="indexed")


def test_a_codec_that_names_coordinates_needs_them():
    with pytest.raises(SupportMismatch, match="sends coordinates; call mix"):
        hear(b"", 3, codec="indexed")


def test_rounds_ascend():
    ours = channel(0)
    ours.begin(3)
    with pytest.raises(InputError, match="round 2 comes after round 3"):
        ours.begin(2)


def test_a_refused_message_changes_no_values():
    mine = VALUES[None].copy()
    ours = channel(0)
    ours.links.next = flipped(honest(0), 300)
    with pytest.raises(CorruptMessage):
        ours.mix(mine)
    assert mine.tolist() == [VALUES.tolist()]
