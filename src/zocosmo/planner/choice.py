"""Choosing q: the largest that costs neither rounds nor time.

With q values of B bits, a budget in bits per node, and a share m of the nodes paired in each round:

    rounds within the budget        T = budget / (m q B)
    exposure of a coordinate        m q T / d = budget / (d B)   for any q
    contraction over the budget     T (q/d) λ₂/2                 for any q
    seconds per round               w + q B / bandwidth,  w = 2 queries + a latency

A round gives each node one slope for any q, and the leading term of the rate falls as 1/√T
[eq:main_budget_convergence]: where bits are scarce, a small q is best. As long as the budget is not used up,
a larger q mixes more and visits more coordinates at no cost. So fix the number of rounds, or the time; take
the largest q for which the budget lasts, and whose transfer takes at most a tenth of w.
"""

from fractions import Fraction
from typing import NamedTuple

from zocosmo.errors import InputError, check_whole
from zocosmo.planner.costs import Deployment

ROUNDS = 1000  # wanted, by default
SLACK = Fraction(1, 10)  # of w that transfer may add: rounds take 1.1 times as long, √T drops by 5 %
EXPOSURE = 5  # visits; a coordinate is then missed with probability e⁻⁵ = 0.7 %


class Choice(NamedTuple):
    """The proposed q, and the limits that determine it."""

    q: int
    by_bits: int | None  # the largest q for which the budget lasts; None: any q
    by_time: int  # the largest q whose transfer takes a tenth of the wait
    binding: str  # bits, time or d


def choose_q(
    setting: Deployment, matched: Fraction, *, rounds: int | None = None, seconds: Fraction | None = None
) -> Choice:
    """The largest q for which the budget lasts for the wanted rounds or seconds."""
    if rounds is not None and seconds is not None:
        raise InputError(f"give rounds ({rounds}) or seconds ({seconds}), not both")
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
    """The largest q with budget / (m q B) ≥ seconds / (w + q B / bandwidth): the budget outlasts the time."""
    if not seconds > 0:
        raise InputError(f"the time to run must be above 0 seconds, got {float(seconds):g}")
    short = seconds * matched - setting.budget / setting.bandwidth
    if short <= 0:  # the link cannot send the whole budget in the time
        return None
    return int(setting.budget * setting.wait / (setting.value_bits * short))


def bits_for_exposure(setting: Deployment, visits: int = EXPOSURE) -> int:
    """visits · d · B: bits per node until a coordinate has been visited that often, for any q."""
    return visits * setting.d * setting.value_bits
