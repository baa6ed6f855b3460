"""The map of the paper: no label is unaccounted for, and what it points to is there."""

import re
from pathlib import Path

import pytest

from zocosmo_paper.items import all_items
from zocosmo_paper.labels import KINDS, citing, listed, places

ROOT = Path(__file__).parents[2]
PAPER = ROOT.parent / "shared" / "paper.tex"


@pytest.fixture(scope="module")
def found():
    return places(ROOT)


def test_every_label_has_a_file_a_command_or_a_reason(found):
    assert [place.listed.label for place in found if not place.is_accounted_for] == []


def test_every_theorem_proposition_and_lemma_is_on_the_board(found):
    named = {"theorem", "proposition", "lemma"}
    missing = [p.listed.label for p in found if p.listed.kind in named and not (p.items or p.listed.see)]
    assert missing == []


def test_every_table_and_figure_is_on_the_board(found):
    missing = [p.listed.label for p in found if p.listed.kind in ("table", "figure") and not p.items]
    assert {p.listed.see for p in found if p.listed.label in missing} <= {
        "thm:one_hop_compatibility",  # a drawing
        "fig:qwen_training_restored",  # its panels
    }


def test_labels_are_listed_once_and_point_to_labels_or_files():
    lines = listed()
    labels = [line.label for line in lines]
    assert len(set(labels)) == len(labels)
    assert all(line.label.partition(":")[0] in KINDS for line in lines)
    assert all(line.see in labels or (ROOT / line.see).is_file() for line in lines if line.see)


def test_a_label_that_only_begins_another_is_not_cited():
    texts = {"a": "[eq:corr_variance]", "b": "eq:corr_variance_more, eq:corr_variance."}
    assert list(citing("eq:corr_variance", texts)) == ["a", "b"]
    assert list(citing("eq:corr", texts)) == []


def test_labels_of_items_are_labels_of_the_paper():
    known = {line.label for line in listed()}
    assert {label for item in all_items().values() for label in item.labels} <= known


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
def test_the_map_lists_the_labels_of_the_paper():
    text = PAPER.read_text(encoding="utf-8")
    assert [line.label for line in listed()] == list(dict.fromkeys(re.findall(r"\\label\{([^}]*)\}", text)))
