"""The picture of theory.md: V and U against H² for G, S and I, exact.

python docs/moments.py docs/img/moments.png
"""

import sys
from fractions import Fraction
from pathlib import Path

from zocosmo.report.figures import new_panels, save_figure
from zocosmo.theory.moments import coupling_moments, crossover

SIZES = {"d": 32, "q": 4, "pairs": 4}
SHADES = {"G": "#1b6ca8", "S": "#edae49", "I": "#d1495b"}


def moments_picture(to: Path) -> None:
    """Straight lines that meet in one point, left and right; ‖ā‖ = 1."""
    figure, panels = new_panels(to, (8, 3.2), count=2, columns=2)
    H2 = [Fraction(k, 2) for k in range(31)]
    at = crossover("I", "G", **SIZES, a2=1)
    names = {"V": "error of the average, V", "U": "disagreement injected, U"}
    for axes, (part, name) in zip(panels, names.items(), strict=True):
        for coupling, shade in SHADES.items():
            found = [coupling_moments(coupling, **SIZES, a2=1, H2=value) for value in H2]
            axes.plot(H2, [each._asdict()[part] for each in found], color=shade, label=coupling)
        axes.axvline(at, color="black", linestyle=":", linewidth=1)
        axes.set(xlabel="heterogeneity of pairs, H²", ylabel=name, xlim=(0, 15), ylim=(0, None))
    panels[0].text(float(at), 118, f" all equal at H² = {at}", fontsize=9)
    panels[1].legend(frameon=False, loc="lower right", title="coupling")
    save_figure(figure, to, dpi=110)


if __name__ == "__main__":
    moments_picture(Path(sys.argv[1]))
