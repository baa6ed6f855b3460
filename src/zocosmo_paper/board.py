"""The verdict board: claims sorted worst first, and counts by verdict and kind."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zocosmo_paper.claim import COUNTED, NO, NOT_RUN, ORDERING, VERDICTS, WITHIN, Claim
from zocosmo_paper.headline import Headline, of_claims
from zocosmo_paper.run import ItemResult

WORST_FIRST = (NO, NOT_RUN, ORDERING, WITHIN)


class BoardLine(NamedTuple):
    result: ItemResult
    claim: Claim


def board(results: Sequence[ItemResult], kinds: Sequence[str] = COUNTED) -> list[BoardLine]:
    """The claims of some kinds, those that fail first, otherwise in the paper's order."""
    lines = [BoardLine(result, claim) for result in results for claim in result.findings.claims]
    picked = [line for line in lines if line.claim.kind in kinds]
    return sorted(picked, key=lambda line: WORST_FIRST.index(line.claim.verdict))


def counts(claims: Iterable[Claim]) -> dict[str, int]:
    """The number of claims by verdict, zeros included."""
    found = [claim.verdict for claim in claims]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def all_claims(results: Sequence[ItemResult], kinds: Sequence[str] = COUNTED) -> list[Claim]:
    """The claims of some kinds; by default those that the paper prints."""
    return [claim for result in results for claim in result.findings.claims if claim.kind in kinds]


def headline_of(results: Sequence[ItemResult]) -> Headline:
    return of_claims((result.item.needs, claim) for result in results for claim in result.findings.claims)


def ours_text(claim: Claim) -> str:
    """Our result: mean ± std, or a difference with its interval.

    >>> ours_text(Claim("…", "0.083 ± 0.006", 0.0841, "within", std=0.0059, seeds=5))
    '0.0841 ± 0.0059'
    >>> ours_text(Claim("…", "", -0.25, "ordering", low=-0.5, high=-0.125))
    'difference −0.25 [−0.5, −0.125]'
    """
    if math.isnan(claim.ours):
        return "–"
    if not math.isnan(claim.low):
        return f"difference {number(claim.ours, 3)} [{number(claim.low, 3)}, {number(claim.high, 3)}]"
    if math.isnan(claim.std):
        return number(claim.ours, 6)
    return f"{number(claim.ours)} ± {number(claim.std, 2)}"


def number(value: float, digits: int = 4) -> str:
    """Whole and large numbers without decimals, others to `digits` significant digits.

    >>> number(80740352.0), number(341657.04), number(-0.0123456), number(1.16e-07, 2), number(math.nan)
    ('80,740,352', '341,657', '−0.01235', '1.2e-07', '–')
    """
    if math.isnan(value):
        return "–"
    sign, size = "−" if value < 0 else "", abs(float(value))
    whole = size < 1e15 and (size.is_integer() or size >= 1e5)
    return sign + (f"{size:,.0f}" if whole else f"{size:.{digits}g}")
