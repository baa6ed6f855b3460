from pathlib import Path

import pytest
from fabricated import VALUE, fabricate, shifted, verdicts

from zocosmo_paper import plans, run
from zocosmo_paper.item import Evidence
from zocosmo_paper.items import stress
from zocosmo_paper.items.stress import FAMILIES, SIZES, STRESS, find

START = 1000.0
APART = "mean objectives of the three families, highest over lowest less one, at N = 64"


@pytest.fixture(scope="module")
def log():
    """Every run falls to 6.1 % give or take a little by its seed; disagreement grows as it should."""
    runs = [
        (f"{family} n={n}", "ZO-COSMO", seed, "2", VALUE, {0: START, 1200: 61.0 + 0.1 * (seed - 3)})
        for family in FAMILIES
        for n in SIZES
        for seed in range(1, 6)
    ]
    rows = fabricate(runs)
    levels = [FAMILIES.index(graph.split()[0]) * int(graph.split("=")[1]) for graph in rows["graph"]]
    return rows.assign(disagreement=[0.01 * level for level in levels])


def found(log):
    return verdicts(find(Evidence({STRESS: log}, None, Path())))


def lose(log, graph, seed):
    """A run that diverged at its last row."""
    hit = (log["graph"] == graph) & (log["seed"] == seed) & (log["round"] > 0)
    return log.assign(diverged=hit | log["diverged"])


def test_what_the_text_says_holds_in_runs_that_do_it(log):
    board = found(log)
    assert set(board.values()) == {"within", "ordering"}
    assert [verdict for words, verdict in board.items() if "disagreement" in words] == ["ordering"] * 6


@pytest.mark.parametrize("wrong", ["0.9676", "0.9678"])
def test_a_wrong_rho_is_found_out(log, monkeypatch, wrong):
    monkeypatch.setattr(stress, "RHO", {**stress.RHO, "grid": wrong})
    assert [words for words, verdict in found(log).items() if verdict == "no"] == [
        "grid, N = 64: ρ of the Metropolis weights"
    ]


def test_another_reduction_is_no(log):
    board = found(shifted(log, 2.0, graph="ring n=64", round=1200))
    assert board["ring, N = 64: objective after 1200 rounds, of that at the start"] == "no"
    assert board[APART] == "no"


def test_families_are_compared_over_seeds_that_none_lost(log):
    """Without its last seed the ring's mean is lower; so are those of the others, over the same seeds."""
    lost = lose(log, "ring n=64", "5")
    claim = next(c for c in find(Evidence({STRESS: lost}, None, Path())).claims if c.words == APART)
    assert (claim.ours, claim.seeds, claim.diverged, claim.verdict) == (0.0, 4, 1, "within")


def test_diverged_runs_are_listed_by_name(log):
    (table,) = find(Evidence({STRESS: lose(log, "ring n=32", "4")}, None, Path())).tables
    assert table.notes.endswith("Diverged: ring N = 32: seed 4.")


def test_where_every_seed_is_lost_nothing_is_compared(log):
    for seed in "12345":
        log = lose(log, "grid n=64", seed)
    assert found(log)[APART] == "not run"


def test_a_small_run_writes_table_and_figure(tmp_path, monkeypatch):
    real = plans.config_text
    monkeypatch.setattr(run, "SUFFIXES", (".png",))
    monkeypatch.setattr(plans, "config_text", lambda name: real(name).replace("rounds: 1200", "rounds: 10"))
    (result,) = run.reproduce(["network-stress"], tmp_path, seeds=1)
    assert (result.folder / "fig-appendix-network-stress.png").stat().st_size > 10_000
    assert "ring, N = 64: objective" in result.findings.pictures[0].text


@pytest.mark.slow
def test_the_text_on_rho_and_disagreement_holds(tmp_path):
    """The objective is not asserted: which runs diverge decides its mean."""
    (result,) = run.reproduce(["network-stress"], tmp_path, processes=2)
    board = verdicts(result.findings)
    assert [v for w, v in board.items() if "ρ of" in w] == ["within"] * 3
    assert [v for w, v in board.items() if "disagreement" in w] == ["ordering"] * 6
