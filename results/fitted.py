"""What the fitted momentum decides: verdicts with the text's β = 0.9.   python results/fitted.py [--write]

Runs the Rosenbrock items with β = 0.9 for ZO-COSMO and Rand-k (Com-DSZO has no momentum), on the same seeds,
and puts the verdicts beside those that are kept. --write keeps the table in docs/reproduction.md.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import Plan, read_plan
from zocosmo.experiments.run import run_plan
from zocosmo_paper.claim import FIGURE, NO, ORDERING, RELATION, WITHIN, Claim
from zocosmo_paper.item import Evidence
from zocosmo_paper.items import all_items
from zocosmo_paper.plans import config_text

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
KEPT = ROOT / "results" / "reproduction" / "verdicts.csv"
BEGIN, END = "<!-- fitted -->\n", "<!-- end of fitted -->\n"
NAMES = ("rosenbrock", "gap-0.3", "q-sensitivity")
BETA = 0.9
KINDS = {FIGURE: "figures", RELATION: "orderings"}


def with_momentum(name: str) -> Plan:
    """A config with β = 0.9 wherever a method has momentum."""
    lines = config_text(name).splitlines()
    has = ("kind: cosmo", "kind: rand_k")
    changed = [
        line.replace("mu:", f"beta: {BETA}, mu:") if any(k in line for k in has) else line for line in lines
    ]
    return read_plan(Config("\n".join(changed) + "\n", f"{name}.yaml"), name)


def claims_of(processes: int) -> Iterator[tuple[str, Claim]]:
    """The claims of each item over runs with momentum."""
    items = [all_items()[name] for name in NAMES]
    logs = {
        name: run_plan(with_momentum(name), processes=processes).rows for i in items for name in i.configs
    }
    with TemporaryDirectory() as folder:
        for item in items:
            own = {name: logs[name] for name in item.configs}
            for claim in item.find(Evidence(own, None, Path(folder), "", processes)).claims:
                yield item.name, claim


def tally(lines: Sequence[tuple[str, str, str]], item: str, kind: str) -> str:
    """agree / order only / no, of one item and kind."""
    found = [verdict for name, is_a, verdict in lines if (name, is_a) == (item, kind)]
    agree = found.count(WITHIN) + (found.count(ORDERING) if kind == RELATION else 0)
    only = 0 if kind == RELATION else found.count(ORDERING)
    return f"{agree} / {only} / {found.count(NO)}"


def cell_of(claim: Claim) -> str:
    return claim.words.removesuffix(": objective at 0.1 Mbit")


def table(processes: int) -> str:
    """Verdicts as run, and with β = 0.9; the cells of the main table beside."""
    rows = csv.DictReader(KEPT.read_text(encoding="utf-8").splitlines())
    before = [(row["item"], row["kind"], row["verdict"]) for row in rows]
    found = list(claims_of(processes))
    after = [(name, claim.kind, claim.verdict) for name, claim in found]
    lines = ["| item | kind | β = 0: agree / order only / do not | β = 0.9 |", "| --- | --- | ---: | ---: |"]
    for name in NAMES:
        lines += [
            f"| `{name}` | {words} | {tally(before, name, kind)} | {tally(after, name, kind)} |"
            for kind, words in KINDS.items()
        ]
    lines += ["", "| cell of the main table | paper | β = 0.9 |", "| --- | --- | --- |"]
    lines += [
        f"| {cell_of(claim)} | {claim.paper} | {claim.ours:.4f} ± {claim.std:.4f} |"
        for name, claim in found
        if name == "rosenbrock" and claim.words.endswith("objective at 0.1 Mbit")
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    text = table(asked.processes)
    print(text, end="")
    if asked.write:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        PAGE.write_text(head + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")
