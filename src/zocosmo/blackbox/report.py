"""The result of `minimize` as plain data, a file or a table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from zocosmo.files import finite_or_null, write_text

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

NAMES = ("success", "status", "message", "fun", "nit", "nfev", "bits", "bits_by_kind", "disagreement")
SETTINGS = ("q", "eta", "mu", "beta")
MOST_SHOWN = 8  # coordinates of x


def as_report(result: "OptimizeResult") -> dict[str, Any]:
    """A result as JSON data: NaN becomes null."""
    settings = result.method.settings
    method = {"kind": result.method.kind, **{name: settings.get(name) for name in SETTINGS}}
    why = list(result.suggestion.reasons) if result.suggestion else []
    report: dict[str, Any] = {name: result[name] for name in NAMES}
    report |= {"method": method, "suggested": why, "x": result.x.tolist()}
    return finite_or_null(report)  # type: ignore[no-any-return]


def write_result(to: Path, result: "OptimizeResult") -> None:
    """The report with the states of all nodes and the log."""
    log, states = result.log.to_dict("records"), result.states.tolist()
    more = finite_or_null({"states": states, "log": log})
    write_text(to, json.dumps({**as_report(result), **more}, indent=1) + "\n")


def shown(x: Sequence[float]) -> str:
    """The first coordinates of a point."""
    text = ", ".join(f"{value:.6g}" for value in x[:MOST_SHOWN])
    return f"{text}, … ({len(x)} in all)" if len(x) > MOST_SHOWN else text


def result_table(report: dict[str, Any]) -> Table:
    method, x = report["method"], report["x"]
    settings = [f"{name} = {method[name]:.6g}" for name in SETTINGS if method[name] is not None]
    loss = "not measured" if report["fun"] is None else f"{report['fun']:.6g}"
    apart = "not finite" if report["disagreement"] is None else f"{report['disagreement']:.3g}"
    table = Table(show_header=False, box=None)
    for name, text in (
        ("loss at the average", loss),
        ("x", shown(x)),
        ("disagreement", apart),
        ("rounds", f"{report['nit']:,}"),
        ("queries", f"{report['nfev']:,}"),
        ("bits per node", f"{report['bits']:,.0f}"),
        (method["kind"], ", ".join(settings)),
        *(("suggested", reason) for reason in report["suggested"]),
        ("ended", report["message"]),
    ):
        table.add_row(name, text)
    return table
