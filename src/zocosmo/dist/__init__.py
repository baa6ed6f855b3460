"""The runtime: nodes in processes of their own over torch.distributed, equal to the simulator bit for bit."""

import os as _os

from zocosmo.errors import InputError as _InputError

_os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch prints stacks where our errors are one line

try:
    import torch.distributed as _  # noqa: F401
except ModuleNotFoundError:
    raise _InputError('the runtime needs torch; run: pip install "zocosmo[torch]"') from None

from zocosmo.dist.peer import Peer

__all__ = ["Peer"]
