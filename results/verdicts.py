"""Verdicts on two small models, from the logs in results/small-models.   python results/verdicts.py [--write]

With --write, rewrites the tables and the figure of docs/model-results.md, and zocosmo_paper/another.json.
"""

import argparse
import json
from pathlib import Path

from zocosmo_paper.another import SPEAKS
from zocosmo_paper.small_models import ModelLogs

ROOT = Path(__file__).parents[1]
LOGS = ModelLogs(ROOT / "results" / "small-models")
PAGE = ROOT / "docs" / "model-results.md"
PICTURE = ROOT / "docs" / "img" / "small-models.png"
BEGIN, END = "<!-- verdicts -->\n", "<!-- end -->\n"

ANOTHER = ROOT / "src" / "zocosmo_paper" / "another.json"


def sayings() -> dict[str, str]:
    """What the claims say that speak to orderings of the paper, by their words."""
    wanted = {name for names in SPEAKS.values() for name in names}
    return {each.words: LOGS.saying(each) for each in LOGS.claims() if each.words in wanted}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables and the figure into the docs")
    tables = LOGS.tables()
    if parser.parse_args().write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}{tables}{END}{rest.partition(END)[2]}", encoding="utf-8")
        LOGS.draw(PICTURE)
        ANOTHER.write_text(json.dumps(sayings(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(tables, end="")
