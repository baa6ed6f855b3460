"""Load models by name: from the cache of `zocosmo model`, a folder, or the hub."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from zocosmo.errors import InputError, check_known
from zocosmo.extras import missing
from zocosmo.llm.cache import KNOWN, check_kept, kept_folder, kept_models, meant
from zocosmo.llm.fetch import reachable
from zocosmo.llm.memory import DTYPES, check_device
from zocosmo.llm.quiet import first_line, quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

HUB = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
HUB_TIMEOUT = 5.0  # seconds; the hub's own client retries for minutes
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")
WORDS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")


def find_model(name: str) -> str:
    """Resolve a name to a cached model's folder, a given folder, or a hub name. Reads no weights."""
    if folder := kept_folder(name):
        return str(folder)
    path = Path(name).expanduser()
    if name and path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"{name} has no config.json; give a folder written by save_pretrained")
        return str(path)
    if path.is_file():
        raise InputError(f"{name} is a file; convert a GGUF with: zocosmo model add NAME {name}")
    if name in KNOWN:
        check_kept(name)
    if not HUB.fullmatch(name):
        known = f"give a folder, {_names()}, or a hub name{meant(name)}"
        raise InputError(f"model folder {name!r} does not exist; {known}")
    return name


def load_tokenizer(name: str) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model."""
    with _reading(name, "tokenizer") as (where, local):
        from transformers import AutoTokenizer

        _check_files(where, WORDS, "tokenizer")
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(where, local_files_only=local)
    return tokenizer


def load_model(name: str, *, dtype: str, device: str) -> "PreTrainedModel":
    """The model with its weights, in eval mode and without gradients. Call `check_memory` first."""
    check_known("dtype", dtype, DTYPES)
    place = check_device(device)
    with _reading(name, "weights") as (where, local):
        from transformers import AutoModelForCausalLM

        _check_files(where, WEIGHTS, "weights")
        model, report = _with_attention(
            AutoModelForCausalLM.from_pretrained,
            where,
            dtype=DTYPES[dtype],
            local_files_only=local,
            output_loading_info=True,
        )
        if missing := sorted(report["missing_keys"]):  # transformers would initialise them at random
            raise ValueError(f"{len(missing)} tensors are missing, including {missing[0]}")
        model = model.to(place)
    return _frozen(model)


def skeleton(name: str) -> "PreTrainedModel":
    """The architecture on the meta device: names and shapes, without weights."""
    with _reading(name, "configuration") as (where, local):
        from transformers import AutoConfig, AutoModelForCausalLM

        make: Any = AutoModelForCausalLM.from_config
        config = AutoConfig.from_pretrained(where, local_files_only=local)
        with torch.device("meta"):
            model = _with_attention(make, config, dtype=torch.float32)
    return _frozen(model)


def _frozen(model: Any) -> "PreTrainedModel":
    frozen: PreTrainedModel = model.eval().requires_grad_(False)
    return frozen


def _with_attention(make: Any, *given: Any, **options: Any) -> Any:
    """A model with torch's SDPA attention, or eager attention if the architecture lacks it."""
    try:
        return make(*given, attn_implementation="sdpa", **options)
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error):
            raise
    return make(*given, attn_implementation="eager", **options)


@contextmanager
def _reading(name: str, what: str) -> Iterator[tuple[str, bool]]:
    """Where to read a model from, and whether that is a folder; any failure inside is a one-line error."""
    where = find_model(name)
    if not Path(where).is_dir() and not _hub_answers():
        where = _fetched_before(where)
    try:
        with quiet():
            yield where, Path(where).is_dir()
    except InputError:
        raise
    except (MemoryError, torch.OutOfMemoryError):
        raise InputError(f"{name}: not enough memory for its {what}; use a smaller model or dtype") from None
    except ModuleNotFoundError as error:
        raise missing("a model", str(error.name), "llm") from None
    except Exception as error:  # libraries raise many kinds
        why = f"{first_line(error)}{meant(name)}"
        raise InputError(f"model {name!r}: its {what} cannot be read: {why}") from None


def _fetched_before(name: str) -> str:
    """The folder of a model in the hub client's cache."""
    from huggingface_hub import snapshot_download

    try:
        return str(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):
        raise InputError(
            f"model {name!r} is not a folder, not in the hub's cache, and {_endpoint()} cannot be reached; "
            f"connect, or use {_names()}{meant(name)}"
        ) from None


def _names() -> str:
    """Models available without the hub."""
    names = dict.fromkeys([*KNOWN, *(model.name for model in kept_models())])
    return " or ".join(names)


def _check_files(where: str, patterns: tuple[str, ...], what: str) -> None:
    folder = Path(where)
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in patterns):
        raise InputError(f"{where} has no {what} ({', '.join(patterns)}); give a folder that does")


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


@cache
def _hub_answers() -> bool:
    """Whether the hub can be reached, checked once."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    return reachable(_endpoint(), HUB_TIMEOUT)
