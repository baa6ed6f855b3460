"""The live page in a browser: points within two seconds, no word on the console, nothing from elsewhere."""

import time

import pytest
from watched import Writer, network, node_line, small

from browser import browser, opened

pytest.importorskip("starlette", reason="the extra watch is not installed")
pytest.importorskip("uvicorn", reason="the extra watch is not installed")

from served import served

from zocosmo.experiments.run import run_plan
from zocosmo.watch.study import Study

POINTS = "[...job.curves.values()].reduce((sum, curve) => sum + curve.y.length, 0)"
LATE = 2.0  # seconds


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def reaches(page, script, value):
    """The seconds until a script has a value; the page's policy forbids Playwright to wait inside it."""
    began = time.monotonic()
    while page.evaluate(script) != value:
        assert time.monotonic() - began < 30, (page.evaluate(script), value)
        page.wait_for_timeout(20)
    return time.monotonic() - began


def is_quiet(page, where):
    """Nothing on the console, nothing asked of another server, nothing wider than the screen."""
    assert page.said == []
    root = where.partition("/?")[0]
    assert all(each.startswith((root, "data:")) for each in page.asked)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_points_of_a_running_study_appear_within_two_seconds(chromium, tmp_path):
    writer = Writer(tmp_path / "run")
    writer.row(0)
    with served(Study(tmp_path / "run")) as where, opened(chromium, where) as page:
        reaches(page, POINTS, 2)
        assert page.url.endswith("/")  # the token is not in the address bar
        late = []
        for k in range(1, 6):
            writer.row(10 * k)
            late.append(reaches(page, POINTS, 2 + 2 * k))
        assert min(late) < LATE  # of a machine that may be busy
        assert page.inner_text("#state") == "running"
        assert page.locator("#methods tbody tr").count() == 2
        assert page.locator("#graph .lit").count() == 2
        assert "50.0 %" in page.inner_text("#facts")
        writer.trace.write("end", how="failed", text="the rig caught fire")
        writer.trace.close()
        reaches(page, "document.getElementById('state').textContent", "failed")
        assert "the rig caught fire" in page.inner_text("#text")
        is_quiet(page, where)


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.slow)])
def test_a_finished_study_fits_the_screen(chromium, tmp_path, width):
    run_plan(small(tmp_path), tmp_path / "out", job="run")
    size = {"width": width, "height": 844}
    with served(Study(tmp_path / "out")) as where, opened(chromium, where, viewport=size) as page:
        reaches(page, POINTS, 4 * 13)
        assert page.inner_text("#state") == "finished"
        for name in ("plot-bits", "plot-queries", "plot-s"):
            assert page.evaluate(INK, name) > 200
        assert page.evaluate("getComputedStyle(document.body).fontSize") == "15px"
        page.select_option("#metric", "disagreement")
        reaches(page, "job.about.metric", "disagreement")
        reaches(page, POINTS, 4 * 13)
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.click("#scale")
        is_quiet(page, where)


INK = """(name) => {
  const canvas = document.getElementById(name);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let k = 3; k < data.length; k += 4) count += data[k] > 0;
  return count;
}"""


def test_a_network_of_four_shows_nodes_and_who_waits_for_whom(chromium, tmp_path):
    first, traces = network(tmp_path / "net")
    first.row(5)
    for rank, trace in enumerate(traces):
        trace.write("node", **node_line(rank, 5))
    size = {"width": 390, "height": 844}
    with served(Study(tmp_path / "net")) as where, opened(chromium, where, viewport=size) as page:
        reaches(page, "document.querySelectorAll('#nodes tbody tr').length", 4)
        assert page.locator("#graph .lit").count() == 2
        traces[1].write("node", **node_line(1, 6, state="waits", **{"for": 2}))
        traces[0].write("event", what="lost", rank=3, round=6, by=0)
        reaches(page, "document.querySelectorAll('#graph .waiting').length", 1)
        assert "waits for 2" in page.inner_text("#nodes")
        reaches(page, "document.querySelectorAll('#events .lost').length", 1)
        is_quiet(page, where)
    for trace in traces:
        trace.close()


@pytest.mark.slow
def test_a_million_rows_take_less_than_300_mb_in_the_browser(chromium, tmp_path):
    from big import memory_of, write_rows

    write_rows(tmp_path / "big", trials=100, rows=10_000)
    with served(Study(tmp_path / "big")) as where, opened(chromium, where) as page:
        reaches(page, f"{POINTS} > 40000", True)
        page.wait_for_timeout(2000)
        assert memory_of(chromium) < 300e6
        is_quiet(page, where)
