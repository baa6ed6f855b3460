"""Damaged files and store entries are refused with one line of ours, in no time."""

import time

import pytest

pytest.importorskip("torch")

from damage import SLOW, endless_gguf, fuzz, laughs, readers
from zocosmo.errors import ConfigError, InputError
from zocosmo.experiments.config import Config

IGNORED = ("checkpoint", "its json")  # damaged ones are no checkpoints
EACH = 60  # mutants of every kind; benchmarks/fuzz.py makes thousands


def test_every_reader_refuses_what_it_cannot_read_with_an_error_of_ours(tmp_path):
    fared, slowest = fuzz(EACH, 5, tmp_path)
    assert {name: sum(counts.values()) for name, counts in fared.items()} == dict.fromkeys(fared, EACH)
    assert all(set(counts) != {"read"} for name, counts in fared.items() if name not in IGNORED)
    assert max(slowest.values()) < SLOW


def test_what_is_not_damaged_is_read(tmp_path):
    for name, reader in readers(tmp_path).items():
        if name not in ("verdict", "ended"):  # of which one is a refusal
            reader.read(reader.honest[0])


def test_aliases_of_aliases_are_refused_before_they_are_written_out():
    text, since = laughs(), time.process_time()
    assert len(text) < 570
    with pytest.raises(ConfigError, match=r"few.yaml:1: aliases repeat more than 10,000 entries"):
        Config(text, "few.yaml")
    assert time.process_time() - since < SLOW


def test_aliases_in_keys_are_refused_too():
    with pytest.raises(ConfigError, match="keys are text"):
        Config("? [1, 2]\n: 3\n", "few.yaml")


def test_a_few_aliases_are_what_they_stand_for():
    text = "a: &a {x: 1, y: [2, 3]}\nb: *a\nc: [*a, *a]\n"
    assert Config(text, "few.yaml").data["c"] == [{"x": 1, "y": [2, 3]}] * 2


def test_a_gguf_that_announces_more_than_it_holds_is_refused_at_once(tmp_path):
    pytest.importorskip("gguf")
    from zocosmo.llm.convert import _header

    file, since = tmp_path / "endless.gguf", time.process_time()
    file.write_bytes(endless_gguf())
    assert file.stat().st_size < 500
    with pytest.raises(InputError, match=r"endless.gguf is not a complete GGUF \(.*beyond the end\)"):
        _header(file)
    assert time.process_time() - since < SLOW
