"""The runtime: nodes in processes of their own over torch.distributed, equal to the simulator bit for bit."""

from zocosmo.errors import InputError as _InputError

try:
    import torch.distributed as _  # noqa: F401
except ModuleNotFoundError:
    raise _InputError('the runtime needs torch; run: pip install "zocosmo[torch]"') from None

from zocosmo.dist.peer import Peer

__all__ = ["Peer"]
