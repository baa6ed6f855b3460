"""The generated task: the same bytes for ever, two balanced splits, and more than a list of words."""

import hashlib
import json
import re

import pytest

from zocosmo.errors import InputError
from zocosmo.llm.tasks import load_task
from zocosmo.llm.toy import MILD, STRONG

TASK = load_task("toy")
ROWS = {split: TASK.rows(split) for split in ("train", "validation")}


def digest(split):
    text = "".join(json.dumps([row.fields["sentence"], row.label]) + "\n" for row in ROWS[split])
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("split", "golden"),
    [
        ("train", "d3e2a59f0163ecab3cab5010920b1b97e9f5b098e0afaa3fc49af957f38c1af5"),
        ("validation", "80219404a6c610f6141160682fadef71d98045ae6ce3c4565ff4580ab4903247"),
    ],
)
def test_the_bytes_stay(split, golden):
    """Results name this task: other rows need another name."""
    assert digest(split) == golden


@pytest.mark.parametrize(("split", "count"), [("train", 2000), ("validation", 400)])
def test_splits_have_their_size_and_as_many_good_as_bad(split, count):
    assert len(ROWS[split]) == count
    assert sum(row.label for row in ROWS[split]) == count // 2


def test_no_text_occurs_twice():
    texts = [row.fields["sentence"] for split in ROWS for row in ROWS[split]]
    assert len(set(texts)) == len(texts) == 2400


def test_labels_stand_in_no_pattern():
    """Of two rows one is positive; which one is a fair coin: 1000 of them, 5 standard deviations are 79."""
    firsts = sum(row.label for row in ROWS["train"][::2])
    assert abs(firsts - 500) < 79


def test_texts_look_like_sentences():
    for row in (*ROWS["train"], *ROWS["validation"]):
        assert re.fullmatch(
            r"[A-Z][a-z0-9 ,.:-]*(I [a-z ]*|My [a-z ]*|[A-Z][a-z ]*)?\.", row.fields["sentence"]
        ), row


def test_the_answer_is_never_in_the_text():
    """A model must not win by copying a word that it has just read."""
    assert not any(word in row.fields["sentence"] for row in ROWS["train"] for word in TASK.words)


def test_words_do_not_give_the_label_away():
    """Each side's words stand in many rows of the other: someone who counts them is often wrong."""
    counts = []
    for row in ROWS["train"]:
        text = row.fields["sentence"]
        good, bad = (sum(word in text for word in (*STRONG[k], *MILD[k])) for k in (1, 0))
        counts.append((good > bad) == row.label if good != bad else 0.5)
    assert 0.5 < sum(counts) / len(counts) < 0.75


def test_a_rule_that_reads_negation_and_the_last_clause_is_right():
    """The task can be solved: the last clause that judges, turned round where it says no."""
    negation = re.compile(r"\b(not|never|by no means|anything but|far from being)\b")
    side = {word: k for k in (0, 1) for word in (*STRONG[k], *MILD[k])}
    for row in ROWS["validation"]:
        clause = re.findall(r"was ([^,.]*)", row.fields["sentence"])[-1]
        (found,) = {side[word] for word in side if re.search(rf"\b{word}$", clause)}
        assert (1 - found if negation.search(clause) else found) == row.label


def test_an_unknown_split_is_refused():
    with pytest.raises(InputError, match="split 'test' is not known"):
        TASK.rows("test")
