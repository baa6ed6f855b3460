import dataclasses
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import MANIFEST as BASE
from zocosmo.core import Manifest, Tape, check_same_session
from zocosmo.errors import InputError, ManifestMismatch, MessageError


def changed(**fields):
    return dataclasses.replace(BASE, **fields)


def test_the_bytes_are_canonical():
    """Order of parameters does not show, and floats are written by their bits."""
    again = changed(parameters={"coupling": "I", "beta": 0.0, "eta": 0.1})
    assert again.to_bytes() == BASE.to_bytes()
    assert b'"eta":{"float":"0x1.999999999999ap-4"}' in BASE.to_bytes()


def test_bytes_come_back_as_the_same_manifest():
    back = Manifest.from_bytes(BASE.to_bytes())
    assert back == BASE
    assert back.fingerprint() == BASE.fingerprint()


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    )
)
def test_any_parameters_come_back(parameters):
    assert Manifest.from_bytes(changed(parameters=parameters).to_bytes()).parameters == parameters


@pytest.mark.parametrize(
    ("fields", "report"),
    [
        ({"d": 101}, "d: ours 100, theirs 101"),
        ({"q": 9}, "q: ours 8, theirs 9"),
        ({"method": "cosmo"}, "method: ours 'edge_local', theirs 'cosmo'"),
        ({"schedule": "iid"}, "schedule: ours 'alternating', theirs 'iid'"),
        ({"value": "bf16"}, "value: ours 'f32', theirs 'bf16'"),
        ({"codec": "indexed"}, "codec: ours 'values', theirs 'indexed'"),
        ({"protocol": 2}, "protocol: ours 1, theirs 2"),
        ({"n": 5}, "n: ours 4, theirs 5"),
        ({"edges": ((0, 1), (1, 2), (2, 3))}, "edges: ours 4 edges (0-3 only here), theirs 3 edges"),
        ({"parameters": {**BASE.parameters, "eta": 0.2}}, "parameters.eta: ours 0.1, theirs 0.2"),
        ({"parameters": {"eta": 0.1, "beta": 0.0}}, "parameters.coupling: ours 'I', theirs absent"),
    ],
)
def test_a_difference_is_reported_by_its_field(fields, report):
    other = changed(**fields)
    assert [str(found) for found in BASE.differences(other)] == [report]
    assert other.fingerprint() != BASE.fingerprint()


def test_another_seed_is_reported_without_showing_it():
    other = changed(seed_commitment=Tape("other").commitment())
    with pytest.raises(
        ManifestMismatch, match=r"node 2 .* seed_commitment: ours [0-9a-f]{12}…, theirs [0-9a-f]{12}…;"
    ):
        check_same_session(BASE, other, peer=2)


def test_all_differences_are_reported_at_once():
    with pytest.raises(ManifestMismatch, match=r"d: ours 100, theirs 7; q: ours 8, theirs 2; method"):
        check_same_session(BASE, changed(d=7, q=2, method="dense"), peer=1)


def test_equal_manifests_pass():
    check_same_session(BASE, Manifest.from_bytes(BASE.to_bytes()), peer=1)
    assert BASE.differences(BASE) == []


def test_values_that_python_calls_equal_still_differ():
    for ours, theirs in ((0.0, -0.0), (1, 1.0), (1, True)):
        assert changed(parameters={"a": ours}).differences(changed(parameters={"a": theirs}))


def test_a_parameter_that_is_absent_differs_from_one_that_says_so():
    for value in ("absent", None):
        with pytest.raises(ManifestMismatch, match=r"parameters.clip: ours ('absent'|None), theirs absent"):
            check_same_session(changed(parameters={"clip": value}), changed(parameters={}), peer=1)


def test_a_report_stays_on_one_line_and_tells_text_from_numbers():
    (found,) = changed(method="a\nb").differences(changed(method="c"))
    assert str(found) == "method: ours 'a\\nb', theirs 'c'"
    (found,) = changed(parameters={"k": 1}).differences(changed(parameters={"k": "1"}))
    assert str(found) == "parameters.k: ours 1, theirs '1'"


def test_manifests_are_equal_where_their_bytes_are():
    assert changed(parameters={"a": 1}) != changed(parameters={"a": True})
    assert len({BASE, changed(d=100), changed(d=101)}) == 2


def test_a_manifest_does_not_change_with_what_it_was_made_from():
    parameters = {"a": 1}
    manifest = changed(parameters=parameters)
    before = manifest.fingerprint()
    parameters["a"] = 2
    assert manifest.fingerprint() == before


def test_numpy_numbers_are_taken_as_numbers():
    edges = tuple((np.int64(i), np.int64(j)) for i, j in BASE.edges)
    assert changed(d=np.int64(100), edges=edges) == BASE


def test_mutated_manifests_raise_only_our_errors():
    """20,000 of them: bytes overwritten, dropped and doubled, numbers blown up."""
    rng, data, accepted = random.Random(3), BASE.to_bytes(), 0
    swaps = [
        (b"[0,1]", b"[0,1e999]"),
        (b"0x1.9", b"0x1p99999"),
        (b":100", b":-1"),
        (b"null", b"[]"),
        (b'"', b"{"),
    ]
    for _ in range(20_000):
        at, size = rng.randrange(len(data)), rng.randrange(4)
        mutant = data[:at] + rng.randbytes(rng.randrange(3)) + data[at + size :]
        mutant = mutant.replace(*rng.choice(swaps)) if rng.random() < 0.3 else mutant
        try:
            accepted += Manifest.from_bytes(mutant).to_bytes() == mutant
        except MessageError:
            continue
    assert accepted < 20_000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        BASE.to_bytes()[:-1],
        BASE.to_bytes() + b" ",
        BASE.to_bytes().replace(b'"d":100', b'"d":"100"'),
        BASE.to_bytes().replace(b'"d":100', b'"d":0'),
        BASE.to_bytes().replace(b'"d":100', b'"d":true'),
        BASE.to_bytes().replace(b'"q":8', b'"q":8,"zeal":1'),
        BASE.to_bytes().replace(b"[0,1]", b"[1,0]"),
        BASE.to_bytes().replace(b'"f32"', b'"f31"'),
        BASE.to_bytes().replace(b"0x1.9", b"0x1.z"),
        json.dumps(json.loads(BASE.to_bytes())).encode(),
    ],
)
def test_bytes_that_are_no_manifest_are_refused(data):
    with pytest.raises(MessageError, match="manifest"):
        Manifest.from_bytes(data)


@pytest.mark.parametrize(
    "fields",
    [
        {"q": 0},
        {"n": 0},
        {"codec": "zip"},
        {"method": 3},
        {"parameters": {"x": [1]}},
        {"parameters": {1: 2}},
        {"edges": ((1, 0),)},
        {"edges": ((1, 1),)},
        {"edges": ((0, 99),)},
        {"edges": ((-5, 1),)},
    ],
)
def test_a_manifest_that_cannot_be_is_refused(fields):
    with pytest.raises(InputError):
        changed(**fields)
