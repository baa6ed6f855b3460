"""zocosmo screen: choose a task by a rule fixed before any method runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table

from zocosmo.cli.common import app, needing_llm, print_report, stderr_bar
from zocosmo.cli.options import JsonOption, option
from zocosmo.errors import InputError

if TYPE_CHECKING:
    from zocosmo.llm.evaluate import Done, Scores
    from zocosmo.llm.screen import ScreenedTask

TASKS = "qnli,boolq,mrpc,rte"


@app.command()
def screen(
    model: Annotated[str, option("smollm2, a folder, or a name on the hub.")],
    tasks: Annotated[str, option("Names or .yaml files, separated by commas.")] = TASKS,
    data: Annotated[str | None, option("Folder with TASK/validation.jsonl and train.jsonl.")] = None,
    dtype: Annotated[str, option("float32, tf32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, option("auto, cpu, cuda, cuda:1, ….")] = "auto",
    max_tokens: Annotated[int, option("Maximum prompt length; longer ones are cut.")] = 256,
    batch: Annotated[int, option("Examples per forward pass.")] = 64,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the unmodified model on whole validation sets, and choose a task by the paper's rule.

    Eligible are binary tasks with single-token words, at most 6000 validation rows, and an accuracy of at
    least 55 % and below 90 %; the one with the most rows is selected.

    Example: zocosmo screen --model smollm2 --tasks mrpc,rte --data data
    """
    with needing_llm("screen"):
        from zocosmo.llm.evaluate import score_tasks
    from zocosmo.llm.screen import screen as judge

    names = list(dict.fromkeys(name.strip() for name in tasks.split(",") if name.strip()))
    if not names:
        raise InputError(f"--tasks is empty; give names such as {TASKS}")
    with _bar() as done:
        given = {"dtype": dtype, "device": device, "max_tokens": max_tokens, "each": batch}
        found = list(score_tasks(model, names, data, done=done, **given))  # type: ignore[arg-type]
    verdicts = judge(candidate for candidate, _ in found)
    scores = [each for _, each in found]
    print_report(
        as_report(model, verdicts, scores), as_json, lambda console: _show(verdicts, scores, console)
    )


def as_report(model: str, verdicts: list["ScreenedTask"], scores: list["Scores | None"]) -> dict[str, Any]:
    listed = [
        {
            "task": each.candidate.task,
            "rows": each.candidate.rows,
            "accuracy": None if score is None else score.accuracy,
            "nll": None if score is None else score.nll,
            "eligible": each.eligible,
            "selected": each.selected,
            "reason": each.reason,
        }
        for each, score in zip(verdicts, scores, strict=True)
    ]
    return {"model": model, "selected": _selected(verdicts), "tasks": listed}


def _selected(verdicts: list["ScreenedTask"]) -> str | None:
    return next((each.candidate.task for each in verdicts if each.selected), None)


def _show(verdicts: list["ScreenedTask"], scores: list["Scores | None"], console: Console) -> None:
    table = Table("task", "rows", "accuracy", "label loss", "verdict", box=None, pad_edge=False)
    for column in table.columns[1:4]:
        column.justify = "right"
    for each, score in zip(verdicts, scores, strict=True):
        numbers = ("–", "–") if score is None else (f"{score.accuracy:.2%}", f"{score.nll:.4f}")
        table.add_row(each.candidate.task, f"{each.candidate.rows:,}", *numbers, each.reason)
    console.print(table)
    chosen = _selected(verdicts)
    none = "no task is eligible; try other tasks or another model"
    print(none if chosen is None else f"selected: {chosen}")


@contextmanager
def _bar() -> Iterator["Done"]:
    """A bar for each task on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bars: dict[str, Any] = {}
    with stderr_bar("{task.description}", *columns) as progress:

        def done(task: str, rows: int, k: int) -> None:
            if task not in bars:
                bars[task] = progress.add_task(task, total=rows)
            progress.update(bars[task], completed=k)

        yield done
