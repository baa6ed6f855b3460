"""The screening rule, on the paper's own table and at its edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.errors import InputError
from zocosmo.llm.screen import TaskCandidate, screen

PAPER = [  # tab:qwen_task_selection
    TaskCandidate("qnli", 5463, 0.6079),
    TaskCandidate("boolq", 3270, 0.8101),
    TaskCandidate("mrpc", 408, 0.6912),
    TaskCandidate("rte", 277, 0.7834),
]
CANDIDATES = st.builds(
    TaskCandidate,
    st.text(max_size=3),
    st.integers(1, 9000),
    st.floats(0, 1),
    st.integers(2, 3),
    st.booleans(),
)


def test_the_paper_selects_qnli_of_four_eligible_tasks():
    found = screen(PAPER)
    assert [verdict.selected for verdict in found] == [True, False, False, False]
    assert all(verdict.eligible for verdict in found)
    assert found[0].reason == "selected: 5463 validation rows, the most of 4 eligible"
    assert found[3].reason == "eligible, but qnli has more validation rows (5463)"


def test_sst2_is_out_because_it_starts_at_its_ceiling():
    verdict = screen([*PAPER, TaskCandidate("sst2", 872, 0.9484)])[-1]
    assert verdict[1:] == (False, False, "accuracy 94.84% is 90% or more: near the ceiling")


@pytest.mark.parametrize(
    ("rows", "accuracy", "eligible"),
    [(20, 11 / 20, True), (1000, 549 / 1000, False), (10, 9 / 10, False), (1000, 899 / 1000, True)],
)
def test_accuracy_from_55_up_to_but_not_90_percent(rows, accuracy, eligible):
    assert screen([TaskCandidate("a", rows, accuracy)])[0].eligible == eligible


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 6001}, "6001 validation rows, more than 6000"),
        ({"labels": 3}, "3 labels; the rule is for binary tasks"),
        ({"single_token": False}, "a label word is several tokens in this model"),
        ({"accuracy": 0.5}, "accuracy 50.00% is below 55%: close to chance"),
    ],
)
def test_each_rejection_has_its_reason(change, reason):
    assert screen([PAPER[0]._replace(**change)])[0].reason == reason


def test_six_thousand_rows_are_still_allowed():
    assert screen([TaskCandidate("a", 6000, 0.7)])[0].selected


def test_of_equals_the_first_is_selected():
    verdicts = screen([TaskCandidate("a", 9, 0.6), TaskCandidate("b", 9, 0.7)])
    assert [verdict.selected for verdict in verdicts] == [True, False]


@given(st.lists(CANDIDATES))
def test_one_is_selected_whenever_one_is_eligible(candidates):
    found = screen(candidates)
    eligible = [verdict.candidate.rows for verdict in found if verdict.eligible]
    assert [verdict.candidate for verdict in found] == candidates
    assert [v.candidate.rows for v in found if v.selected] == ([max(eligible)] if eligible else [])
    assert all(verdict.reason for verdict in found)


def test_percentages_are_refused():
    with pytest.raises(InputError, match=r"accuracy of qnli must be from 0 to 1, got 60.79"):
        screen([TaskCandidate("qnli", 5463, 60.79)])
