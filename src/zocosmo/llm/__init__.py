"""Language models: prompted tasks, LoRA adapters, and decentralised fine-tuning."""

import importlib as _importlib
from typing import Any as _Any

from zocosmo.extras import missing as _missing

__all__ = ["CosmoConfig", "CosmoTrainer"]

_PLACES = {"CosmoConfig": "zocosmo.llm.arguments", "CosmoTrainer": "zocosmo.llm.trainer"}


def __getattr__(name: str) -> _Any:
    """Import public names on first use, as they import transformers."""
    if name not in _PLACES:
        raise AttributeError(f"module 'zocosmo.llm' has no attribute {name!r}")
    try:
        return getattr(_importlib.import_module(_PLACES[name]), name)
    except ModuleNotFoundError as error:
        raise _missing(name, str(error.name), "llm") from None
