"""Comparisons: one config with many methods and problems, tuned alike, at equal bits and equal queries."""

from zocosmo.compare.config import load_comparison
from zocosmo.compare.run import compare

__all__ = ["compare", "load_comparison"]
