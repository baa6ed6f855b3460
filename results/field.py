"""Tables and figures of docs/field.md, from what `zocosmo compare` wrote.   python results/field.py [--write]

    zocosmo compare configs/field.yaml && python results/field.py --take runs/field --write

`results/field` has the tables of configs/field.yaml; `results/field-smollm2` those of its namesake, with both
logs. With --take, tables and figure are copied from the folder of a comparison; with --write, all go into the
page.
"""

import argparse
import shutil
from pathlib import Path
from types import SimpleNamespace

from zocosmo.compare.figure import draw_field
from zocosmo.log import read_log

HERE = Path(__file__).parent
PAGE, IMAGES = HERE.parent / "docs" / "field.md", HERE.parent / "docs" / "img"
FIELD, MODEL = HERE / "field", HERE / "field-smollm2"
BUDGETS = (100_000, 10_000_000, 100_000_000)


def take(folder: Path) -> None:
    """Copy what the page shows of a comparison."""
    for path in [*folder.glob("*/*.md"), folder / "winners.md", folder / "settings.csv"]:
        to = FIELD / path.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    shutil.copyfile(folder / "field.svg", IMAGES / "field.svg")


def at_the_end() -> str:
    """On the pilot's one seed: the setting whose nodes have seen the least loss after all rounds."""
    log = read_log(MODEL / "pilot.csv").rows
    last = log[log["round"] == log["round"].max()]
    lines = ["| method | setting | loss of the last queries | accuracy |", "| --- | --- | ---: | ---: |"]
    names = last["method"].astype(str)
    for kind in dict.fromkeys(names.str.split().str[0]):
        of_kind = last[names.str.startswith(f"{kind} ")]
        best = of_kind.loc[of_kind["local"].idxmin()]
        setting = str(best["method"]).removeprefix(f"{kind} ").replace(" beta=0.0", ", β = 0")
        setting = setting.replace(" beta=", ", β = ").replace("eta=", "η = ")
        lines.append(f"| {kind} | {setting} | {best['local']:.3f} | {100 * best['accuracy']:.1f} % |")
    return "\n".join(lines) + "\n"


def sections() -> dict[str, str]:
    """What stands between the marks of the page, by name."""
    files = {
        "winners": FIELD / "winners.md",
        "rosenbrock": FIELD / "rosenbrock" / "objective.md",
        "logistic": FIELD / "logistic" / "objective.md",
        "quadratic": FIELD / "quadratic" / "objective.md",
        "traits": FIELD / "rosenbrock" / "traits.md",
        "sst2": MODEL / "accuracy.md",
        "sst2 winners": MODEL / "winners.md",
        "sst2 traits": MODEL / "traits.md",
    }
    read = {name: path.read_text(encoding="utf-8").rstrip("\n") + "\n" for name, path in files.items()}
    return {**read, "sst2 pilot": at_the_end()}


def filled(page: str) -> str:
    """The page with its sections as the files have them."""
    for name, text in sections().items():
        head, mark, rest = page.partition(f"<!-- {name} -->\n")
        if not mark:
            raise SystemExit(f"docs/field.md has no mark <!-- {name} -->")
        page = f"{head}{mark}{text}<!-- end -->\n{rest.partition('<!-- end -->' + chr(10))[2]}"
    return page


def draw() -> None:
    """Accuracy against bits per node on SST-2, drawn as `zocosmo compare` draws."""
    rows = read_log(MODEL / "final.csv").rows.assign(problem="SmolLM2 on SST-2")
    names = list(dict.fromkeys(rows["method"].astype(str)))
    silent = {name for name in names if not rows.loc[rows["method"] == name, "bits"].max()}
    chosen = [SimpleNamespace(candidate=SimpleNamespace(label=n, kind=n), setting={}) for n in names]
    contest = SimpleNamespace(name="SmolLM2 on SST-2", metric="accuracy", budgets=BUDGETS)
    draw_field(
        [SimpleNamespace(contest=contest, rows=rows, chosen=chosen, silent=silent)],
        IMAGES / "field-smollm2.svg",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--take", type=Path, help="the folder of a comparison of configs/field.yaml")
    parser.add_argument("--write", action="store_true", help="put tables and figure into the docs")
    given = parser.parse_args()
    if given.take:
        take(given.take)
    page = filled(PAGE.read_text(encoding="utf-8"))
    if given.write:
        PAGE.write_text(page, encoding="utf-8")
        draw()
    print("".join(sections().values()), end="")


if __name__ == "__main__":
    main()
