"""For torch: an optimizer that never asks for a gradient, on one node or across processes."""

from zocosmo.errors import InputError

try:
    import torch as _  # noqa: F401
except ModuleNotFoundError:
    raise InputError('this optimizer needs torch; run: pip install "zocosmo[torch]"') from None

from zocosmo.torch.coordinates import Parameters as Parameters
from zocosmo.torch.optimizer import Cosmo as Cosmo
