"""torch.distributed, or an error that says how to install it."""

from typing import Any

from zocosmo.errors import InputError

try:
    import torch as torch
    import torch.distributed
except ModuleNotFoundError:
    raise InputError('the runtime needs torch; run: pip install "zocosmo[torch]"') from None

c10d: Any = torch.distributed  # much of what we use is untyped
