"""Language models as the problem of a study. Needs the extra llm, imported on first use."""

from typing import TYPE_CHECKING

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError

if TYPE_CHECKING:
    from zocosmo.llm.problem import LanguageModel


def llm(
    n: int,
    seed: Seed,
    *,
    model: str = "smollm2",
    task: str = "toy",
    data: str = "",
    rank: int = 8,
    alpha: float = 16.0,
    targets: str = "q_proj,v_proj",
    coordinates: str = "lora",
    batch: int = 4,
    max_tokens: int = 256,
    train_tokens: int = 0,
    loss: str = "label",
    split: str = "contiguous",
    skew: float = 1.0,
    dtype: str = "float32",
    device: str = "auto",
    queries: str = "fused",
    threads: int = 0,
    train_rows: int = 0,
    validation_rows: int = 0,
    eval_batch: int = 64,
    start: int | str = 0,
    clip: float = 0.0,
    noise: float = 0.0,
    together: int = 1,
) -> "LanguageModel":
    """LoRA adapters of a frozen language model, or its weights, tuned on a task split over nodes."""
    given = {name: value for name, value in locals().items() if name not in ("n", "seed", "coordinates")}
    try:
        from zocosmo.llm.problem import LanguageModel
        from zocosmo.llm.subject import ModelSetting, open_subject
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers", "peft", "safetensors"):
            raise InputError(f'language models need {error.name}; run: pip install "zocosmo[llm]"') from None
        raise
    if coordinates != "lora":
        from zocosmo.llm.full import FullModel, open_whole

        return FullModel.build(open_whole(ModelSetting(**given), coordinates), n, seed)
    return LanguageModel.build(open_subject(ModelSetting(**given)), n, seed)
