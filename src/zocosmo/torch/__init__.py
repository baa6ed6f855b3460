"""For torch: an optimizer that never asks for a gradient, on one node or across processes."""

from zocosmo.extras import missing as _missing

try:
    import torch as _  # noqa: F401
except ModuleNotFoundError:
    raise _missing("this optimizer", "torch") from None

from zocosmo.torch.coordinates import Parameters
from zocosmo.torch.optimizer import Cosmo

__all__ = ["Cosmo", "Parameters"]
