"""The runtime: nodes in processes of their own over torch.distributed, equal to the simulator bit for bit."""

from zocosmo.extras import missing as _missing

try:
    import torch.distributed as _  # noqa: F401
except ModuleNotFoundError:
    raise _missing("the runtime", "torch") from None

from zocosmo.dist.peer import Peer

__all__ = ["Peer"]
