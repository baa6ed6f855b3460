"""Pages of the built site that are wider than a screen.

mkdocs build --site-dir build/site && python docs/widths.py build/site 390
"""

import shutil
import sys
from pathlib import Path
from typing import Any


def too_wide(driver: Any, site: Path, width: int) -> dict[str, int]:
    """Width in pixels of every page that scrolls sideways on a screen of `width`, by path."""
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": width, "height": 800})
    found = {}
    for path in sorted(site.resolve().rglob("index.html")):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        seen = page.evaluate("document.documentElement.scrollWidth")
        if seen > width:
            found[str(path.relative_to(site.resolve()))] = seen
    browser.close()
    return found


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        print(too_wide(driver, Path(sys.argv[1]), int(sys.argv[2])) or "every page fits")
