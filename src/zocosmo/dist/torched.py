"""torch.distributed, or an error that says how to install it."""

import os
from typing import Any

from zocosmo.extras import missing

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch prints stacks where our errors are one line

try:
    import torch as torch
    import torch.distributed
except ModuleNotFoundError:
    raise missing("the runtime", "torch") from None

c10d: Any = torch.distributed  # much of what we use is untyped
