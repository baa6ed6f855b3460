"""The table of docs/second.md: each choice of the second generation removed in turn.

zocosmo compare configs/second-ablation.yaml
python results/second.py --take runs/second-ablation --write
"""

import argparse
import csv
import shutil
from pathlib import Path

HERE = Path(__file__).parent / "second"
PAGE = Path(__file__).parents[1] / "docs" / "second.md"
PROBLEMS, LIMITS = ("quadratic", "rosenbrock", "logistic"), ("10,000 bits", "25,000 bits", "3,200 queries")
MARK, END = "<!-- ablation -->\n", "<!-- end -->\n"


def take(folder: Path) -> None:
    """Copy the table of each problem."""
    HERE.mkdir(exist_ok=True)
    for problem in PROBLEMS:
        shutil.copyfile(folder / problem / "objective.csv", HERE / f"{problem}.csv")


def table() -> str:
    """Objectives of every entry, by problem and limit: means over seeds; the deviations are in the files."""
    found = {problem: _rows(HERE / f"{problem}.csv") for problem in PROBLEMS}
    heads = [f"{problem}, {limit}" for problem in PROBLEMS for limit in LIMITS]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for name in found[PROBLEMS[0]]:
        cells = [_short(found[problem][name][limit]) for problem in PROBLEMS for limit in LIMITS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    note = (
        "Objective, less is better, mean over five seeds; each entry with the best of 24 settings on two "
        "pilot seeds, chosen anew in each column. ∗ some runs diverged and are left out."
    )
    return "\n".join(lines) + f"\n\n{note}\n"


def _rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["method"].startswith("#")]
    return {row["method"].removesuffix(" ‡"): row for row in rows}  # at an end of the steps that were tried


def _short(cell: str) -> str:
    """The mean alone: (8.0 ± 1.5)e-4 † is 8.0e-4."""
    mean, _, rest = cell.partition(" ± ")
    power = rest.partition(")e")[2].split()[0] if mean.startswith("(") else ""
    return mean.lstrip("(") + (f"e{power}" if power else "") + (" ∗" if "diverged" in rest else "")


def filled(page: str) -> str:
    """The page with the table in its place."""
    head, mark, rest = page.partition(MARK)
    return f"{head}{mark}{table()}{END}{rest.partition(END)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--take", type=Path, help="folder of the comparison")
    parser.add_argument("--write", action="store_true", help="write the table into docs/second.md")
    asked = parser.parse_args()
    if asked.take:
        take(asked.take)
    if asked.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()
