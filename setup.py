"""What pyproject.toml cannot say: configs go into the wheel, and links of the README lead somewhere.

ZOCOSMO_URL is the public address of the repository's files, such as https://HOST/OWNER/zocosmo/blob/main.
With it, relative links of the README become links to it; without it they become plain text, since a package
index has no files beside the page.
"""

import os
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")


class BuildWithConfigs(build_py):
    """Copies configs/ into the package, where `zocosmo example` finds it."""

    def run(self):
        super().run()
        if self.editable_mode:  # the clone's own folder is used
            return
        for path in sorted((ROOT / "configs").rglob("*.yaml")):
            to = Path(self.build_lib, "zocosmo", "configs", path.relative_to(ROOT / "configs"))
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def readme(url):
    """The README for a package index: no relative link is left."""

    def there(found):
        picture, text, path = found.groups()
        if url:
            return f"{picture}[{text}]({url.rstrip('/')}/{path})"
        return f"({text}: {path})" if picture else text

    return LINK.sub(there, (ROOT / "README.md").read_text(encoding="utf-8"))


def urls(url):
    pages = {"Repository": "", "Documentation": "/docs/index.md", "Changelog": "/CHANGELOG.md"}
    return {name: url.rstrip("/") + path for name, path in pages.items()} if url else {}


if __name__ == "__main__":
    address = os.environ.get("ZOCOSMO_URL", "")
    setup(
        cmdclass={"build_py": BuildWithConfigs},
        long_description=readme(address),
        long_description_content_type="text/markdown",
        project_urls=urls(address),
    )
