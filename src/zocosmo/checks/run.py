"""All checks of all cases of a plan, each row once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from zocosmo.checks.bits import BITS, BUDGET
from zocosmo.checks.case import Case
from zocosmo.checks.check import Check
from zocosmo.checks.difference import BIAS
from zocosmo.checks.draws import COVERAGE, EDGES, GAP, MARGINALS
from zocosmo.checks.guarantees import CORE, INVARIANCE, MOMENTUM, STORED
from zocosmo.checks.measurement import About, Measurement
from zocosmo.checks.mix import BLOCK, MIXING, SUM
from zocosmo.checks.paths import EXPECTED, STABLE
from zocosmo.checks.updates import CERTIFIED, MOMENTS, STEP
from zocosmo.errors import InputError, check_whole
from zocosmo.experiments.plan import Plan

LEAST_TAPES, MOST_TAPES = 30, 100_000  # fewer do not estimate a variance

CHECKS: tuple[Check, ...] = (
    BITS,
    BUDGET,
    MARGINALS,
    COVERAGE,
    EDGES,
    GAP,
    MIXING,
    BLOCK,
    SUM,
    MOMENTS,
    INVARIANCE,
    STORED,
    STEP,
    BIAS,
    CERTIFIED,
    CORE,
    MOMENTUM,
    STABLE,
    EXPECTED,
)

Tick = Callable[[int, int, str], None]  # rows done, rows in all, formula of the next one


def check_plans(
    plans: Sequence[Plan], tapes: int = 256, tick: Tick | None = None, *, only: str = ""
) -> list[Measurement]:
    """Compare every formula that applies with what our code does; formulas that do not apply come last.

    `only` selects the checks whose formula contains that text, such as "certified".
    """
    check_whole("the number of tapes", tapes, LEAST_TAPES, MOST_TAPES)
    checks = select(only)
    due, missing = sorted_out([each for plan in plans for each in cases_of(plan, tapes)], checks)
    rows: list[Measurement] = []
    for k, (about, (check, case)) in enumerate(due.items()):
        if tick is not None:
            tick(k, len(due), about.formula)
        try:
            rows += check.rows(case, about)
        except InputError:
            raise
        except ValueError as error:  # theory raises plain ValueErrors
            raise InputError(f"{about.formula}, {about.setting}: {error}") from error
    return [*rows, *missing]


def cases_of(plan: Plan, tapes: int) -> Iterator[Case]:
    """One for each method × graph × problem: the trials of the first seed."""
    first = plan.trials[0].seed
    for trial in plan.trials:
        if trial.seed == first:
            yield Case(trial, plan, tapes)


def select(only: str) -> tuple[Check, ...]:
    """The checks whose formula contains a text, ignoring case; all of them if it is empty."""
    found = tuple(check for check in CHECKS if only.casefold() in check.formula.casefold())
    if not found:
        names = ", ".join(check.formula for check in CHECKS)
        raise InputError(f"no formula contains {only!r}; choose from {names}")
    return found


def sorted_out(
    cases: Iterable[Case], checks: Sequence[Check] = CHECKS
) -> tuple[dict[About, tuple[Check, Case]], list[Measurement]]:
    """The checks to run, each description once, and rows for those that do not apply, by reason."""
    due: dict[About, tuple[Check, Case]] = {}
    reasons: dict[tuple[Check, str], Counter[str]] = {}
    everything = list(cases)
    for check in checks:
        for case in everything:
            if why := check.why_not(case):
                reasons.setdefault((check, why), Counter())[case.method.kind] += 1
            else:
                due.setdefault(About(check.formula, check.label, check.about(case)), (check, case))
    missing = []
    for (check, why), kinds in reasons.items():
        words = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
        missing.append(About(check.formula, check.label, words).absent(why))
    return due, missing
