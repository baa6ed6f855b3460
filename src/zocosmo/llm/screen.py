"""Which task to study: a rule that is fixed before any method runs   [tab:qwen_task_selection]"""

from collections.abc import Iterable
from typing import NamedTuple

from zocosmo.errors import InputError, check_whole

LEAST, BELOW = 0.55, 0.90  # accuracy of the model as it comes: above guessing, below its ceiling
MOST_ROWS = 6000  # of validation, since every checkpoint evaluates them all


class TaskCandidate(NamedTuple):
    """A task, and how the model does on it before any training."""

    task: str
    rows: int  # of the validation split
    accuracy: float  # share of them that the unmodified model gets right, 0 to 1
    labels: int = 2
    single_token: bool = True  # each label's word is one token of the model


class ScreenedTask(NamedTuple):
    """What the rule says about a candidate, and why, in words."""

    candidate: TaskCandidate
    eligible: bool
    selected: bool
    reason: str


def screen(candidates: Iterable[TaskCandidate]) -> list[ScreenedTask]:
    """Eligible: binary, single-token words, at most 6000 validation rows, accuracy in [55, 90) %.

    Of these, the one with the most validation rows is selected; of equals, the first. Order as given.

    >>> [v.selected for v in screen([TaskCandidate("mrpc", 408, 0.6912), TaskCandidate("qnli", 5463, 0.6079)])]
    [False, True]
    """
    listed = [check_candidate(candidate) for candidate in candidates]
    objections = [objection(candidate) for candidate in listed]
    eligible = [k for k, found in enumerate(objections) if not found]
    best = max(eligible, key=lambda k: listed[k].rows, default=None)  # the first of equals
    verdicts = []
    for k, (candidate, found) in enumerate(zip(listed, objections, strict=True)):
        if found or best is None:
            reason = found
        elif k == best:
            reason = f"selected: {candidate.rows} validation rows, the most of {len(eligible)} eligible"
        else:
            reason = f"eligible, but {listed[best].task} has more validation rows ({listed[best].rows})"
        verdicts.append(ScreenedTask(candidate, not found, k == best, reason))
    return verdicts


def objection(candidate: TaskCandidate) -> str:
    """Why a candidate is not eligible; empty if it is."""
    _, rows, accuracy, labels, single_token = candidate
    if labels != 2:
        return f"{labels} labels; the rule is for binary tasks"
    if not single_token:
        return "a label's word is several tokens of this model"
    if rows > MOST_ROWS:
        return f"{rows} validation rows, more than {MOST_ROWS}"
    if accuracy < LEAST:
        return f"accuracy {accuracy:.2%} is below {LEAST:.0%}: hardly more than guessing"
    if accuracy >= BELOW:
        return f"accuracy {accuracy:.2%} is {BELOW:.0%} or more: near the ceiling"
    return ""


def check_candidate(candidate: TaskCandidate) -> TaskCandidate:
    check_whole(f"the number of validation rows of {candidate.task}", candidate.rows, 1)
    if not 0.0 <= candidate.accuracy <= 1.0:
        raise InputError(f"the accuracy of {candidate.task} is a share from 0 to 1, got {candidate.accuracy}")
    return candidate
