"""The report: one self-contained page that loads nothing.

Equal findings give equal bytes: the page has no times and nothing about the machine. Links are relative.
"""

import base64
import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from zocosmo.errors import InputError
from zocosmo.log import make_header
from zocosmo_paper.board import (
    WORST_FIRST,
    BoardLine,
    all_claims,
    board,
    counts,
    headline_of,
    number,
    ours_text,
)
from zocosmo_paper.claim import CHECK, STATEMENT, VERDICTS
from zocosmo_paper.forty import forty
from zocosmo_paper.item import Item, Picture, Table
from zocosmo_paper.items import all_items
from zocosmo_paper.plans import config_text
from zocosmo_paper.run import SUFFIXES, ItemResult
from zocosmo_paper.write import write_text

PAGE = Path("report", "index.html")
MOST_SVG = 150_000  # bytes; larger figures are shown as PNG
SIGNS = {"within": "✓", "ordering": "≈", "no": "✗", "not run": "–"}
MEANINGS = {
    "within": "no further off than the printed std, or two standard errors; constants agree in every digit",
    "ordering": "the claimed order holds, its paired 95 % interval below 0; a figure may be off",
    "no": "neither",
    "not run": "something it needs was missing, such as a model",
}
TABLES = (".md", ".csv", ".tex")
BOARD = ("item", "claim", "paper", "ours", "seeds", "diverged", "verdict")
OURS = "The paper prints no such value: formulas against the ledger, draws against laws, other readings."
STATED = "Each with what was done: enumerated, an exact recursion, a bound checked, or stated only."


def write_page(out: Path, results: Sequence[ItemResult]) -> Path:
    """Write the report next to its results, and return its path."""
    to = out / PAGE
    write_text(to, render(results, to.parent))
    return to


def render(results: Sequence[ItemResult], at: Path) -> str:
    """The page, with links relative to the folder `at`."""
    package = files("zocosmo_paper")
    style, script = (package.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    parts = [
        _head(style, script),
        '<body>\n<a class="skip" href="#items">Past the verdicts, to the items</a>\n<main>',
        _summary(results),
        _board(results),
        '<nav aria-labelledby="items">\n<h2 id="items">Items</h2>\n<ul class="contents">',
        *(f'<li><a href="#{_id(r.item.name)}">{escape(r.item.title)}</a></li>' for r in results),
        "</ul>\n</nav>",
        *(_item(result, at) for result in results),
        _apart(results, CHECK, "Checks of ours, not counted", OURS),
        _apart(results, STATEMENT, "Theorems, propositions and lemmas, not counted", STATED),
        _absent(results),
        "</main>",
        _foot(),
        f"<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _head(style: str, script: str) -> str:
    """The content security policy allows this style, this script and inline images, and no requests."""
    allowed = [f"{kind}-src '{_digest(text)}'" for kind, text in (("style", style), ("script", script))]
    policy = "; ".join(["default-src 'none'", "img-src data:", *allowed, "base-uri 'none'"])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ZO-COSMO: the paper, rerun</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>"""


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _summary(results: Sequence[ItemResult]) -> str:
    found = counts(all_claims(results))
    tiles = [
        f'<li class="{_css(v)}"><b>{found[v]}</b> {SIGNS[v]} {v}</li>'
        for v in VERDICTS
        if found[v] or v == "no"
    ]
    told = headline_of(results)
    return f"""<h1>The paper, rerun</h1>
<p id="headline"><b>{escape(told.sentence)}</b> {escape(told.details)}</p>
<p>{sum(found.values())} lines in {len(results)} items, each beside what was found here.
All verdicts are computed. Where 40 seeds give another verdict than the paper's number, both stand there.</p>
<ul class="counts">{"".join(tiles)}</ul>
<dl class="terms">{"".join(f"<dt>{v}</dt><dd>{MEANINGS[v]}.</dd>" for v in VERDICTS if found[v])}</dl>
<p>Ours are means ± standard deviations over seeds, or a mean paired difference and its 95 % interval by
Student's t. The tolerance of a figure stands below the printed one. Diverged runs are counted on each line
and left out of every mean.</p>"""


def _board(results: Sequence[ItemResult]) -> str:
    items = "".join(f'<option value="{escape(r.item.name)}">{escape(r.item.name)}</option>' for r in results)
    boxes = "".join(
        f'<label><input type="checkbox" name="verdict" value="{v}" checked> {v}</label>' for v in VERDICTS
    )
    return f"""<section class="board" id="board" aria-labelledby="verdict-board">
<h2 id="verdict-board">Verdicts</h2>
<form id="filter" class="filter" hidden>
<label>Words <input type="search" name="words"></label>
<label>Item <select name="only"><option value="">all</option>{items}</select></label>
<fieldset><legend>Verdict</legend>{boxes}</fieldset>
<output name="shown" aria-live="polite"></output>
</form>
<div class="scroll" tabindex="0" role="region" aria-label="Verdicts, all claims">
<table class="sortable" id="verdicts">
<thead><tr>{"".join(f'<th scope="col">{name}</th>' for name in BOARD)}</tr></thead>
<tbody>
{chr(10).join(map(_line, board(results)))}
</tbody>
</table>
</div>
</section>"""


def _line(line: BoardLine) -> str:
    claim, name = line.claim, line.result.item.name
    note = _note(claim.note)
    expected = "" if math.isnan(claim.exact) else _note(f"expected {number(claim.exact, 4)}")
    allowed = "" if math.isnan(claim.tolerance) else _note(f"tolerance {number(claim.tolerance, 2)}")
    key = "" if math.isnan(claim.ours) else repr(float(claim.ours))
    verdict = f'<span class="verdict {_css(claim.verdict)}">{SIGNS[claim.verdict]} {claim.verdict}</span>'
    later = forty(name, claim)
    turned = "" if later is None or later.verdict == claim.verdict else _note(f"{later.verdict} at 40 seeds")
    cells = [
        f'<th scope="row"><a href="#{_id(name)}">{escape(name)}</a></th>',
        f"<td>{escape(claim.words)}{note}</td>",
        f'<td class="num">{escape(claim.paper)}{allowed}</td>',
        f'<td class="num" data-key="{key}">{escape(ours_text(claim))}{expected}</td>',
        f'<td class="num">{claim.seeds or "–"}</td>',
        f'<td class="num">{claim.diverged}</td>',
        f'<td data-key="{WORST_FIRST.index(claim.verdict)}">{verdict}{turned}</td>',
    ]
    return f'<tr data-item="{escape(name)}" data-verdict="{claim.verdict}">{"".join(cells)}</tr>'


def _note(text: str) -> str:
    return f'<span class="note">{escape(text)}</span>' if text else ""


def _apart(results: Sequence[ItemResult], kind: str, title: str, about: str) -> str:
    """Lines that are not counted, in a table of their own; nothing if there are none."""
    lines = board(results, (kind,))
    if not lines:
        return ""
    rows = "\n".join(map(_line, lines))
    head = "".join(f'<th scope="col">{name}</th>' for name in BOARD)
    return f"""<section class="board" aria-labelledby="{kind}s">
<h2 id="{kind}s">{title}</h2>
<p>{about}</p>
<div class="scroll" tabindex="0" role="region" aria-labelledby="{kind}s">
<table class="sortable">
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
</section>"""


def _item(result: ItemResult, at: Path) -> str:
    item, found = result.item, result.findings
    name = _id(item.name)
    tally = ", ".join(
        f"{count} {verdict}" for verdict, count in counts(all_claims([result])).items() if count
    )
    labels = ", ".join(f"<code>{escape(label)}</code>" for label in item.labels)
    parts = [
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(item.title)}</h2>',
        f'<p class="soft">In the paper: {labels}. '
        f'<a href="#board" data-show="{escape(item.name)}">Verdicts</a>: {tally or "none"}.</p>',
        f"<h3>What is claimed</h3>\n<p>{escape(item.claimed)}</p>",
    ]
    if found.tables:
        parts += ["<h3>Paper against ours</h3>", *(_table(t, f"{name}-{t.name}") for t in found.tables)]
    if found.pictures:
        parts += ["<h3>Figures</h3>", *(_figure(p, result.folder, at) for p in found.pictures)]
    if item.ours:
        said = "".join(f"<dt>{escape(what)}</dt><dd>{escape(why)}</dd>" for what, why in item.ours.items())
        parts += [f'<h3>What the paper leaves out, and what we chose</h3>\n<dl class="terms">{said}</dl>']
    parts += ["<h3>Run it again</h3>", _command(result.command, f"{name}-command"), *_configs(item)]
    parts += ["<h3>Files</h3>", _files(result, at), "</section>"]
    return "\n".join(parts)


def _table(table: Table, name: str) -> str:
    head = "".join(f'<th scope="col">{escape(column) or "what"}</th>' for column in table.columns)
    rows = "\n".join(f"<tr>{''.join(_cells(row))}</tr>" for row in table.rows)
    notes = f'\n<p class="soft">{escape(table.notes)}</p>' if table.notes else ""
    return f"""<h4 id="{name}">{escape(table.title)}</h4>
<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}">
<table class="sortable" aria-labelledby="{name}">
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>{notes}"""


def _cells(row: Sequence[str]) -> Iterable[str]:
    first, *rest = row
    yield f'<th scope="row">{escape(first)}</th>'
    for text in rest:
        kind = ' class="num"' if text[:1].isdigit() or text[:1] in "-−+±(≥≤≈" else ""
        yield f"<td{kind}>{escape(text)}</td>"


def _figure(picture: Picture, folder: Path, at: Path) -> str:
    svg = folder / f"{picture.name}.svg"
    shown, kind = (svg, "svg+xml") if svg.stat().st_size <= MOST_SVG else (svg.with_suffix(".png"), "png")
    data = base64.b64encode(shown.read_bytes()).decode()
    links = ", ".join(_link(svg.with_suffix(suffix), at, suffix[1:].upper()) for suffix in SUFFIXES)
    return f"""<figure>
<img alt="{escape(picture.text)}" src="data:image/{kind};base64,{data}">
<figcaption>{escape(picture.title)} ({links})</figcaption>
</figure>"""


def _command(command: str, name: str) -> str:
    return (
        f'<div class="command"><code id="{name}">{escape(command)}</code>'
        f'<button type="button" data-copy="{name}" aria-label="Copy the command" hidden>Copy</button></div>'
    )


def _configs(item: Item) -> Iterable[str]:
    for name in item.configs:
        try:
            text = escape(config_text(name))
        except InputError:  # a study of a model that did not run, outside a clone
            continue
        yield (
            f"<details><summary>Config {escape(name)}.yaml</summary>\n"
            f'<pre tabindex="0"><code>{text}</code></pre></details>'
        )


def _files(result: ItemResult, at: Path) -> str:
    """The raw logs, the manifest, the tables, and the item's own measurements."""
    folder, found = result.folder, result.findings
    logs = [(folder / name / "log.parquet", f"raw log of {name}") for name in result.item.configs]
    tables = [(folder / f"{t.name}{suffix}", f"{t.name}{suffix}") for t in found.tables for suffix in TABLES]
    said = [*logs, (folder / "manifest.json", "manifest, from before the run"), *tables]
    drawn = {f"{picture.name}{suffix}" for picture in found.pictures for suffix in SUFFIXES}
    own = [p for p in sorted(folder.iterdir()) if p.is_file() and p.name[0] != "." and p.name not in drawn]
    said += [(path, path.name) for path in own if path not in dict(said)]
    there = (f"<li>{_link(path, at, words)}</li>" for path, words in said if path.exists())
    return f'<ul class="files">{"".join(there)}</ul>'


def _link(path: Path, at: Path, words: str) -> str:
    target = quote(Path(os.path.relpath(path, at)).as_posix())
    return f'<a href="{target}">{escape(words)}</a>'


def _absent(results: Sequence[ItemResult]) -> str:
    """Items that were not run, so that they are not taken for checked."""
    here = {result.item.name for result in results}
    rest = [item for item in all_items().values() if item.name not in here]
    if not rest:
        return ""
    lines = "".join(
        f"<dt>{escape(item.title)}</dt><dd>{f'Needs {escape(item.needs)}. ' if item.needs else ''}"
        f"<code>zocosmo reproduce {escape(item.name)}{' --model NAME' if item.needs else ''}</code></dd>"
        for item in rest
    )
    head = '<section aria-labelledby="absent">\n<h2 id="absent">Not in this report</h2>'
    return f"{head}\n<dl>{lines}</dl>\n</section>"


def _foot() -> str:
    made = make_header({}, "")
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return f'<footer>\n<p class="soft">Source {made["source"]}; {escape(versions)}.</p>\n</footer>'


def _id(name: str) -> str:
    return f"item-{name}"


def _css(verdict: str) -> str:
    return verdict.replace(" ", "-")
