"""Draw the packages and their imports, read from the source: docs/img/packages.svg.   make generated

A box is a package or a module at the top of it; a line means that the lower box imports the upper one. Lines
that follow from others are left out, so that the picture shows the order and not every import.
"""

import ast
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src"
WIDTH, HEIGHT, GAP, ROW = 104, 30, 16, 74
SKIPPED = {"zocosmo.__main__", "zocosmo.__init__", "zocosmo._version", "zocosmo"}
FILL = {"zocosmo_paper": "#f3e3c3", "zocosmo.theory": "#dce8d4"}


def packages() -> dict[str, set[str]]:
    """Which packages each package imports, of ours, at any depth of its files."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        here = package_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
        used = found.setdefault(here, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                used.add(package_of(node.module))
            elif isinstance(node, ast.Import):
                used.update(package_of(alias.name) for alias in node.names)
    return {
        name: {each for each in used if each in found and each not in {name, *SKIPPED}}
        for name, used in found.items()
        if name not in SKIPPED
    }


def package_of(module: str) -> str:
    """zocosmo.core.tape is part of zocosmo.core; the paper's rerun is one box."""
    parts = module.split(".")
    return parts[0] if parts[0] == "zocosmo_paper" else ".".join(parts[:2])


def levels(imports: dict[str, set[str]]) -> dict[str, int]:
    """How many packages lie above each, on the longest way up; imports at use, against the order, are cut."""
    late = {("zocosmo.problems", "zocosmo.llm"), ("zocosmo.dist", "zocosmo.cli")}
    for name, other in late:
        imports[name].discard(other)
    depth: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((of(each) for each in imports[name]), default=-1)
        return depth[name]

    for name in imports:
        of(name)
    return depth


def reduced(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Only imports that do not follow from others."""

    def above(name: str) -> set[str]:
        return imports[name].union(*(above(each) for each in imports[name]))

    return {
        name: {each for each in used if not any(each in above(other) for other in used - {each})}
        for name, used in imports.items()
    }


def picture() -> str:
    """The whole drawing as SVG."""
    imports = packages()
    depth = levels(imports)
    rows = [sorted(n for n in depth if depth[n] == k) for k in range(max(depth.values()) + 1)]
    wide = max(map(len, rows)) * (WIDTH + GAP) + GAP
    at = {}
    for k, row in enumerate(rows):
        left = (wide - len(row) * (WIDTH + GAP) + GAP) / 2
        at |= {name: (left + i * (WIDTH + GAP), GAP + k * ROW) for i, name in enumerate(row)}
    lines = [
        f'<path d="M{at[a][0] + WIDTH / 2} {at[a][1]} L{at[b][0] + WIDTH / 2} {at[b][1] + HEIGHT}"/>'
        for a, used in sorted(reduced(imports).items())
        for b in sorted(used)
    ]
    boxes = [
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{FILL.get(name, "#e4ecf4")}"/>'
        f'<text x="{x + WIDTH / 2}" y="{y + 20}">{name.removeprefix("zocosmo.")}</text>'
        for name, (x, y) in sorted(at.items())
    ]
    high = len(rows) * ROW
    style = "font: 13px sans-serif; text-anchor: middle"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" style="{style}">',
            '<g stroke="#9aa5b1" fill="none">',
            *lines,
            "</g>",
            *boxes,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    (DOCS / "img" / "packages.svg").write_text(picture(), encoding="utf-8")
