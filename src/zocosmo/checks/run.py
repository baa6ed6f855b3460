"""All checks of all settings of a plan, each row once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from zocosmo.checks.bits import BITS, BUDGET
from zocosmo.checks.check import Check
from zocosmo.checks.difference import BIAS
from zocosmo.checks.draws import COVERAGE, EDGES, GAP, MARGINALS
from zocosmo.checks.mix import BLOCK, MIXING
from zocosmo.checks.paths import EXPECTED, STABLE
from zocosmo.checks.row import ABSENT, DISAGREES, About, Row
from zocosmo.checks.setting import Setting
from zocosmo.checks.updates import CERTIFIED, MOMENTS, STEP
from zocosmo.errors import InputError, check_whole
from zocosmo.experiments.plan import Plan

LEAST_TAPES, MOST_TAPES = 30, 100_000  # fewer have no variance to speak of

CHECKS: tuple[Check, ...] = (
    BITS,
    BUDGET,
    MARGINALS,
    COVERAGE,
    EDGES,
    GAP,
    MIXING,
    BLOCK,
    MOMENTS,
    STEP,
    BIAS,
    CERTIFIED,
    STABLE,
    EXPECTED,
)

Tick = Callable[[int, int, str], None]  # done, of how many, what comes next


class Job(NamedTuple):
    check: Check
    setting: Setting
    words: str


def check_plans(
    plans: Sequence[Plan], tapes: int = 256, tick: Tick | None = None, *, only: str = ""
) -> list[Row]:
    """Hold every formula that applies against what our code does; what does not apply comes last.

    `only` leaves the checks whose formula has that text, such as "certified".
    """
    check_whole("the number of tapes", tapes, LEAST_TAPES, MOST_TAPES)
    checks = select(only)
    settings = [each for plan in plans for each in settings_of(plan, tapes)]
    jobs, missing = jobs_of(settings, checks)
    rows: list[Row] = []
    for k, job in enumerate(jobs):
        if tick is not None:
            tick(k, len(jobs), job.check.formula)
        about = About(job.check.formula, job.check.label, job.words)
        try:
            rows += job.check.rows(job.setting, about)
        except InputError:
            raise
        except ValueError as error:  # theory knows no error of ours
            raise InputError(f"{job.check.formula}, {job.words}: {error}") from error
    return [*rows, *missing]


def settings_of(plan: Plan, tapes: int) -> Iterator[Setting]:
    """One for each method × graph × problem: the trials of the first seed."""
    first = plan.trials[0].seed
    for trial in plan.trials:
        if trial.seed == first:
            yield Setting(trial, plan, tapes)


def select(only: str) -> tuple[Check, ...]:
    """The checks whose formula has a text, in any case of letters; all of them if it is empty."""
    found = tuple(check for check in CHECKS if only.casefold() in check.formula.casefold())
    if not found:
        names = ", ".join(check.formula for check in CHECKS)
        raise InputError(f"no formula has {only!r} in its name; choose from {names}")
    return found


def jobs_of(settings: Iterable[Setting], checks: Sequence[Check] = CHECKS) -> tuple[list[Job], list[Row]]:
    """What is to be done, each set of words once, and rows for what does not apply, by reason."""
    jobs: dict[tuple[str, str], Job] = {}
    reasons: dict[tuple[Check, str], dict[str, int]] = {}
    everything = list(settings)
    for check in checks:
        for setting in everything:
            if why := check.why_not(setting):
                kinds = reasons.setdefault((check, why), {})
                kinds[setting.method.kind] = kinds.get(setting.method.kind, 0) + 1
            else:
                words = check.about(setting)
                jobs.setdefault((check.formula, words), Job(check, setting, words))
    missing = [
        About(
            check.formula, check.label, ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
        ).absent(why)
        for (check, why), kinds in reasons.items()
    ]
    return list(jobs.values()), missing


def disagreeing(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.verdict == DISAGREES]


def applicable(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.verdict != ABSENT]
