"""The second generation on SmolLM2 and SST-2, on a ring of four nodes unless a setting says otherwise.

zocosmo run configs/second-smollm2.yaml --csv --processes 3 --out runs/batch16        (a GPU)
python results/second_smollm2.py --take runs/batch16/log.csv --as batch16
python results/second_smollm2.py

The first two lines make results/second-smollm2/batch16.csv, a row for each seed; the last prints a table of
all studies there. The configs of the other studies are beside their CSV files. Those called pilot-… chose the
settings, on seeds of their own but on the same validation rows. All were run on one NVIDIA H200, with torch
2.11 and transformers 5.17, when the scale of a link still followed ŷ_j − x_i and not ŷ_j − y_i; but tree8 on
a CPU, 40 minutes a seed, with torch 2.13.
"""

import argparse
import csv
import statistics
from pathlib import Path

HERE = Path(__file__).parent / "second-smollm2"
COLUMNS = ("settings", "seed", "rounds", "accuracy", "nll", "query_loss", "bits", "failures")


def last_rows(log: Path) -> list[dict[str, str]]:
    """The last checkpoint of every setting and seed of a log."""
    with log.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        found = {(row["method"], row["seed"]): row for row in rows}
    return list(found.values())


def take(log: Path, name: str) -> None:
    """Write the end of each run of a log."""
    HERE.mkdir(exist_ok=True)
    source = ("method", "seed", "round", "accuracy", "objective", "local", "bits", "failures")
    with (HERE / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([row.get(key, "") for key in source] for row in last_rows(log))


def table() -> str:
    """Means over seeds, and the accuracy of each, by study and setting."""
    lines = ["| study | settings | rounds | Mbit per node | accuracy | by seed |", "| --- " * 6 + "|"]
    for path in sorted(HERE.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        for settings in dict.fromkeys(row["settings"] for row in rows):
            mine = [row for row in rows if row["settings"] == settings]
            lines.append(f"| {path.stem} | {settings} | {mine[0]['rounds']} | {_cells(mine)} |")
    return "\n".join(lines)


def _cells(rows: list[dict[str, str]]) -> str:
    bits = statistics.fmean(float(row["bits"]) for row in rows) / 1e6
    each = [100 * float(row["accuracy"]) for row in rows]
    return f"{bits:.3f} | {statistics.fmean(each):.1f} | {' '.join(f'{one:.1f}' for one in each)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--take", type=Path, help="the log of a study")
    parser.add_argument("--as", dest="name", help="the study's name here")
    asked = parser.parse_args()
    if asked.take:
        take(asked.take, asked.name or asked.take.parent.name)
    else:
        print(table())


if __name__ == "__main__":
    main()
