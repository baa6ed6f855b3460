"""For torch: an optimizer that never asks for a gradient, on one node or across processes."""

from zocosmo.errors import InputError as _InputError

try:
    import torch as _  # noqa: F401
except ModuleNotFoundError:
    raise _InputError('this optimizer needs torch; run: pip install "zocosmo[torch]"') from None

from zocosmo.torch.coordinates import Parameters
from zocosmo.torch.optimizer import Cosmo

__all__ = ["Cosmo", "Parameters"]
