"""Checkpoints are whole or not there, whatever happens to their files."""

import errno
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from zocosmo.dist.checkpoints import Checkpoints, Position
from zocosmo.errors import InputError

ARRAYS = {
    "state.x": np.array([[1.5, -0.0], [np.inf, 2.0**-1074]]),
    "bits": np.arange(8).reshape(2, 4),
    "alive": np.array([True, False]),
    "t": np.array(4),
    "half": np.array([0.1, np.nan], np.float32),
}
ABOUT = {"nodes": [0, 3], "crossed": 2**60}
SAME_FOLDER = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def filled(folder, rounds=(2, 4), **options):
    """Checkpoints of these rounds."""
    checkpoints = Checkpoints(folder, **{"stamp": "plan A", **options})
    for t in rounds:
        checkpoints.save(Position(0, t), ARRAYS, ABOUT)
    return checkpoints


def file_of(checkpoints, t, suffix):
    return checkpoints.folder / f"{Position(0, t).name}{suffix}"


def test_what_was_saved_is_loaded_to_the_bit(tmp_path):
    arrays, about = filled(tmp_path).load(Position(0, 4))
    assert about == ABOUT
    assert {k: (v.dtype, v.shape, v.tobytes()) for k, v in arrays.items()} == {
        k: (v.dtype, v.shape, v.tobytes()) for k, v in ARRAYS.items()
    }


@SAME_FOLDER
@given(array=arrays_of.arrays(st.sampled_from(["f8", "f4", "i8", "?"]), arrays_of.array_shapes(min_dims=1)))
def test_arrays_of_any_kind_come_back_and_can_be_written_to(tmp_path, array):
    checkpoints = Checkpoints(tmp_path, "plan A")
    checkpoints.save(Position(1, 1), {"part": array[::-1]}, {})
    back = checkpoints.load(Position(1, 1))[0]["part"]
    assert (back.tobytes(), back.shape, back.dtype) == (array[::-1].tobytes(), array.shape, array.dtype)
    assert back.flags.writeable


def test_the_newest_are_kept_in_order_of_trial_and_round(tmp_path):
    checkpoints = Checkpoints(tmp_path, "plan A", keep=3)
    for position in [(0, 900), (0, 1000), (1, 2), (1, 4), (2, 0)]:
        checkpoints.save(Position(*position), ARRAYS, ABOUT)
    assert checkpoints.held() == [(1, 2), (1, 4), (2, 0)]
    assert len(list(tmp_path.iterdir())) == 6


def test_those_of_another_stamp_are_not_held(tmp_path):
    filled(tmp_path)
    assert filled(tmp_path, rounds=(), stamp="plan B").held() == []
    assert filled(tmp_path, rounds=()).held() == [(0, 2), (0, 4)]


def test_those_of_an_older_study_do_not_cost_a_new_one_its_own(tmp_path):
    """They have higher rounds; today's are of another stamp and must stay, the newest three of them."""
    filled(tmp_path, rounds=(700, 800, 900))
    new = filled(tmp_path, rounds=(2, 4, 6, 8), stamp="plan B")
    assert new.held() == [(0, 4), (0, 6), (0, 8)]
    again = filled(tmp_path, rounds=(10,), stamp="plan B")
    assert again.held() == [(0, 6), (0, 8), (0, 10)]
    assert filled(tmp_path, rounds=()).held() == [(0, 700), (0, 800), (0, 900)]


@SAME_FOLDER
@given(share=st.floats(0, 1, exclude_max=True), suffix=st.sampled_from([".json", ".safetensors"]))
def test_a_file_cut_anywhere_is_not_held(tmp_path, share, suffix):
    checkpoints = filled(tmp_path)
    file = file_of(checkpoints, 4, suffix)
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    assert checkpoints.held() == [(0, 2)]
    assert checkpoints.load(Position(0, 4)) is None


def test_every_flipped_bit_of_the_tensors_is_seen(tmp_path):
    checkpoints = filled(tmp_path)
    file = file_of(checkpoints, 4, ".safetensors")
    data, drawn = file.read_bytes(), random.Random(1)
    for at in drawn.sample(range(8 * len(data)), 300):
        file.write_bytes(data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :])
        assert checkpoints.load(Position(0, 4)) is None


@SAME_FOLDER
@given(
    data=st.one_of(
        st.binary(max_size=40), st.sampled_from([b"[]", b"null", b"{}", b'{"stamp": "plan A"}', b"3"])
    )
)
def test_any_bytes_in_place_of_the_json_are_not_held(tmp_path, data):
    checkpoints = filled(tmp_path)
    file_of(checkpoints, 4, ".json").write_bytes(data)
    assert checkpoints.held() == [(0, 2)]


@SAME_FOLDER
@given(at=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_changed_json_is_not_held_or_says_what_it_said(tmp_path, at, byte):
    """What is kept beside the tensors decides how a run goes on, too: nodes, and the state of an oracle."""
    checkpoints = filled(tmp_path)
    file = file_of(checkpoints, 4, ".json")
    data = bytearray(file.read_bytes())
    data[at % len(data)] = byte
    file.write_bytes(data)
    found = checkpoints.load(Position(0, 4))
    assert found is None or found[1] == ABOUT


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_one_half_of_a_checkpoint_is_none(tmp_path, suffix):
    checkpoints = filled(tmp_path)
    file_of(checkpoints, 4, suffix).unlink()
    assert checkpoints.held() == [(0, 2)]


def test_tensors_of_another_round_are_not_taken_for_this_one(tmp_path):
    checkpoints = filled(tmp_path)
    checkpoints.save(Position(0, 4), {**ARRAYS, "bits": ARRAYS["bits"] + 1}, ABOUT)
    file_of(checkpoints, 4, ".safetensors").replace(file_of(checkpoints, 2, ".safetensors"))
    assert checkpoints.held() == []


@pytest.mark.parametrize("writer", ["write_bytes", "write_text", "replace"])
def test_a_full_disk_leaves_the_older_ones(tmp_path, monkeypatch, writer):
    """It may fill up at the tensors, at the JSON or at a rename; the error says which file."""
    checkpoints = filled(tmp_path)

    def full(self, *args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, writer, full)
        with pytest.raises(InputError, match=r"round-000000006.*cannot be written: No space left"):
            checkpoints.save(Position(0, 6), ARRAYS, ABOUT)
    assert checkpoints.held() == [(0, 2), (0, 4)]
    checkpoints.save(Position(0, 6), ARRAYS, ABOUT)
    assert checkpoints.held() == [(0, 2), (0, 4), (0, 6)]


def test_a_checkpoint_that_fails_half_way_leaves_nothing_that_is_held_later(tmp_path, monkeypatch):
    """New tensors beside the JSON of an earlier attempt at the same round are no checkpoint."""
    checkpoints = filled(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            checkpoints.save(Position(0, 4), {"bits": np.zeros(1)}, {})
    assert checkpoints.held() == [(0, 2)]


def test_other_files_are_left_alone(tmp_path):
    checkpoints = filled(tmp_path)
    (tmp_path / "log.csv").write_text("rank\n")
    checkpoints.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]
    assert checkpoints.held() == []


def test_the_json_says_what_it_is_of(tmp_path):
    text = file_of(filled(tmp_path), 4, ".json").read_text()
    assert json.loads(text).keys() == {"stamp", "hash", "about"}
