"""Models by name: one that `zocosmo model` keeps, a folder, or a name on the hub."""

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import torch

from zocosmo.errors import InputError, check_known
from zocosmo.llm.cache import KNOWN, check_kept, kept_folder, kept_models
from zocosmo.llm.memory import BYTES, check_device
from zocosmo.llm.quiet import first_line, quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

HUB = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
HUB_TIMEOUT = 5.0  # seconds; the hub's own client tries for minutes
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")
WORDS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")


def find_model(name: str) -> str:
    """The folder of a model that is kept here, a folder as given, or a name of the hub. Reads no weights."""
    if folder := kept_folder(name):
        return str(folder)
    path = Path(name).expanduser()
    if name and path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"{name} holds no config.json; give the folder that save_pretrained wrote")
        return str(path)
    if path.is_file():
        raise InputError(
            f"{name} is a file, not a folder; convert a GGUF with: zocosmo model add NAME {name}"
        )
    if name in KNOWN:
        check_kept(name)
    if not HUB.fullmatch(name):
        raise InputError(
            f"model folder {name!r} does not exist; give a folder, {_names()}, or a name of the hub"
        )
    return name


def load_tokenizer(name: str) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model."""

    def read(where: str, local: bool) -> Any:
        from transformers import AutoTokenizer

        _check_files(where, WORDS, "tokenizer")
        return AutoTokenizer.from_pretrained(where, local_files_only=local)

    tokenizer: PreTrainedTokenizerBase = _load(name, "tokenizer", read)
    return tokenizer


def load_model(name: str, *, dtype: str, device: str) -> "PreTrainedModel":
    """The model with its weights, for forwards alone: no dropout, no gradients.

    Weights in tf32 are float32; the backbone sets the precision of products. `check_memory` says beforehand
    whether there is room.
    """
    check_known("dtype", dtype, BYTES)
    place = check_device(device)

    def read(where: str, local: bool) -> Any:
        from transformers import AutoModelForCausalLM

        _check_files(where, WEIGHTS, "weights")
        loaded: Any = _with_attention(
            AutoModelForCausalLM.from_pretrained,
            where,
            dtype=torch.float32 if dtype == "tf32" else getattr(torch, dtype),
            local_files_only=local,
            output_loading_info=True,
        )
        model, report = loaded
        if missing := sorted(report["missing_keys"]):  # transformers would go on with random ones
            raise ValueError(f"{len(missing)} tensors are missing, among them {missing[0]}")
        return model.to(place).eval().requires_grad_(False)

    model: PreTrainedModel = _load(name, "weights", read)
    return model


def skeleton(name: str) -> "PreTrainedModel":
    """The same architecture on the meta device: names and shapes, no weights read."""

    def read(where: str, local: bool) -> Any:
        from transformers import AutoConfig, AutoModelForCausalLM

        make: Any = AutoModelForCausalLM.from_config
        config = AutoConfig.from_pretrained(where, local_files_only=local)
        with torch.device("meta"):
            model = _with_attention(make, config, dtype=torch.float32)
        return model.eval().requires_grad_(False)

    model: PreTrainedModel = _load(name, "configuration", read)
    return model


def _with_attention(make: Any, *given: Any, **options: Any) -> Any:
    """A model with torch's own attention; where the architecture has none of it, with its plain one."""
    try:
        return make(*given, attn_implementation="sdpa", **options)
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error):
            raise
    return make(*given, attn_implementation="eager", **options)


def _load(name: str, what: str, read: Callable[[str, bool], Any]) -> Any:
    """Have `read` take something from a folder, or from the hub; whatever goes wrong is one line."""
    where = find_model(name)
    if not Path(where).is_dir() and not _hub_answers():
        where = _fetched_before(where)
    try:
        with quiet():
            return read(where, Path(where).is_dir())
    except InputError:
        raise
    except (MemoryError, torch.OutOfMemoryError):
        raise InputError(f"{name}: not enough memory for its {what}; take a smaller model or dtype") from None
    except ModuleNotFoundError as error:
        raise InputError(f'models need {error.name}; run: pip install "zocosmo[llm]"') from None
    except Exception as error:  # libraries raise all kinds
        raise InputError(f"model {name!r}: its {what} cannot be read: {first_line(error)}") from None


def _fetched_before(name: str) -> str:
    """The folder in which the hub's client keeps a model."""
    from huggingface_hub import snapshot_download

    try:
        return str(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):
        raise InputError(
            f"model {name!r}: there is no such folder, and neither {_endpoint()} nor its cache has it; "
            f"connect, or take {_names()}"
        ) from None


def _names() -> str:
    """Models that need no hub."""
    names = dict.fromkeys([*KNOWN, *(model.name for model in kept_models())])
    return " or ".join(names)


def _check_files(where: str, patterns: tuple[str, ...], what: str) -> None:
    folder = Path(where)
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in patterns):
        raise InputError(
            f"{where} holds no {what}: none of {', '.join(patterns)}; give a folder that has them"
        )


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


@cache
def _hub_answers() -> bool:
    """Whether the hub can be reached, asked once."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    try:
        urlopen(Request(_endpoint(), method="HEAD"), timeout=HUB_TIMEOUT).close()
    except HTTPError:
        return True  # it said something
    except (OSError, ValueError):
        return False
    return True
