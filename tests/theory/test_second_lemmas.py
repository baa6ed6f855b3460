"""What docs/second.md proves: the sum with repair, over every pattern of lost and unreadable messages."""

from fractions import Fraction as Fr
from itertools import product
from pathlib import Path

import pytest

from zocosmo.theory.dither import drift, largest_c, wire_table
from zocosmo.theory.law import complete_law, ring_law
from zocosmo.theory.touches import touches_needed

PAGE = (Path(__file__).parents[2] / "docs" / "second.md").read_text(encoding="utf-8")
LOST, UNREADABLE, READ = range(3)
STEPS = [(1, 5), (-3, 2), (7, 7), (0, -4), (2, 9)]


class End:
    """One end of a link: its value, its count mod 4, and what it applied last until that is confirmed."""

    def __init__(self, x):
        self.x, self.count, self.open = x, 0, None

    def hear(self, how, count, mine, theirs):
        if how == LOST:
            return
        if count == self.count:
            self.open = None
            if how == READ:
                self.open = Fr(theirs - mine, 2)
                self.x, self.count = self.x + self.open, (self.count + 1) % 4
        elif self.count == (count + 1) % 4:
            self.x, self.count, self.open = self.x - self.open, count, None


def meet(i, j, fates):
    """Both send before either hears."""
    (y, k), (z, m) = (i.x, i.count), (j.x, j.count)
    i.hear(fates[0], m, y, z)
    j.hear(fates[1], k, z, y)


@pytest.mark.parametrize("meetings", [1, 3, 5])
def test_the_sum_is_kept_less_one_open_debt_at_most(meetings):
    """Every pattern of fates of both messages; nodes step between meetings."""
    for fates in product(product((LOST, UNREADABLE, READ), repeat=2), repeat=meetings):
        i, j, total = End(Fr(10)), End(Fr(-6)), Fr(4)
        for both, steps in zip(fates, STEPS, strict=False):
            i.x, j.x, total = i.x + steps[0], j.x + steps[1], total + sum(steps)
            meet(i, j, both)
            ahead = (i.count - j.count) % 4
            assert ahead in (0, 1, 3)
            debt = {0: 0, 1: i.open, 3: j.open}[ahead]
            assert i.x + j.x == total + debt
        for _ in range(2):  # one to repair, one to average
            meet(i, j, (READ, READ))
        assert i.x == j.x == total / 2


def test_two_counts_would_not_be_enough():
    """Modulo 2 an end that is ahead looks like one that is behind, so both would undo."""
    assert (0 - 1) % 2 == (1 - 0) % 2
    assert (0 - 1) % 4 != (1 - 0) % 4


def test_the_page_shows_the_table_of_bits():
    for row in wire_table(16, range(2, 6)):
        sure = largest_c(row.b, sure=True)
        shown = f"| {row.b} | {float(row.widest):g} Δ | {row.largest_c:.2f} | {sure:.2f} |"
        assert f"{shown} {row.failure:.0e} | {row.jump:.0e} |" in PAGE


def test_the_page_shows_touches_as_they_are():
    for law, name in (
        (ring_law(4), "ring of 4"),
        (ring_law(8), "ring of 8"),
        (complete_law(8), "complete, 8"),
    ):
        assert f"| {name} | {float(law.lambda2):.3g} | {touches_needed(law.lambda2 / 2, 0.01):.3g} |" in PAGE


def test_two_bits_shrink_only_below_their_edge():
    assert [drift(2, c, sure=True) for c in (Fr(18, 10), 2)] == [-1, 0]
