"""The file of events: what it holds, and what is refused."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.errors import InputError
from zocosmo.terms import (
    Dead,
    Half,
    Header,
    Join,
    Leave,
    Record,
    Repaired,
    Skip,
    append_events,
    read_events,
    write_events,
)

HEADER = Header(plan="abc", n=4, seed=7)
FIRST = json.dumps(HEADER.plain())
EVENTS = (
    Join(round=5, node=4, name="ada", share=1, source=0),
    Leave(round=5, node=1),
    Dead(round=9, node=2, since=6),
    Skip(round=3, pair=(1, 0)),
    Half(round=3, pair=(2, 3), by=3),
    Half(round=3, pair=(2, 3), by=2, stage="level"),
    Repaired(round=4, pair=(2, 3), by=3),
)


def test_what_is_written_is_read_back(tmp_path):
    record = Record(HEADER, EVENTS)
    write_events(tmp_path / "e.jsonl", record)
    assert read_events(tmp_path / "e.jsonl") == record


def test_the_order_of_lines_and_doubles_do_not_matter(tmp_path):
    write_events(tmp_path / "e.jsonl", Record(HEADER, EVENTS[:2]))
    append_events(tmp_path / "e.jsonl", [*EVENTS[:1:-1], EVENTS[0]])
    found = read_events(tmp_path / "e.jsonl")
    assert found == Record(HEADER, EVENTS)
    assert found.digest == Record(HEADER, EVENTS).digest != Record(HEADER, EVENTS[1:]).digest


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "e.jsonl:2: this line is not JSON"),
        ("[1]", "a line is a mapping"),
        ('{"event": "rest", "round": 1}', "event must be one of join, leave, dead"),
        ('{"event": "leave", "round": 1}', "leave lacks 'node'"),
        ('{"event": "leave", "round": 1, "node": 1, "why": 2}', "unknown field 'why'; leave has round, node"),
        ('{"event": "leave", "round": 1.5, "node": 1}', "round must be a whole number, got 1.5"),
        ('{"event": "leave", "round": true, "node": 1}', "round must be"),
        ('{"event": "leave", "round": -1, "node": 1}', "round must be 0 or more"),
        ('{"event": "dead", "round": 3, "node": 1, "since": 4}', "since must be between 0 and 3"),
        ('{"event": "skip", "round": 3, "pair": [1, 1]}', "pair must be two members, got \\[1, 1\\]"),
        ('{"event": "skip", "round": 3, "pair": 4}', "pair must be two members"),
        ('{"event": "skip", "round": 3, "pair": [0, 1], "stage": "sum"}', "stage must be values or level"),
        ('{"event": "half", "round": 3, "pair": [0, 1], "by": 2}', "by must be one of the pair \\[0, 1\\]"),
        ('{"event": "join", "round": 3, "node": 4, "source": 0, "share": 0, "name": 3}', "name must be text"),
    ],
)
def test_a_line_that_cannot_be_is_refused_with_its_number(tmp_path, line, words):
    (tmp_path / "e.jsonl").write_text(f"{FIRST}\n{line}\n")
    with pytest.raises(InputError, match=words):
        read_events(tmp_path / "e.jsonl")


@pytest.mark.parametrize("text", ["", "{}", '{"format": "zocosmo events", "version": 2, "plan": "", "n": 1}'])
def test_a_file_without_its_first_line_is_refused(tmp_path, text):
    (tmp_path / "e.jsonl").write_text(text)
    with pytest.raises(InputError, match="first line"):
        read_events(tmp_path / "e.jsonl")


@given(st.binary(max_size=60), st.integers(0, 200))
def test_damaged_files_raise_input_errors_only(tmp_path_factory, noise, at):
    """Noise written over a record is read as events, or refused; no other error comes out."""
    path = tmp_path_factory.mktemp("r") / "e.jsonl"
    whole = "".join(Record(HEADER, EVENTS).lines()).encode()
    path.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    with suppress(InputError):
        read_events(path)
