"""What forty seeds say: the verdicts of `zocosmo reproduce all --seeds 40`, kept beside the others."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from zocosmo_paper.claim import Claim

SEEDS = 40
COLUMNS = ("item", "claim", "ours", "std", "seeds", "diverged", "low", "high", "verdict")


class AtForty(NamedTuple):
    """The same claim over more seeds; numbers as text, empty where there is none."""

    ours: str
    std: str
    seeds: str
    diverged: str
    low: str
    high: str
    verdict: str


@cache
def kept() -> dict[tuple[str, str], AtForty]:
    """By item and claim; empty if nothing was kept."""
    path = files("zocosmo_paper").joinpath("forty.csv")
    if not path.is_file():
        return {}
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    return {(row["item"], row["claim"]): AtForty(*(row[name] for name in COLUMNS[2:])) for row in rows}


def forty(item: str, claim: Claim) -> AtForty | None:
    """The claim over forty seeds, if it depends on seeds and was kept."""
    return kept().get((item, claim.words)) if claim.seeds and claim.seeds != SEEDS else None
