"""The picture of round.md: one round of a pair, with the numbers of a real one.

python docs/round.py docs/img/round.svg
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo import Tape, draw_direction

D, Q, ETA, MU = 12, 4, 0.05, 0.1
OPTIMA = (0.0, 1.5)  # node i's loss is ‖x − optimum‖²
BLUE, RED, GREY, INK, PALE = "#1b6ca8", "#d1495b", "#9aa5b1", "#1f2933", "#eef2f6"
WIDE, CELL, LEFT, RIGHT = 540, 20, 12, 288


class Round(NamedTuple):
    support: NDArray[Any]
    signs: NDArray[Any]
    x: list[NDArray[Any]]  # before
    slopes: list[float]
    sent: list[NDArray[Any]]  # q values of each node
    mixed: NDArray[Any]


def one_round(seed: str = "docs", t: int = 5) -> Round:
    """What nodes 0 and 1 compute when both start at 1."""
    u = draw_direction(Tape(seed), t, 0, 1, d=D, q=Q)
    x = [np.full(D, 1.0), np.full(D, 1.0)]
    slopes = [
        float((((u.shift(x[i], MU) - c) ** 2).sum() - ((u.shift(x[i], -MU) - c) ** 2).sum()) / (2 * MU))
        for i, c in enumerate(OPTIMA)
    ]
    sent = [u.restrict(x[i]) - ETA * D / Q * slopes[i] * u.signs for i in range(2)]
    return Round(u.index, u.signs, x, slopes, sent, (sent[0] + sent[1]) / 2)


def text(x: float, y: float, words: str, size: int = 15, fill: str = INK, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" {more}>{words}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, edge: str = GREY) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} fill="{fill}" stroke="{edge}" rx="3"/>'


def cells(x: float, y: float, lit: NDArray[Any], marks: list[str], shade: str) -> list[str]:
    """d cells in a row; those of the support filled, with a mark in each."""
    found = [box(x + CELL * k, y, CELL - 2, CELL + 4, shade if k in lit else PALE) for k in range(D)]
    middle = 'text-anchor="middle" font-weight="bold"'
    return found + [
        text(x + CELL * k + 9, y + 17, mark, 14, "white", middle) for k, mark in zip(lit, marks, strict=True)
    ]


def values(x: float, y: float, numbers: NDArray[Any], shade: str) -> list[str]:
    """q boxes with numbers."""
    middle = 'text-anchor="middle"'
    return [
        part
        for k, number in enumerate(numbers)
        for part in (
            box(x + 58 * k, y, 54, 28, shade),
            text(x + 58 * k + 27, y + 19, f"{number:.2f}".replace("-", "−"), 15, "white", middle),
        )
    ]


def heading(number: int, y: float, words: str) -> list[str]:
    circle = f'<circle cx="25" cy="{y - 6}" r="13" fill="{INK}"/>'
    return [
        circle,
        text(25, y, str(number), 15, "white", 'text-anchor="middle"'),
        text(46, y, words, 16, INK, 'font-weight="bold"'),
    ]


def arrow(y: float, start: float, end: float) -> str:
    tip = 8 if end < start else -8
    return (
        f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="{INK}" stroke-width="2"/>'
        f'<path d="M{end} {y} l{tip} -5 v10 z" fill="{INK}"/>'
    )


def picture(r: Round) -> str:
    """The five stages, from the top down; node 0 on the left, node 1 on the right."""
    signs = ["+" if sign > 0 else "−" for sign in r.signs]
    at = (LEFT, RIGHT)
    body = [text(at[i] + 90, 34, f"node {i}", 18, (BLUE, RED)[i], 'font-weight="bold"') for i in range(2)]
    body += heading(1, 74, f"Draw: the same {Q} of {D} coordinates, with signs")
    for i in range(2):
        body += cells(at[i], 90, r.support, signs, (BLUE, RED)[i])
    body += heading(2, 156, "Query: two readings of the private loss")
    for i in range(2):
        body.append(text(at[i], 184, f"f(x + μu) − f(x − μu) → slope {r.slopes[i]:+.0f}".replace("-", "−")))
    body += heading(3, 224, "Step, on the support only")
    for i in range(2):
        body += values(at[i], 240, r.sent[i], (BLUE, RED)[i])
    body += heading(4, 308, f"Send: {Q} values each way, in order, and no indices")
    body += [arrow(334, 110, 430), arrow(354, 430, 110)]
    body.append(text(270, 327, f"{Q} × 32 bits", 14, INK, 'text-anchor="middle"'))
    body += heading(5, 392, "Mix: both take the average; the rest stays")
    for i in range(2):
        body += values(at[i], 408, r.mixed, "#4b5d6e")
    frame = f'<rect width="{WIDE}" height="452" fill="white" rx="8"/>'
    label = 'role="img" aria-label="One round of a pair in five stages"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} 452" {label} font-family="sans-serif">'
    )
    return "\n".join([head, frame, *body, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(one_round()), encoding="utf-8")
