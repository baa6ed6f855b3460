"""The results of a probe as plain data, tables and a figure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from zocosmo.files import finite_or_null
from zocosmo.llm.probe import Probe, Proposal
from zocosmo.llm.survey import AGREE, ENOUGH, Level
from zocosmo.report.figures import new_figure, save_figure

SHADES = {"float32": "#1b6ca8", "tf32": "#3f9142", "bfloat16": "#d1495b", "float16": "#edae49"}

Found = tuple[Probe, Proposal]


def as_report(found: Sequence[Found], best: int | None) -> dict[str, Any]:
    """All measurements for JSON; numbers that are not finite become null."""
    rows = []
    for one, proposal in found:
        measured = {**asdict(one), "sources": dict(one.sources), "levels": [x._asdict() for x in one.levels]}
        runs = [{k: v for k, v in x._asdict().items() if k != "losses"} for x in proposal.pilots]
        shape = proposal.shape and proposal.shape._asdict()
        rows.append({"probe": measured, "suggestion": {**proposal._asdict(), "pilots": runs, "shape": shape}})
    report: dict[str, Any] = finite_or_null(
        {"dtypes": rows, "recommended": None if best is None else found[best][1].dtype}
    )
    return report


def probe_tables(found: Sequence[Found], best: int | None) -> Iterator[Table | str]:
    """Tables and lines in the order they are printed: each dtype, their comparison, the proposal."""
    for one, proposal in found:
        parts = ", ".join(f"{name} {sigma:.2g}" for name, sigma in one.sources)
        yield f"{one.dtype}: rounding of one loss {one.noise:.2g} ({parts}); loss {one.loss:.4f}"
        yield level_table(one, proposal)
        if proposal.pilots:
            yield pilot_table(proposal)
        yield ""
    for one, proposal in found if len(found) > 1 else ():
        word = "hopeless" if proposal.hopeless else f"mu = {proposal.mu:.3g}, {proposal.snr:.0f} × rounding"
        yield f"{one.dtype}: {word}; {1e3 * one.seconds:.3g} ms for an example"
    for _, proposal in found if best is None else [found[best]]:
        yield str(proposal)


def level_table(one: Probe, proposal: Proposal) -> Table:
    table = _table("mu", "difference", "slope", "× rounding", "off the next")
    for level in one.levels:
        apart = "" if math.isnan(level.apart) else f"{level.apart:.1%}"
        numbers = (f"{level.mu:g}", f"{level.difference:.2e}", f"{level.slope:.4f}", f"{level.snr:.1f}")
        table.add_row(*numbers, apart, verdict(level, proposal))
    return table


def _table(*titles: str) -> Table:
    """Columns of numbers, and one of words."""
    numbers = (Column(title, justify="right") for title in titles)
    return Table(*numbers, "", box=None, pad_edge=False)


def verdict(level: Level, proposal: Proposal) -> str:
    """A word on one μ."""
    if math.isnan(level.apart):
        return "to judge the one before"
    if level.snr < ENOUGH:
        return "mostly rounding" if level.snr < 3 else "too close to rounding"
    if level.apart > AGREE:
        return "the loss bends"
    return "chosen" if level.mu == proposal.level else "fine"


def pilot_table(proposal: Proposal) -> Table:
    best = proposal.pilot
    table = _table("pilot eta", "loss before", "after", "‖x̄‖/‖x0‖")
    for pilot in proposal.pilots:
        word = "diverged" if pilot.diverged else "chosen" if pilot.eta == best else ""
        numbers = (f"{pilot.eta:.4g}", f"{pilot.before:.4f}", f"{pilot.after:.4f}", f"{pilot.norm:.3f}")
        table.add_row(*numbers, word)
    return table


def probe_figure(found: Sequence[Found], to: Path) -> None:
    """Differences over ±μu against μ, and the part of them that is rounding, for every dtype."""
    figure, axes = new_figure(to, (6.5, 4.2))
    for one, proposal in found:
        mus, shade = [level.mu for level in one.levels], SHADES[one.dtype]
        floor = math.sqrt(2) * one.noise
        axes.loglog(mus, [level.difference for level in one.levels], "o-", color=shade, label=one.dtype)
        axes.axhline(floor, color=shade, linestyle="--", linewidth=1)
        axes.text(mus[-1], 1.15 * floor, f"rounding, {one.dtype}", color=shade, ha="right", fontsize=8)
        axes.axhline(ENOUGH * floor, color=shade, linestyle=":", linewidth=1)
        axes.text(mus[-1], 1.15 * ENOUGH * floor, f"{ENOUGH:g} ×", color=shade, ha="right", fontsize=8)
        if not proposal.hopeless:
            at = next(level for level in one.levels if level.mu == proposal.level)
            axes.plot([at.mu], [at.difference], "o", color=shade, markersize=14, fillstyle="none")
    axes.set(xlabel="μ", ylabel="root mean square of f(x + μu) − f(x − μu)")
    axes.legend(loc="upper left", fontsize=9, framealpha=1.0, edgecolor="none")
    save_figure(figure, to, dpi=120)
