"""What watching costs: the job, the browser, and the time until a point is seen.

    python benchmarks/watch.py

Needs the extra watch, Playwright and Chromium: make browser.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "watch"))

from big import memory_of, write_rows
from served import served
from watched import Writer

from browser import browser, opened
from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan
from zocosmo.watch.study import Study
from zocosmo.watch.view import View

POINTS = "[...job.curves.values()].reduce((sum, curve) => sum + curve.y.length, 0)"
STUDY = """\
problem: {kind: quadratic, d: 32, zeta: 1.0}
graphs: [{kind: ring, n: 8}]
methods: [{kind: edge_local, q: 4, eta: 0.004, mu: 1.0e-3}]
seeds: [1-5]
rounds: 20000
log_every: 10
"""


def job_cost(folder: Path, turns: int = 5) -> None:
    """CPU seconds of a study with a trace and without, in turns."""
    (folder / "study.yaml").write_text(STUDY)
    plan = load_plan(folder / "study.yaml")
    spent: dict[str, list[float]] = {"": [], "run": []}
    for turn in range(turns):
        for job, found in spent.items():
            began = time.process_time()
            run_plan(plan, folder / f"cost-{job}-{turn}", job=job)
            found.append(time.process_time() - began)
    plain, traced = (min(found) for found in spent.values())
    size = (folder / "cost-run-0/.trace/study.jsonl").stat().st_size
    print(f"20,000 rounds: {plain:.2f} s CPU, with a trace {traced:.2f} s; {size / 1e3:.0f} kB of trace")


def lateness(chromium, folder: Path, points: int = 40) -> None:
    writer = Writer(folder / "run", rounds=10_000)
    writer.row(0)
    late = []
    with served(Study(folder / "run")) as where, opened(chromium, where) as page:
        for k in range(1, points + 1):
            while page.evaluate(POINTS) < 2 * k:
                page.wait_for_timeout(5)
            time.sleep(0.11 * (k % 3))
            began = time.monotonic()
            writer.row(10 * k)
            while page.evaluate(POINTS) < 2 * k + 2:
                page.wait_for_timeout(5)
            late.append(time.monotonic() - began)
    print(f"from write to page: median {statistics.median(late):.2f} s, most {max(late):.2f} s of {points}")


def memory(chromium, folder: Path, trials: int, rows: int) -> None:
    name = f"{trials}x{rows}"
    write_rows(folder / name, trials, rows)
    source, began = Study(folder / name), time.monotonic()
    source.refresh()
    read = time.monotonic() - began
    news = View(source).news()
    sent = sum(len(str(part)) for part in news["points"].values())
    with served(source) as where, opened(chromium, where) as page:
        while page.evaluate(POINTS) == 0:
            page.wait_for_timeout(50)
        page.wait_for_timeout(2000)
        points, used = page.evaluate(POINTS), memory_of(chromium)
        heap = page.evaluate("performance.memory.usedJSHeapSize")
    print(
        f"{trials * rows:,} rows of {trials:,} trials: read in {read:.1f} s, {points:,} points, "
        f"{sent / 1e6:.1f} MB sent, {used / 1e6:.0f} MB in the browser ({heap / 1e6:.0f} MB of it scripts)"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        job_cost(folder)
        with browser() as chromium:
            lateness(chromium, folder)
            for trials, rows in ((1, 10), (1, 1_000_000), (100, 10_000), (5_000, 200)):
                memory(chromium, folder, trials, rows)


if __name__ == "__main__":
    main()
