"""Tables and figures of docs/field.md and docs/field-details.md, from what `zocosmo compare` wrote.

    zocosmo compare configs/field.yaml && zocosmo compare configs/field-64.yaml
    python results/field.py --take runs/field --take-64 runs/field-64 --write

`results/field` and `results/field-64` have the tables of the configs of their names; `results/field-smollm2`
has those of its own, with both logs. With --take, tables and figure are copied from the folder of a
comparison; with --write, all go into the pages.
"""

import argparse
import shutil
from pathlib import Path
from types import SimpleNamespace

from zocosmo.compare.figure import draw_field
from zocosmo.log import read_log

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGES, IMAGES = (DOCS / "field.md", DOCS / "field-details.md"), DOCS / "img"
FIELD, MANY, MODEL = HERE / "field", HERE / "field-64", HERE / "field-smollm2"
BUDGETS = (100_000, 10_000_000, 100_000_000)
TAKEN = ("*/*.md", "winners.md", "summary.md", "verdicts.md", "settings.csv", "budgets.csv")
TITLES = {
    "quadratic": "Quadratic, d = 128, ζ = 2, σ = 0.5",
    "rosenbrock": "Rosenbrock, d = 128, s_i ~ N(0, 0.3²)",
    "logistic": "Logistic regression on breast cancer, d = 31, labels split by Dirichlet(0.1), batches of 16",
    "digits": "A network of 16 units on digits, d = 1,210, labels split by Dirichlet(0.5), batches of 32",
}
EARLIER = (
    "*These winners are of an earlier rule: settings chosen at the largest budget and for equal queries, "
    "1,600 rounds for all.*\n\n"
)


def take(folder: Path, to: Path, image: Path) -> None:
    """Copy what the pages show of a comparison; nothing of an earlier one stays."""
    shutil.rmtree(to, ignore_errors=True)
    for path in [path for pattern in TAKEN for path in folder.glob(pattern)]:
        there = to / path.relative_to(folder)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, there)
    shutil.copyfile(folder / "field.svg", image)


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


def read(path: Path) -> str:
    """A file with one newline at its end; nothing if there is none."""
    return path.read_text(encoding="utf-8").rstrip("\n") + "\n" if path.exists() else ""


def sections() -> dict[str, str]:
    """What stands between the marks of the pages, by name."""
    return {
        "summary": read(FIELD / "summary.md") or EARLIER + read(FIELD / "winners.md"),
        "verdicts": read(FIELD / "verdicts.md"),
        "summary 64": many(),
        "tables": tables(),
        "traits": read(FIELD / "rosenbrock" / "traits.md"),
        "sst2": read(MODEL / "accuracy.md"),
        "sst2 winners": read(MODEL / "winners.md"),
        "sst2 traits": read(MODEL / "traits.md"),
        "sst2 pilot": at_the_end(),
    }


def many() -> str:
    """The field at 64 nodes, where it was run."""
    if not (MANY / "summary.md").exists():
        return ""
    text = read(MANY / "summary.md") + "\n" + read(MANY / "verdicts.md")
    return f"With 64 nodes:\n\n![The best at every budget, 64 nodes](img/field-64.svg)\n\n{text}"


def tables() -> str:
    """Every method on every problem: at equal bits and queries, then at equal bits within the queries."""
    shown = []
    for problem, title in TITLES.items():
        metric = "accuracy" if (FIELD / problem / "accuracy.md").exists() else "objective"
        if alone := read(FIELD / problem / f"{metric}.md"):
            shown.append(f"{title}:\n\n{alone}")
        if within := read(FIELD / problem / f"{metric}-within-queries.md"):
            shown.append(f"The same within a number of queries:\n\n{within}")
    return "\n".join(shown)


def filled(page: str) -> str:
    """The page with its sections as the files have them."""
    for name, text in sections().items():
        head, mark, rest = page.partition(f"<!-- {name} -->\n")
        if mark:
            page = f"{head}{mark}{text}<!-- end -->\n{rest.partition('<!-- end -->' + chr(10))[2]}"
    return page


def check_marks() -> None:
    """Refuse to leave out a section that no page has a mark for."""
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in sections():
        if f"<!-- {name} -->\n" not in pages:
            raise SystemExit(f"neither page has the mark <!-- {name} -->")


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
    parser.add_argument("--take-64", type=Path, help="the folder of a comparison of configs/field-64.yaml")
    parser.add_argument("--write", action="store_true", help="put tables and figures into the docs")
    given = parser.parse_args()
    if given.take:
        take(given.take, FIELD, IMAGES / "field.svg")
    if given.take_64:
        take(given.take_64, MANY, IMAGES / "field-64.svg")
    check_marks()
    if given.write:
        for page in PAGES:
            page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        draw()
    print("".join(sections().values()), end="")


if __name__ == "__main__":
    main()
