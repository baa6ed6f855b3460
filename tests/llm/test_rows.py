"""Rows: JSONL whose every mistake has a line, folders, the hub, and shards."""

import json
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.llm import rows
from zocosmo.llm.rows import Columns, Hub, read_jsonl, shards
from zocosmo.llm.tasks import load_task
from zocosmo.problems.split import split

pytest.importorskip("transformers")

COLUMNS = Columns(("text",), "label", 2)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv(rows.FOLDER_VARIABLE, raising=False)


# JSONL


@given(st.lists(st.tuples(TEXTS, st.integers(0, 1)), min_size=1), st.booleans())
def test_what_is_written_is_read(tmp_path_factory, pairs, ascii_only):
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=ascii_only) for text, label in pairs]
    path = write(tmp_path_factory.mktemp("rows") / "rows.jsonl", *lines)
    assert [(row.fields["text"], row.label) for row in read_jsonl(path, COLUMNS)] == [
        (text.strip(), label) for text, label in pairs
    ]


def test_blank_lines_a_byte_order_mark_and_truth_values_are_fine(tmp_path):
    path = write(
        tmp_path / "a.jsonl",
        b'\xef\xbb\xbf{"text": "a", "label": false}\r',
        "",
        '{"text": "b", "label": true}',
        "",
    )
    found = read_jsonl(path, COLUMNS)
    assert [(row.where, row.label) for row in found] == [(f"{path}:1", 0), (f"{path}:3", 1)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "a", "label": }', "not JSON: Expecting value at character 24"),
        ('["a", 1]', "a row must be an object with fields"),
        ('{"test": "a", "label": 1}', "field 'text' is missing; the row has test, label"),
        ('{"text": "a"}', "field 'label' is missing"),
        ('{"text": 3, "label": 1}', "field 'text' must be text, got 3"),
        ('{"text": null, "label": 1}', "field 'text' must be text, got None"),
        ('{"text": "a", "label": 2}', "label must be a whole number from 0 to 1, .*got 2"),
        ('{"text": "a", "label": -1}', "label must be a whole number from 0 to 1, .*got -1"),
        ('{"text": "a", "label": "1"}', "label must be a whole number from 0 to 1, .*got '1'"),
        ('{"text": "a", "label": 1.0}', "label must be a whole number"),
        (r'{"text": "\ud800", "label": 1}', "field 'text' has a lone surrogate"),
        ('{"text": "a", "label": ' + "1" * 5000 + "}", "cannot parse JSON"),
        (b'{"text": "\xff", "label": 1}', "not UTF-8: byte 11 is 0xff"),
        ("[" * 200_000, "(not|cannot parse) JSON"),
    ],
)
def test_every_mistake_in_a_row_has_a_line(tmp_path, line, said):
    path = write(tmp_path / "a.jsonl", '{"text": "fine", "label": 0}', line)
    with pytest.raises(InputError, match=rf"a\.jsonl:2: {said}") as caught:
        read_jsonl(path, COLUMNS)
    assert len(str(caught.value)) < 300 + len(str(path))


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_rows_is_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"a\.jsonl:1: the file has no rows"):
        read_jsonl(write(tmp_path / "a.jsonl", content), COLUMNS)


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(InputError, match=r"a\.jsonl: cannot be read: No such file"):
        read_jsonl(tmp_path / "a.jsonl", COLUMNS)


# Folders

ROW = '{"sentence": "a film", "label": 1}'


def test_the_folder_of_a_task_comes_before_the_files_beside_it(tmp_path):
    write(tmp_path / "train.jsonl", ROW)
    assert load_task("sst2", str(tmp_path)).rows("train")[0].where == f"{tmp_path / 'train.jsonl'}:1"
    write(tmp_path / "sst2" / "train.jsonl", ROW)
    assert load_task("sst2", str(tmp_path)).rows("train")[0].where == f"{tmp_path / 'sst2' / 'train.jsonl'}:1"


def test_the_environment_names_a_folder_too(tmp_path, monkeypatch):
    write(tmp_path / "sst2" / "train.jsonl", ROW)
    monkeypatch.setenv("ZOCOSMO_DATA", str(tmp_path))
    assert len(load_task("sst2").rows("train")) == 1


def test_a_given_folder_counts_more_than_the_environment(tmp_path, monkeypatch):
    write(tmp_path / "train.jsonl", ROW)
    monkeypatch.setenv("ZOCOSMO_DATA", "nowhere")
    assert len(load_task("sst2", str(tmp_path)).rows("train")) == 1


def test_folders_without_the_task_are_refused_at_once(tmp_path, monkeypatch):
    with pytest.raises(
        InputError, match=r"data folder nowhere does not exist; give one that has sst2/train.jsonl"
    ):
        load_task("sst2", "nowhere")
    with pytest.raises(InputError, match=r"has neither sst2/train.jsonl nor train.jsonl"):
        load_task("sst2", str(tmp_path))
    monkeypatch.setenv("ZOCOSMO_DATA", "nowhere")
    with pytest.raises(InputError, match=r"folder nowhere of ZOCOSMO_DATA does not exist"):
        load_task("sst2")


def test_a_split_that_is_missing_is_named(tmp_path):
    write(tmp_path / "train.jsonl", ROW)
    with pytest.raises(InputError, match=r"validation\.jsonl: cannot be read"):
        load_task("sst2", str(tmp_path)).rows("validation")


# The hub


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for the library: what it was asked, whether offline, and what it answers."""
    import huggingface_hub.constants as constants

    seen = types.SimpleNamespace(asked=None, offline=None, rows=[], error=None)
    library, config = types.ModuleType("datasets"), types.ModuleType("datasets.config")
    library.config, config.HF_HUB_OFFLINE = config, False

    def load_dataset(*names, split):
        seen.asked, seen.offline = (*names, split), (config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE)
        if seen.error:
            raise seen.error
        return types.SimpleNamespace(to_list=lambda: seen.rows)

    library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", library)
    monkeypatch.setitem(sys.modules, "datasets.config", config)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(rows, "reachable", lambda address: True)
    return seen


def test_glue_comes_from_the_hub_without_its_trailing_space(hub):
    hub.rows = [{"sentence": "hide new secretions ", "label": 0, "idx": 0}]
    (row,) = load_task("sst2").rows("train")
    assert hub.asked == ("nyu-mll/glue", "sst2", "train")
    assert hub.offline == (False, False)
    assert row == ("nyu-mll/glue sst2 train row 0", {"sentence": "hide new secretions"}, 0)


def test_truth_values_of_boolq_become_labels(hub):
    hub.rows = [{"question": "is it", "answer": answer, "passage": "It is."} for answer in (True, False)]
    found = load_task("boolq").rows("validation")
    assert hub.asked == ("google/boolq", "validation")
    assert [row.label for row in found] == [1, 0]
    assert type(found[0].label) is int


def test_what_goes_wrong_at_the_hub_is_one_line_that_names_data(hub):
    hub.error = ConnectionError("Couldn't reach it\nand a page more")
    with pytest.raises(InputError) as caught:
        load_task("qnli").rows("train")
    assert str(caught.value) == (
        "nyu-mll/glue qnli cannot be read from the hub (Couldn't reach it); "
        "give a folder with train.jsonl as --data (--set problem.data=FOLDER for run, launch and audit), "
        "or set ZOCOSMO_DATA"
    )


def test_a_hub_that_does_not_answer_leaves_the_cache(hub, monkeypatch):
    """The library is offline while it loads, and as it was afterwards."""
    import datasets.config
    import huggingface_hub.constants

    monkeypatch.setattr(rows, "reachable", lambda address: False)
    hub.rows = [{"sentence": "a film", "label": 0}]
    assert len(load_task("sst2").rows("train")) == 1
    assert hub.offline == (True, True)
    assert (datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE) == (False, False)


def test_without_the_library_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"cannot be read from the hub \(.*datasets.*\); give a folder"):
        load_task("sst2").rows("train")


def test_the_real_library_fails_fast_where_there_is_no_hub(monkeypatch, tmp_path):
    pytest.importorskip("datasets")
    monkeypatch.setattr(rows, "reachable", lambda address: False)
    with pytest.raises(InputError, match=r"cannot be read from the hub \(offline, and not in its cache"):
        Hub("zocosmo-tests/no-such-data")("train", COLUMNS)


class Refuses(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_error(403)

    def log_message(self, *_):
        pass


def test_an_address_that_refuses_is_reachable_and_a_closed_port_is_not():
    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert rows.reachable(address, 10.0)
    assert not rows.reachable(address, 10.0)


# Shards


@given(st.integers(1, 200), st.data())
def test_contiguous_shards_are_runs_of_nearly_equal_length(count, data):
    n = data.draw(st.integers(1, count))
    parts = shards(np.zeros(count), n)
    sizes = [len(part) for part in parts]
    assert np.concatenate(parts).tolist() == list(range(count))
    assert len(parts) == n
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("how", ["iid", "dirichlet"])
def test_drawn_shards_are_those_of_split(how):
    labels = np.arange(100) % 2
    found = shards(labels, 4, how, alpha=2.0, tape=Tape(3))
    assert [part.tolist() for part in found] == [
        part.tolist() for part in split(labels, 4, how=how, alpha=2.0, tape=Tape(3))
    ]


@pytest.mark.parametrize("how", ["contiguous", "iid", "dirichlet"])
def test_no_shard_is_empty(how):
    with pytest.raises(InputError, match="5 nodes cannot share 3 rows; use 3 nodes or fewer"):
        shards(np.array([0, 1, 0]), 5, how, tape=Tape(0))


def test_shards_say_what_they_lack():
    with pytest.raises(
        InputError, match="shards 'even' is not known; choose from contiguous, iid, dirichlet"
    ):
        shards(np.zeros(3), 2, "even")
    with pytest.raises(InputError, match="iid shards are drawn from a tape; give tape="):
        shards(np.zeros(3), 2, "iid")
