"""Sizes of real messages, and times of which only the order counts."""

import math
import sys
from pathlib import Path

import pytest

from zocosmo.errors import InputError
from zocosmo_paper.item import Evidence
from zocosmo_paper.items import wire
from zocosmo_paper.items.wire import SERIALISED, slower

BYTES = {"values": 4 * 8192, "indexed": 8 * 8192, "dense": 4 * 2_523_136}


def report(**micro):
    times = {"values": 100.0, "indexed": 130.0, "dense": 2000.0, **micro}
    rows = [
        {"name": name, "bytes": BYTES[name], "median_us": us, "low_us": 0.9 * us, "high_us": 1.1 * us}
        for name, us in times.items()
    ]
    return {"rows": rows}


def verdicts(found):
    return {claim.words: claim.verdict for claim in found.claims}


@pytest.fixture
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(wire, "TRIALS", 3)
    monkeypatch.setattr(wire, "REPEATS", 2)
    return Evidence({}, None, tmp_path)


def transfer(monkeypatch, tmp_path, found):
    monkeypatch.setattr(wire, "_measure", lambda: found)
    return wire.find_transfer(Evidence({}, None, tmp_path))


def test_messages_have_the_printed_sizes(quick):
    found = verdicts(wire.find_serialisation(quick))
    sizes = {words: verdict for words, verdict in found.items() if "longer" not in words}
    assert set(sizes.values()) == {"within"}
    assert len(sizes) == 7


def test_another_printed_size_flips_its_verdict(quick, monkeypatch):
    monkeypatch.setitem(SERIALISED["LoRA"].kib, "indexed", "54.1")
    found = verdicts(wire.find_serialisation(quick))
    assert [words for words, verdict in found.items() if verdict == "no"] == ["LoRA: min. indexed, KiB"]


@pytest.mark.parametrize(("plain", "verdict"), [(3.0, "ordering"), (1.0, "no"), (0.5, "no")])
def test_only_the_order_of_times_is_judged(quick, monkeypatch, plain, verdict):
    monkeypatch.setattr(wire, "_round_trip", lambda codec, d: plain if codec.name == "plain" else 1.0)
    found = wire.find_serialisation(quick)
    assert verdicts(found)["LoRA: indexed messages take longer than values"] == verdict


def test_no_time_stands_in_tables_and_ratios_are_not_counted(quick):
    """They would not be the same twice; times.md has them, and the board their ratio, as a check of ours."""
    one, two = wire.find_serialisation(quick), wire.find_serialisation(quick)
    assert one.tables == two.tables
    assert [c[:2] for c in one.claims] == [c[:2] for c in two.claims]
    timed = [c for c in one.claims if "longer" in c.words]
    assert [c.kind for c in timed] == ["check"] * 2
    assert all(math.isfinite(c.ours) for c in timed)
    assert "µs on this machine" in (quick.folder / "times.md").read_text(encoding="utf-8")


def test_transfers_have_the_printed_sizes_and_order(monkeypatch, tmp_path):
    found = transfer(monkeypatch, tmp_path, report())
    assert [claim.verdict for claim in found.claims] == ["within"] * 4 + ["ordering"] * 2
    assert "1.30×" in (tmp_path / "times.csv").read_text(encoding="utf-8")
    ratio = next(claim for claim in found.claims if claim.words == wire.DOUBLE)
    assert (ratio.kind, ratio.ours) == ("check", 1.3)
    assert (ratio.low, ratio.high) == pytest.approx((1.3 * 0.9 / 1.1, 1.3 * 1.1 / 0.9))


@pytest.mark.parametrize("micro", [40_000.0, 50.0])
def test_an_order_that_fails_is_told(monkeypatch, tmp_path, micro):
    """Dense messages 400 times as long for 308 times the bits, or faster than values."""
    found = transfer(monkeypatch, tmp_path, report(dense=micro))
    assert [claim.verdict for claim in found.claims] == ["within"] * 4 + ["ordering", "no"]


@pytest.mark.parametrize(("micro", "verdict"), [(130.0, "ordering"), (90.0, "no"), (250.0, "no")])
def test_twice_the_bytes_must_take_longer_and_less_than_twice_as_long(monkeypatch, tmp_path, micro, verdict):
    found = transfer(monkeypatch, tmp_path, report(indexed=micro))
    assert verdicts(found)[wire.DOUBLE] == verdict


def test_a_ratio_is_compared_with_open_ends():
    assert [slower("x", "2", ratio, most=3.0).verdict for ratio in (1.0, 2.0, 3.0)] == [
        "no",
        "ordering",
        "no",
    ]


def test_without_torch_nothing_is_run(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zocosmo.dist.bench", None)
    found = wire.find_transfer(Evidence({}, None, tmp_path))
    assert {claim.verdict for claim in found.claims} == {"not run"}
    assert len(found.claims) == 6


def test_processes_that_do_not_meet_are_a_claim_not_run(monkeypatch):
    def fail():
        raise InputError("the two processes ended with code 1")

    monkeypatch.setattr(wire, "_measure", fail)
    found = wire.find_transfer(Evidence({}, None, Path("nowhere")))
    assert all("ended with code 1" in claim.note for claim in found.claims)


@pytest.mark.slow
def test_two_real_processes_send_the_printed_bytes(tmp_path):
    pytest.importorskip("torch")
    found = wire.find_transfer(Evidence({}, None, tmp_path))
    assert [claim.verdict for claim in found.claims[:4]] == ["within"] * 4
