"""Examples in rows: padded on the left, as long as the longest of a batch, and no longer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from zocosmo.llm.batches import Examples  # noqa: E402

CPU = torch.device("cpu")
TOKENS = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]


def examples(tokens, **given):
    rows = [np.array(row, np.int32) for row in tokens]
    return Examples(rows, np.arange(len(tokens)) % 2, **given)


def test_rows_end_where_the_answer_begins():
    batch = examples(TOKENS, filler=4).batch(np.array([1, 0]), CPU)
    assert batch.tokens.tolist() == [[4, 4, 8], [5, 6, 7]]  # not as long as an example that is not asked for
    assert batch.mask.tolist() == [[0, 0, 1], [1, 1, 1]]
    assert batch.places.tolist() == [[0, 0, 0], [0, 1, 2]]
    assert batch.labels.tolist() == [1, 0]


@given(
    tokens=st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=6),
    picked=st.lists(st.integers(0, 5), min_size=1, max_size=8),
)
def test_what_is_not_padding_is_the_example(tokens, picked):
    """Examples may be asked for in any order and more than once."""
    rows = np.array([k % len(tokens) for k in picked])
    batch = examples(tokens).batch(rows, CPU)
    assert [t[m == 1].tolist() for t, m in zip(batch.tokens, batch.mask, strict=True)] == [
        tokens[k] for k in rows
    ]
    assert [p[m == 1].tolist() for p, m in zip(batch.places, batch.mask, strict=True)] == [
        list(range(len(tokens[k]))) for k in rows
    ]
    assert batch.tokens.shape[1] == max(len(tokens[k]) for k in rows)
    assert batch.labels.tolist() == (rows % 2).tolist()


def test_repeated_batches_stand_one_after_the_other():
    once = examples(TOKENS).batch(np.array([0, 2]), CPU)
    for part, whole in zip(once, once.repeat(3), strict=True):
        assert torch.equal(whole, torch.cat([part, part, part]))
    assert once.repeat(1) is once


def test_lengths_and_labels_are_those_given():
    assert examples(TOKENS).lengths.tolist() == [3, 1, 5]
    assert len(examples(TOKENS)) == 3
    assert examples(TOKENS).batch(np.array([2]), CPU).tokens.dtype == torch.int64  # as embeddings want them


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5))
def test_by_length_every_example_comes_once_beside_others_of_its_length(lengths, each):
    parts = list(examples([[1] * length for length in lengths]).by_length(each, CPU))
    rows = [k for part, _ in parts for k in part.tolist()]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[k] for k in rows] == sorted(lengths)
    assert [batch.tokens.shape for _, batch in parts] == [
        (len(part), max(lengths[k] for k in part)) for part, _ in parts
    ]
