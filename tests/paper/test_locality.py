"""Locality on rings: verdicts of logs made by hand, of a short run, and of the study itself (slow)."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from zocosmo.experiments.run import run_plan
from zocosmo_paper.item import Evidence
from zocosmo_paper.items import locality
from zocosmo_paper.items.locality import (
    ALL,
    COMMON,
    EDGE,
    FLOOD,
    GLOBAL,
    LOCALITY,
    MATCHED,
    MATCHING,
    OWN,
    RINGS,
    RingCell,
)
from zocosmo_paper.plans import load_config
from zocosmo_paper.write import as_csv

COSTS = {GLOBAL: 1024, EDGE: 512, ALL: 1024, COMMON: 512, OWN: 512}
FIVE = (-1.2649, -0.6325, 0.0, 0.6325, 1.2649)  # of mean 0 and, over four, of variance 1


def made(cells, *, costs=COSTS, diverged=()):
    """A log whose cells at a megabit are (mean, std); `diverged` are (n, method, seed) of runs."""
    rows = []
    for (n, method), (mean, std) in cells.items():
        cost, stages = costs.get(method, 96 * (n - 1)), n // 2 if method == FLOOD else 1
        for seed, away in enumerate(FIVE, 1):
            lost = (n, method, seed) in diverged
            about = {"trial": len(rows), "problem": "p", "graph": f"ring n={n}", "method": method, "n": n}
            for t in range(0, 10 if lost else 2200, 10):
                counts = {"round": t, "bits": cost * t, "stages": stages * t, "diverged": False}
                objective = 8.0 * (mean + away * std if t else 1.0)
                rows.append({**about, "seed": str(seed), **counts, "objective": objective})
            rows[-1] |= {"diverged": lost}
    return pd.DataFrame(rows)


def printed(table):
    return {(n, m): (float(e.mean), float(e.std)) for n, row in table.items() for m, e in row.items()}


def find(log, config=LOCALITY):
    item = locality.find_locality if config == LOCALITY else locality.find_matching
    return item(Evidence({config: log}, None, Path("nowhere")))


def verdicts(found):
    return {claim.words: claim.verdict for claim in found.claims}


def matching_cells():
    return {**printed(MATCHED), (4, ALL): (0.06, 0.001), (4, COMMON): (0.05, 0.001)}


def test_a_log_of_the_printed_cells_fits_the_paper():
    found = verdicts(find(made(printed(RINGS))))
    ordered = {words for words in found if " ends below " in words or " ends lowest " in words}
    assert {v for words, v in found.items() if words not in ordered} == {"within"}
    assert {found[words] for words in ordered} == {"ordering"}
    assert len(found) == 12 + 12 + 2 + 8 + 1 + 1 + 3 + 4  # cells, rounds, orders, one more, bits, stages


def test_the_order_that_a_figure_keeps_is_named():
    cells = {**printed(RINGS), (64, FLOOD): (0.5, 0.002)}
    claims = {claim.words: claim for claim in find(made(cells)).claims}
    note = claims[f"N = 64, {FLOOD}: relative objective at 1 Mbit"].note
    assert f"in order only: {EDGE} ends lowest at N = 64" in note


def test_edge_local_must_be_best_at_every_n():
    cells = {**printed(RINGS), (16, EDGE): (0.0660, 0.0003)}
    words = f"{EDGE} ends lowest at every N"
    assert verdicts(find(made(printed(RINGS))))[words] == "ordering"
    assert verdicts(find(made(cells)))[words] == "no"


def test_that_a_flood_ends_below_global_support_is_no_claim_of_the_paper():
    claims = {claim.words: claim for claim in find(made(printed(RINGS))).claims}
    assert claims[f"N = 8: {FLOOD} ends below {GLOBAL}"].kind == "check"


def test_a_cell_that_is_off_keeps_the_verdict_of_its_ordering():
    cells = {**printed(RINGS), (64, FLOOD): (0.5, 0.002)}
    assert verdicts(find(made(cells)))[f"N = 64, {FLOOD}: relative objective at 1 Mbit"] == "ordering"


def test_edge_local_above_global_support_is_told():
    found = verdicts(find(made({**printed(RINGS), (16, EDGE): (0.0660, 0.0003)})))
    assert found[f"N = 16: {EDGE} ends below {GLOBAL}"] == "no"
    assert found[f"N = 16, {EDGE}: relative objective at 1 Mbit"] == "no"
    assert found[f"N = 8: {EDGE} ends below {GLOBAL}"] == "ordering"


def test_rounds_that_cost_more_bits_miss_the_printed_counts():
    found = verdicts(find(made(printed(RINGS), costs={**COSTS, EDGE: 520})))
    assert found[f"N = 8, {EDGE}: logged rounds at 1 Mbit"] == "no"
    assert found[f"{EDGE}: bits per node and round on an even ring"] == "no"
    assert found[f"N = 8, {GLOBAL}: logged rounds at 1 Mbit"] == "within"


def test_another_printed_cell_flips_the_verdict(monkeypatch):
    monkeypatch.setitem(RINGS, 8, {**RINGS[8], GLOBAL: RingCell("0.0725", "0.0017", 980)})
    cells = {**printed(RINGS), (8, GLOBAL): (0.0625, 0.0017)}
    found = verdicts(find(made(cells)))
    assert found[f"N = 8, {GLOBAL}: relative objective at 1 Mbit"] == "ordering"
    assert found[f"N = 8, {GLOBAL}: logged rounds at 1 Mbit"] == "no"


def test_diverged_runs_are_counted_and_in_no_mean():
    found = find(made(printed(RINGS), diverged={(64, GLOBAL, 1), (64, GLOBAL, 5)}))
    claim = next(c for c in found.claims if c.words.startswith(f"N = 64, {GLOBAL}: rel"))
    assert (claim.seeds, claim.diverged, claim.ours) == (3, 2, pytest.approx(0.0649))
    assert "2 diverged" in as_csv(found.tables[0])


@pytest.mark.parametrize(("lost", "verdict"), [(0, "within"), (1, "within"), (3, "within"), (5, "no")])
def test_how_often_common_supports_diverge_is_a_share(lost, verdict):
    """1 of 5 is 0.2 ± 0.45: 0 of 5 and 3 of 5 are no more than that away, and 5 of 5 are."""
    log = made(matching_cells(), diverged={(4, ALL, seed) for seed in range(1, lost + 1)})
    claim = next(
        c for c in find(log, MATCHING).claims if c.words == f"N = 4, {ALL}: share of runs that diverge"
    )
    assert (claim.verdict, claim.diverged, claim.ours) == (verdict, lost, lost / 5)


def test_common_and_own_supports_must_be_close():
    near, far = matching_cells(), {**matching_cells(), (8, COMMON): (0.0480, 0.0013)}
    words = f"N = 8: {COMMON} minus {OWN} (close)"
    assert verdicts(find(made(near), MATCHING))[words] == "within"
    assert verdicts(find(made(far), MATCHING))[words] == "no"


def test_no_cell_of_1e86_is_compared():
    log = made(matching_cells(), diverged={(4, ALL, 2), (4, COMMON, 2)})
    figures = [c.words for c in find(log, MATCHING).claims if "relative objective" in c.words]
    assert [words for words in figures if "N = 4" in words] == [f"N = 4, {OWN}: relative objective at 1 Mbit"]


def test_the_figure_is_the_same_bytes_and_its_text_has_the_numbers(tmp_path):
    picture = find(made(printed(RINGS))).pictures[0]
    for name in ("a.svg", "b.svg"):
        picture.draw(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "0.1593 ± 0.0021 (160)" in picture.text


def test_a_short_run_of_the_config_pays_the_printed_bits():
    """40 rounds are over long before a megabit is spent, so that no round count can be right."""
    log = run_plan(replace(load_config(LOCALITY, 2), rounds=40)).rows
    found = verdicts(find(log))
    assert {v for words, v in found.items() if "bits per node" in words or "stages" in words} == {"within"}
    assert {v for words, v in found.items() if "logged rounds" in words} == {"no"}


@pytest.mark.slow
def test_the_study_shows_what_is_asked_of_it():
    """Every finite cell within 5 %, every round count, every "edge-local beats global and flood"."""
    found = find(run_plan(load_config(LOCALITY, None)).rows)
    matched = find(run_plan(load_config(MATCHING, None)).rows, MATCHING)
    cells = [c for c in (*found.claims, *matched.claims) if "relative objective" in c.words]
    assert all(abs(c.ours / float(c.paper.split(" ")[0]) - 1) < 0.05 for c in cells)
    assert {c.verdict for c in cells} <= {"within", "ordering"}
    assert {c.verdict for c in found.claims if "logged rounds" in c.words} == {"within"}
    assert {c.verdict for c in (*found.claims, *matched.claims) if " ends below " in c.words} == {"ordering"}
