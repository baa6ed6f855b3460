"""Choose the task to study by a rule fixed before any method runs   [tab:qwen_task_selection]"""

from collections.abc import Iterable
from typing import NamedTuple

from zocosmo.errors import InputError, check_whole

LEAST, BELOW = 0.55, 0.90  # accuracy of the unmodified model: above chance, below the ceiling
MOST_ROWS = 6000  # every checkpoint evaluates all validation rows


class TaskCandidate(NamedTuple):
    """A task, and the unmodified model's accuracy on it."""

    task: str
    rows: int  # of the validation split
    accuracy: float  # 0 to 1
    labels: int = 2
    single_token: bool = True  # whether each label word is one token


class ScreenedTask(NamedTuple):
    """The rule's verdict on a candidate, and the reason."""

    candidate: TaskCandidate
    eligible: bool
    selected: bool
    reason: str


def screen(candidates: Iterable[TaskCandidate]) -> list[ScreenedTask]:
    """Eligible: binary, single-token words, at most 6000 validation rows, accuracy in [55, 90) %.

    The eligible task with the most validation rows is selected; ties go to the first.

    >>> tasks = TaskCandidate("mrpc", 408, 0.6912), TaskCandidate("qnli", 5463, 0.6079)
    >>> [each.selected for each in screen(tasks)]
    [False, True]
    """
    listed = list(candidates)
    for task, rows, accuracy, *_ in listed:
        check_whole(f"the number of validation rows of {task}", rows, 1)
        if not 0.0 <= accuracy <= 1.0:
            raise InputError(f"the accuracy of {task} must be from 0 to 1, got {accuracy}")
    objections = [objection(candidate) for candidate in listed]
    eligible = [k for k, found in enumerate(objections) if not found]
    best = max(eligible, key=lambda k: listed[k].rows, default=None)
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
        return "a label word is several tokens in this model"
    if rows > MOST_ROWS:
        return f"{rows} validation rows, more than {MOST_ROWS}"
    if accuracy < LEAST:
        return f"accuracy {accuracy:.2%} is below {LEAST:.0%}: close to chance"
    if accuracy >= BELOW:
        return f"accuracy {accuracy:.2%} is {BELOW:.0%} or more: near the ceiling"
    return ""
