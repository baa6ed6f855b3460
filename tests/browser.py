"""A headless Chromium, driven by Playwright; tests that need it are skipped where there is none."""

import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def browser():
    """Skips, and says why, where no browser or no Playwright is installed."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: make browser", exc_type=ImportError
    )
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed: make browser, or apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # no sandbox: root has none, and the page is our own
        found = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield found
        finally:
            found.close()


@contextmanager
def opened(found, path, **options):
    """A page of a file or an address, with all that it says on the console and all that it asks for."""
    context = found.new_context(**options)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path if isinstance(path, str) else path.as_uri())
    page.wait_for_load_state("load")
    page.said, page.asked = said, asked
    try:
        yield page
    finally:
        context.close()
