"""The site: titles, pictures, the API, and pages that fit a phone."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def site():
    """mkdocs.yml; its tags of Python objects are left out."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return yaml.safe_load(re.sub(r"!!python/\S+", "", text))


def entries(nav, section=""):
    """(section, title or none, page) of every page in the navigation."""
    for each in nav:
        if isinstance(each, str):
            yield section, None, each
            continue
        ((title, below),) = each.items()
        yield from entries(below, title) if isinstance(below, list) else [(section, title, below)]


PAGES = list(entries(site()["nav"]))


def heading(page):
    return re.search(r"^# (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.M).group(1)


@pytest.mark.parametrize(("section", "title", "page"), PAGES, ids=[page for *_, page in PAGES])
def test_a_page_is_called_what_the_navigation_calls_it(section, title, page):
    assert title in (None, heading(page))


def test_every_page_is_in_the_navigation_once():
    found = [page for *_, page in PAGES]
    assert sorted(found) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", [page for section, _, page in PAGES if section == "Tasks"])
def test_a_page_of_a_task_has_a_picture(page):
    pictures = re.findall(r"!\[[^\]]+\]\((img/[^)]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    assert all((DOCS / picture).is_file() for picture in pictures)
    assert pictures


def test_every_picture_is_on_some_page():
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    unused = {path.name for path in (DOCS / "img").iterdir() if f"img/{path.name}" not in text}
    assert unused == set()


def api():
    spec = importlib.util.spec_from_file_location("api", DOCS / "api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_api_has_all_that_docs_import():
    """Each object is on a page of the API, and the pages are current. Stale? make generated"""
    pytest.importorskip("peft")
    made = api()
    documented = {id(name.thing) for names in made.entries().values() for name in names}
    assert {name[:2] for name in made.imported() if id(name.thing) not in documented} == set()
    assert made.written() == {
        path.name: path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md"))
    }


def test_the_api_finds_imports_in_every_kind_of_block():
    found = set(
        api().IMPORT.findall(
            "    from zocosmo.dist import Peer\nfrom zocosmo import (\n  Tape,\n  frame,\n)\n"
        )
    )
    assert found == {("zocosmo.dist", "Peer"), ("zocosmo", "(\n  Tape,\n  frame,\n)")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, built as `make check` builds it."""
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_signatures_are_in_the_api(built):
    text = (built / "api" / "names" / "index.html").read_text(encoding="utf-8")
    assert "budget_bits" in text
    assert "draw_direction" in text


@pytest.mark.slow
def test_no_page_is_wider_than_a_phone(built):
    playwright = pytest.importorskip("playwright.sync_api")
    if not shutil.which("chromium"):
        pytest.skip("no Chromium here; make browser")
    spec = importlib.util.spec_from_file_location("widths", DOCS / "widths.py")
    widths = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(widths)
    with playwright.sync_playwright() as driver:
        assert widths.too_wide(driver, built, 390) == {}


def test_the_index_calls_pages_by_their_titles():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    rows = text.partition("## Where to go")[2]
    links = re.findall(r"\[([^\]]+)\]\((\w[\w/-]*\.md)\)", rows)
    short = {"results": "model-results.md", "expectations": "expectation.md"}  # second links of a row
    assert {title: page for title, page in links if title not in (heading(page), *short)} == {}
