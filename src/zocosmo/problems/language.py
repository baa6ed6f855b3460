"""Language models as the problem of a study. Needs the extra llm, imported on first use."""

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.extras import missing
from zocosmo.problems.data import ROWS
from zocosmo.problems.split import SPLITS

if TYPE_CHECKING:
    from zocosmo.llm.problem import LanguageModel

LORA = "lora"
CHOICES = {
    "loss": ("label", "vocabulary"),
    "queries": ("fused", "one_by_one"),
    "dtype": ("float32", "tf32", "bfloat16", "float16"),
    "split": ("contiguous", *SPLITS),
}
POSITIVE = ("rank", "batch", "max_tokens", "eval_batch", "together")
NOT_NEGATIVE = ("threads", "train_tokens", "train_rows", "validation_rows")


@dataclass(frozen=True, kw_only=True)
class ModelSetting:
    """The keys of a language model problem and their defaults."""

    model: str = "smollm2"
    task: str = "toy"
    data: str = ""
    rank: int = 8
    alpha: float = 16.0
    targets: str = "q_proj,v_proj"
    coordinates: str = LORA  # or "full", or patterns of parameter names
    batch: int = 4
    max_tokens: int = 256
    train_tokens: int = 0  # max_tokens of training prompts; 0: the same
    loss: str = "label"
    split: str = "contiguous"
    skew: float = 1.0
    dtype: str = "float32"
    device: str = "auto"
    queries: str = "fused"
    threads: int = 0
    train_rows: int = 0
    validation_rows: int = 0
    eval_batch: int = 64
    start: int | str = 0
    clip: float = 0.0
    noise: float = 0.0
    together: int = 1
    rows: Literal["shared", "split"] | None = None  # None: shared, and not counted

    def __post_init__(self) -> None:
        given = vars(self)
        for name, known in CHOICES.items():
            check_known(name, given[name], known)
        for least, names in enumerate((NOT_NEGATIVE, POSITIVE)):
            for name in names:
                check_whole(name, given[name], least)
        if self.rows is not None:
            check_known("rows", self.rows, ROWS)
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise InputError(f"device must be auto, cpu, cuda, or one like cuda:1; got {self.device!r}")
        if not 0 <= self.clip < 1:
            raise InputError(f"clip must be a quantile from 0 (off) to below 1, got {self.clip}")
        if not self.alpha > 0 or not self.noise >= 0:
            raise InputError(f"alpha must be above 0 and noise at least 0, got {self.alpha} and {self.noise}")


def llm(n: int, seed: Seed, **given: Any) -> "LanguageModel":
    """LoRA adapters of a frozen language model, or its own weights, on each node's part of a task."""
    setting = ModelSetting(**given)
    try:
        from zocosmo.llm.full import FullModel, open_whole
        from zocosmo.llm.problem import LanguageModel
        from zocosmo.llm.subject import open_subject
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers", "peft", "safetensors"):
            raise missing("a language model", error.name, "llm") from None
        raise
    if setting.coordinates != LORA:
        return FullModel.build(open_whole(setting), n, seed)
    return LanguageModel.build(open_subject(setting), n, seed)


def _signature() -> inspect.Signature:
    """n, seed, and the keys of a setting by name: configs are checked against this."""
    own = inspect.signature(llm)
    n, seed, _ = own.parameters.values()
    return own.replace(parameters=[n, seed, *inspect.signature(ModelSetting).parameters.values()])


vars(llm)["__signature__"] = _signature()
