"""Figures. matplotlib is imported only here."""

from pathlib import Path
from typing import Any

from zocosmo.errors import InputError
from zocosmo.extras import missing
from zocosmo.files import replace_file

SHADES = {"values": "#1b6ca8", "indices": "#d1495b", "control": "#edae49", "framing": "#9aa5b1"}
FORMATS = (".svg", ".png", ".pdf")
UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def check_figure(to: Path) -> None:
    """Refuse a file name with an unknown suffix."""
    if to.suffix not in FORMATS:
        raise InputError(f"a figure ends in {', '.join(FORMATS)}, got {to.name!r}")


def new_figure(to: Path, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure with one panel, and its axes."""
    figure, panels = new_panels(to, size)
    return figure, panels[0]


def new_panels(
    to: Path, size: tuple[float, float], count: int = 1, columns: int = 1
) -> tuple[Any, list[Any]]:
    """A figure with `count` panels, row by row."""
    check_figure(to)
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise missing("a figure", "matplotlib") from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "zocosmo"  # equal numbers give equal files
    from matplotlib import pyplot as plt

    shape = -(-count // columns), columns
    figure, grid = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    for axes in grid.flat[count:]:
        axes.remove()
    panels = list(grid.flat[:count])
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def save_figure(figure: Any, to: Path, dpi: float | str = "figure") -> None:
    """Write the figure without a date, and close it."""
    from matplotlib import pyplot as plt

    replace_file(to, lambda path: figure.savefig(path, dpi=dpi, metadata=UNDATED.get(to.suffix, {})))
    plt.close(figure)


def payload_figure(report: dict[str, Any], to: Path) -> None:
    """Bars of the bits of one message by codec, split by use.

    Leaves out dense, which would dwarf the others, and seed_scalar, which is not comparable.
    """
    figure, axes = new_figure(to, (8, 2.9))
    rows = [row for row in report["codecs"] if row["codec"] not in ("dense", "seed_scalar")]
    rows.sort(key=lambda row: -row["total"])
    left = [0.0] * len(rows)
    for kind, shade in SHADES.items():
        widths = [row[kind] / 1000 for row in rows]
        if max(widths) > 0.005 * rows[0]["total"] / 1000:  # thinner bars are invisible
            axes.barh([row["codec"] for row in rows], widths, left=left, color=shade, label=kind, height=0.62)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for k, row in enumerate(rows):
        axes.text(left[k], k, f" {row['total'] / 1000:,.1f} ({row['ratio']:.2f}×)", va="center", fontsize=9)
    bound = report["entropy_bound"]["total"] / 1000
    axes.axvline(bound, color="black", linestyle="--", linewidth=1)
    axes.text(
        bound, len(rows) - 0.52, "entropy bound of a private support", ha="center", va="bottom", fontsize=8
    )
    axes.set(xlim=(0, 1.2 * max(left)), xlabel="kbit per message")
    axes.set_title(f"d = {report['d']:,}, q = {report['q']:,}, {report['value']} values", fontsize=10, pad=16)
    axes.legend(frameon=False, loc="upper right", fontsize=9)
    save_figure(figure, to)
