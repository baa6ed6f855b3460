import math

import pandas as pd
import pytest

from compare.tiny import candidate
from zocosmo.compare.tune import choose


def parts(given, *, metric="objective", lost=()):
    """Logs by hand: (setting → value at 10 bits and at 20 bits, for each of two seeds)."""
    rows = [
        {
            "trial": 10 * k + s, "problem": "p", "graph": "g", "method": name, "seed": str(s), "n": 2,
            "round": t, "bits": 10.0 * t, metric: value, "diverged": (name, s, t) in lost,
        }
        for k, (name, seeds) in enumerate(given.items())
        for s, values in enumerate(seeds)
        for t, value in enumerate(values)
    ]  # fmt: skip
    return {str(name): part for name, part in pd.DataFrame(rows).groupby("method", sort=False)}


def test_the_least_mean_at_the_last_checkpoint_that_fits_is_chosen():
    logs = parts({
        "m eta=0.1": [[9, 3, 1], [9, 5, 1]],
        "m eta=0.2": [[9, 2, 8], [9, 4, 8]],
        "m eta=0.3": [[9, 1, 0], [9, 8, 0]],
    })  # fmt: skip
    setting, mean = choose(logs, candidate(0.1, 0.2, 0.3), 19.0, "objective")[1:3]
    assert (setting, mean) == ({"eta": 0.2}, 3.0)
    assert choose(logs, candidate(0.1, 0.2, 0.3), 20.0, "objective").setting == {"eta": 0.3}


def test_more_is_better_for_accuracy():
    logs = parts({"m eta=0.1": [[0.5, 0.9]], "m eta=0.2": [[0.5, 0.7]]}, metric="accuracy")
    assert choose(logs, candidate(0.1, 0.2), 99.0, "accuracy").setting == {"eta": 0.1}


@pytest.mark.parametrize("t", [1, 2])
def test_a_setting_that_diverged_on_any_seed_is_out_however_late(t):
    given = {"m eta=0.1": [[9, 5, 5], [9, 5, 5]], "m eta=0.2": [[9, 1, 1], [9, 1, 1][: t + 1]]}
    found = choose(parts(given, lost={("m eta=0.2", 1, t)}), candidate(0.1, 0.2), 10.0, "objective")
    assert (found.setting, found.lost) == ({"eta": 0.1}, 1)


def test_of_equals_the_smaller_eta_is_chosen_then_the_first_in_the_file():
    names = [f"m eta={eta} c={c}" for eta in (0.1, 0.2) for c in "ba"]
    logs = parts({name: [[9, 1]] for name in reversed(names)})
    assert choose(logs, candidate(0.1, 0.2, c="ba"), 99.0, "objective").setting == {"eta": 0.1, "c": "b"}


@pytest.mark.parametrize(("best", "edge"), [(0.1, True), (0.2, False), (0.3, True)])
def test_a_choice_at_an_end_of_the_range_is_marked(best, edge):
    logs = parts({f"m eta={eta}": [[9, 1 if eta == best else 2]] for eta in (0.1, 0.2, 0.3)})
    assert choose(logs, candidate(0.1, 0.2, 0.3), 99.0, "objective").edge is edge


def test_a_single_eta_is_no_edge():
    assert not choose(parts({"m eta=0.1": [[9, 1]]}), candidate(0.1), 99.0, "objective").edge


def test_where_nothing_came_through_nothing_is_chosen():
    logs = parts({"m eta=0.1": [[9, 1]]}, lost={("m eta=0.1", 0, 1)})
    found = choose(logs, candidate(0.1), 99.0, "objective")
    assert (found.setting, found.lost) == (None, 1)
    assert math.isnan(found.mean)


def test_where_the_budget_pays_for_the_start_alone_the_next_checkpoint_chooses():
    """What nodes have seen themselves is nan there, and everything else alike."""
    logs = parts({"m eta=0.1": [[math.nan, 3, 1]], "m eta=0.2": [[math.nan, 2, 8]]}, metric="local")
    assert choose(logs, candidate(0.1, 0.2), 9.0, "local")[1:4] == ({"eta": 0.2}, 2.0, 0)
