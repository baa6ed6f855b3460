"""Pilots: short runs on training examples that choose η, and the rules they choose by."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from llm.tiny import tiny_folder  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.graphs.graph import GRAPHS  # noqa: E402
from zocosmo.llm.pilot import Pilot, Trials, applied, choose_eta, losses_of, plain, set_aside  # noqa: E402
from zocosmo.llm.probe import setting_of  # noqa: E402
from zocosmo.llm.subject import Subject  # noqa: E402
from zocosmo.methods import METHODS  # noqa: E402
from zocosmo.methods.decay import Cosine  # noqa: E402

RING = GRAPHS["ring"](4)


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tiny_folder(tmp_path_factory.mktemp("model"))
    return Subject(
        setting_of(model=str(folder), device="cpu", threads=1, rank=2, train_rows=120, max_tokens=32)
    )


def method(**changes):
    return METHODS["edge_local"](**{"q": 64, "eta": 0.1, "mu": 1e-3, "beta": 0.9, **changes})


def trials(subject, **options):
    return Trials(subject, method(), RING, **{"planned": 100, "rounds": 2, "rows": 16, **options})


def pilots(*after, before=1.0, spread=0.0):
    """Pilots at η = 1, 2, 4, … with these losses, alike on all examples but for an alternating ± spread."""
    wave = spread * np.array([1.0, -1.0] * 8)
    made = [(2.0**k, before, loss, 1.0, 0.01, loss + (k % 2) * wave) for k, loss in enumerate(after)]
    return [Pilot(*front, tuple(losses.tolist())) for *front, losses in made]


def test_the_best_is_taken_one_notch_lower():
    assert choose_eta(pilots(0.9, 0.7, 0.6, 0.65))[0] == 2.0


def test_the_lower_neighbour_is_taken_even_where_it_gains_much_less():
    assert choose_eta(pilots(0.95, 0.9, 0.6, 0.8))[0] == 2.0


def test_the_least_tried_has_no_lower_neighbour():
    assert choose_eta(pilots(0.6, 0.7, 0.8))[0] == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.6])
def test_diverged_pilots_are_out(bad):
    made = pilots(bad, 0.7, 0.6, bad)
    assert [p.diverged for p in made] == [True, False, False, True]
    assert choose_eta(made)[0] == 2.0
    assert choose_eta(pilots(bad, 0.7, 0.8))[0] == 2.0


def test_without_any_gain_the_least_is_taken_and_said():
    eta, why = choose_eta(pilots(1.2, 1.1, 1.3))
    assert eta == 1.0
    assert "no pilot lowered the loss" in why[0]
    assert "all pilots diverged" in choose_eta(pilots(math.nan, math.nan))[1][0]


def test_a_gain_that_may_be_chance_is_called_so():
    assert "chance" in choose_eta(pilots(1.0, 0.985, 0.99))[1][0]
    assert "chance" not in choose_eta(pilots(1.0, 0.9, 0.99))[1][0]


def test_a_short_pilot_has_no_momentum_and_a_long_one_has():
    """3/(1 − 0.9) = 30 visits to a coordinate, 8 rounds for each."""
    given = method(q=8, decay=Cosine(rounds=9))
    assert (plain(given, 239, 64).beta, plain(given, 241, 64).beta) == (0.0, 0.9)
    assert plain(given, 239, 64).decay.factor(8) == 1.0


def test_examples_that_score_are_kept_from_the_nodes(subject):
    held, rest = set_aside(subject, 16, 0)
    rows = [row.tobytes() for part in (held, rest.train) for row in part.tokens]
    assert (len(held), len(rest.train)) == (16, 104)
    assert sorted(rows) == sorted(row.tobytes() for row in subject.train.tokens)
    assert rest.backbone is subject.backbone


def test_a_quarter_at_most_is_kept(subject):
    assert len(set_aside(subject, 1000, 0)[0]) == 30


def test_losses_are_those_of_single_examples_in_their_order(subject):
    held, _ = set_aside(subject, 5, 0)
    x = torch.from_numpy(subject.x0[None])
    alone = [float(subject.backbone.losses(x, held.batch(np.array([k]), x.device))[0][0]) for k in range(5)]
    assert losses_of(subject, subject.x0, held) == pytest.approx(alone, abs=1e-6)  # float32, other padding


def test_a_step_of_nothing_leaves_the_loss_to_the_bit(subject):
    found = trials(subject).run(0.0)
    assert (found.after, found.norm, found.error) == (found.before, 1.0, 0.0)


def test_pilots_are_repeatable_and_leave_the_start_alone(subject):
    before = subject.x0.copy()
    first, second = (trials(subject).around(0.05, most=2) for _ in range(2))
    assert first == second
    assert [p.eta for p in first] == [0.05, 0.1]
    assert first[0].after != first[1].after
    assert (subject.x0 == before).all()


def test_a_step_out_of_all_proportion_diverges(subject):
    assert trials(subject).run(1e30).diverged


@pytest.mark.parametrize(
    ("best", "tried"),
    [
        (1.0, [0.5, 1, 2]),
        (4.0, [1, 2, 4, 8]),
        (0.01, [2.0**k for k in range(-8, 1)]),
        (1e9, [1, *(2.0**k for k in range(1, 9))]),
    ],
)
def test_pilots_go_on_until_the_best_has_neighbours_or_there_are_nine(subject, monkeypatch, best, tried):
    """Losses rise with the distance to the best, and from 32 times the best on they diverge."""

    def made_up(self, eta):
        off = math.log2(eta / best)
        return Pilot(eta, 1.0, 0.5 + 0.001 * abs(off) + (off > 5), 1.0)

    monkeypatch.setattr(Trials, "run", made_up)
    assert [p.eta for p in trials(subject).around(1.0)] == tried


@pytest.mark.parametrize("visits", [1, 2, 5, 40])
def test_the_share_is_what_momentum_moves_x_by(visits):
    """Estimates of 1 at every visit, β = 1/2: sums of powers of two, exact up to the last division."""
    m = x = 0.0
    for _ in range(visits):
        m = 0.5 * m + 0.5
        x += m
    assert applied(0.5, visits) == pytest.approx(x / visits, rel=1e-15)


@given(beta=st.floats(0, 0.999), visits=st.floats(0, 1e6), more=st.floats(1, 100))
def test_the_share_lies_between_one_visit_and_all_and_grows(beta, visits, more):
    """1 − β is lost to rounding by 1e-16/(1 − β) at most, as 1 − β^K is divided by it."""
    share = applied(beta, visits)
    assert 1 - beta - 1e-12 <= share <= 1
    assert applied(beta, visits * more) >= share - 1e-12


def test_less_than_a_visit_counts_as_one():
    assert applied(0.9, 0.0) == applied(0.9, 0.3) == applied(0.9, 1.0) == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize(("beta", "visits"), [(1.0, 3), (-0.1, 3), (0.9, -1.0), (0.9, math.nan)])
def test_no_share_of_what_is_no_momentum(beta, visits):
    with pytest.raises(InputError, match="0 ≤ beta < 1 and visits ≥ 0"):
        applied(beta, visits)


def test_eta_is_divided_by_what_momentum_applies_in_the_planned_rounds(subject):
    """q = d/4: 8 rounds are 2 visits; of their estimates β = 1/2 applies 3/4 and 1/2."""
    made = Trials(subject, method(q=subject.d // 4, beta=0.5), RING, planned=8, rounds=1)
    assert (made.dropped, made.method.beta, made.share) == (0.5, 0.0, 0.625)
    assert Trials(subject, method(beta=0.0), RING, planned=8, rounds=1).share == 1.0


def test_long_pilots_have_the_momentum_of_the_run_and_keep_their_eta(subject):
    """q = d: 6 visits = 3/(1 − 1/2)."""
    made = Trials(subject, method(q=subject.d, beta=0.5), RING, planned=8, rounds=6)
    assert (made.dropped, made.method.beta, made.share) == (0.0, 0.5, 1.0)


def test_planned_rounds_are_counted_from_one(subject):
    with pytest.raises(InputError, match="planned rounds must be 1 or more, got 0"):
        trials(subject, planned=0)


@pytest.mark.parametrize("eta", [0.0, -1.0, math.inf, math.nan])
def test_a_guess_that_is_no_step_is_refused(subject, eta):
    with pytest.raises(InputError, match="the first eta of the pilots"):
        trials(subject).around(eta)
