"""Which q: the largest that costs neither rounds nor time.

What q changes and what it does not, for q values of B bits, a budget in bits per node, and nodes of which a
share m is paired in a round:

    rounds that the budget pays     T = budget / (m q B)
    exposure of a coordinate        m q T / d = budget / (d B)   whatever q is
    contraction over the budget     T (q/d) λ₂/2                 whatever q is
    seconds of a round              w + q B / bandwidth,  w = 2 queries + a latency

A round brings one slope to each node however large its support, and the leading term of the rate falls as
1/√T [eq:main_budget_convergence]: where bits are scarce, a small q is best. But as long as rounds are fewer
than the budget could pay, a larger q mixes more and visits more for nothing. So: fix how many rounds are
wanted, or for how long; take the largest q that leaves the budget enough for them, and whose transfer is at
most a tenth of w.
"""

from fractions import Fraction
from typing import NamedTuple

from zocosmo.errors import InputError, check_whole
from zocosmo.planner.costs import Deployment

ROUNDS = 1000  # wanted, unless the user says
SLACK = Fraction(1, 10)  # of the wait that a transfer may add: rounds 1.1 times as long, √T down by 5 %
EXPOSURE = 5  # visits after which a coordinate is missed with probability e⁻⁵, 0.7 %


class Choice(NamedTuple):
    """The proposed q, and the limits it comes from."""

    q: int
    by_bits: int | None  # the largest q with which the budget lasts; None: any does
    by_time: int  # the largest whose transfer is a tenth of the wait
    binding: str  # bits, time or d


def choose_q(
    setting: Deployment, matched: Fraction, *, rounds: int | None = None, seconds: Fraction | None = None
) -> Choice:
    """The largest q that leaves the budget enough for the rounds, or the seconds, that are wanted."""
    if rounds is not None and seconds is not None:
        raise InputError(f"say how many rounds ({rounds}) or how many seconds ({seconds}), not both")
    B = setting.value_bits
    if seconds is None:
        wanted = check_whole("rounds", ROUNDS if rounds is None else rounds, 1)
        by_bits: int | None = int(setting.budget / (matched * B * wanted))
    else:
        by_bits = _lasting(setting, matched, seconds)
    by_time = int(SLACK * setting.wait * setting.bandwidth / B)
    limits = {"time": by_time, "d": setting.d}
    if by_bits is not None:
        limits = {"bits": by_bits, **limits}
    binding = min(limits, key=lambda name: limits[name])
    return Choice(max(1, limits[binding]), by_bits, by_time, binding)


def _lasting(setting: Deployment, matched: Fraction, seconds: Fraction) -> int | None:
    """The largest q with budget / (m q B) ≥ seconds / (w + q B / bandwidth): bits last as long as time."""
    if not seconds > 0:
        raise InputError(f"the time to run must be above 0 seconds, got {float(seconds):g}")
    short = seconds * matched - setting.budget / setting.bandwidth
    if short <= 0:  # even at full speed the link could not send it all
        return None
    return int(setting.budget * setting.wait / (setting.value_bits * short))


def bits_for_exposure(setting: Deployment, visits: int = EXPOSURE) -> int:
    """visits · d · B: bits per node after which a coordinate was visited so often, with any q."""
    return visits * setting.d * setting.value_bits
