"""The end of a fine-tuning run: shares, a forecast, and the bill beside those of others."""

import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm.tuning import small_plan
from zocosmo.llm.ending import Seen, apart, bill, ending, forecast, unread
from zocosmo.methods import METHODS
from zocosmo.methods.decay import Constant, Cosine

STEP = {"eta": 0.1, "mu": 0.1, "q": 4}
SEEN = Seen(round=10, loss=0.5, failures=3.0, disagreement=0.25, moved=2.0, queries=4 * 10 * 6)


def seen(t, loss):
    return SEEN._replace(round=t, loss=loss)


def test_messages_are_counted_as_they_are_sent():
    """Three directions on two sides: 6 queries of each of 4 nodes with a partner, 40 messages in all."""
    assert unread(SEEN, METHODS["edge_local"](**STEP, directions=3), 8) == 3 / 40
    assert unread(SEEN, METHODS["cosmo"](**STEP), 8) == 3 / 80
    assert unread(SEEN._replace(failures=None), METHODS["cosmo"](**STEP), 8) is None
    assert unread(SEEN._replace(round=0, queries=0, failures=0.0), METHODS["cosmo"](**STEP), 8) == 0


def test_the_distance_of_nodes_is_a_share_of_the_way():
    assert apart(SEEN) == 0.25
    assert apart(SEEN._replace(moved=0.0)) == 0


def test_a_loss_that_falls_with_the_steps_is_forecast_exactly():
    """With a constant step a straight line; with a cosine what is left of the way counts."""
    constant = METHODS["cosmo"](**STEP, decay=Constant())
    assert forecast([seen(0, 1.0), seen(10, 0.8)], constant, 30) == pytest.approx(0.4)
    cosine = METHODS["cosmo"](**STEP, decay=Cosine(rounds=40))
    way = [0.0]
    for t in range(40):
        way.append(way[-1] + cosine.decay.factor(t))
    passed = [seen(t, 1 - 0.02 * way[t]) for t in (0, 10, 20)]
    assert forecast(passed, cosine, 40) == pytest.approx(1 - 0.02 * way[40], abs=1e-12)


@pytest.mark.parametrize("given", [[], [seen(0, 1.0)], [seen(0, 1.0), seen(40, 0.5)]])
def test_nothing_is_forecast_from_one_point_or_at_the_end(given):
    assert forecast(given, METHODS["cosmo"](**STEP), 40) is None


def test_a_forecast_is_never_below_zero():
    assert forecast([seen(0, 1.0), seen(10, 0.1)], METHODS["cosmo"](**STEP), 100) == 0


def test_the_bill_of_a_run_stands_beside_those_of_others(model):
    plan = small_plan(model)
    lines = bill(plan, 1792, 8192.0, 4)
    assert [line.name for line in lines] == [
        "this run, edge_local",
        "DeComFL, with a server",
        "SeedFlood",
        "sending gradients",
    ]
    assert lines[0] == ("this run, edge_local", 0.008192, 1.0)
    assert lines[3].mbit == 4 * 2 * 32 * 1792 / 1e6
    assert lines[3].ratio == 1e6 * lines[3].mbit / 8192
    assert bill(plan, 1792, 0.0, 0)[1].ratio == math.inf


def test_rows_say_what_was_learnt():
    row = {"accuracy": 0.5, "objective": 0.7, "round": 0, "disagreement": 0.0, "moved": 0.0, "queries": 0}
    after = {**row, "accuracy": 0.915, "round": 10, "disagreement": 0.25, "moved": 2.0, "examples": 1920.0}
    rows = ending(
        row, {**after, "queries": 240, "failures": 3}, METHODS["edge_local"](**STEP, directions=3), 8
    )
    assert rows == [
        ("accuracy", "50.0%", "91.5%"),
        ("validation loss", "0.7000", "0.7000"),
        ("examples evaluated by a node", "", "1,920"),
        ("distance between nodes, of that moved", "", "25.0%"),
        ("messages that could not be read", "", "7.5%"),
    ]
    assert len(ending(row, {**after, "queries": 240}, METHODS["cosmo"](**STEP), 8)) == 4
