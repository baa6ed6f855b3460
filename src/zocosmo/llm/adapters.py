"""LoRA adapters as flat vectors: where each matrix lies, how it starts, and how PEFT names it."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError
from zocosmo.files import replace_file
from zocosmo.problems.draws import private, uniforms

Adapter = NDArray[np.float32]


class Site(NamedTuple):
    """One adapted module: ΔW = scaling · B A with A (rank × wide) and B (tall × rank)."""

    name: str  # of the module in the model
    wide: int  # its inputs
    tall: int  # its outputs
    a: int  # where A begins in the flat vector; B follows

    def shapes(self, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of A and of B."""
        return (rank, self.wide), (self.tall, rank)


class Layout:
    """LoRA of one rank on some modules of a model as one flat d-vector: A, then B, of every site in turn.

    PEFT says which modules the targets name and what their matrices are called; nothing else of it is needed
    to compute with them, so a `skeleton` without weights will do.
    """

    def __init__(self, skeleton: Any, *, rank: int, alpha: float, targets: str) -> None:
        from peft import LoraConfig, TaskType, get_peft_model

        named = targets if targets == "all-linear" else [word.strip() for word in targets.split(",")]
        self.rank, self.scaling = rank, alpha / rank
        self.config = LoraConfig(
            r=rank,
            lora_alpha=alpha,  # type: ignore[arg-type]
            target_modules=named,
            task_type=TaskType.CAUSAL_LM,
        )
        known = ", ".join(sorted({name.rpartition(".")[2] for name, _ in skeleton.named_modules() if name}))
        try:
            adapted = get_peft_model(skeleton, self.config)
        except ValueError as error:
            said = str(error).splitlines()[0][:120]
            raise InputError(f"targets {targets!r} fit no module ({said}); it has {known}") from None
        self.sites = tuple(self._sites(adapted))
        for word in named if isinstance(named, list) else ():  # PEFT is content where one of them fits
            if not any(f".{site.name}".endswith(f".{word}") for site in self.sites):
                raise InputError(f"target {word!r} of {targets!r} fits no module; it has {known}")
        last = self.sites[-1]
        self.d = last.a + rank * (last.wide + last.tall)

    def _sites(self, adapted: Any) -> Iterator[Site]:
        from peft.tuners.lora import Linear, LoraLayer

        at = 0
        for name, module in adapted.get_base_model().named_modules():
            if not isinstance(module, LoraLayer):
                continue
            if not isinstance(module, Linear):
                raise InputError(
                    f"target {name} is a {type(module).__name__}; adapters fit linear modules only"
                )
            (a,), (b,) = module.lora_A.parameters(), module.lora_B.parameters()
            site = Site(name, a.shape[1], b.shape[0], at)
            yield site
            at += self.rank * (site.wide + site.tall)

    def start(self, seed: Seed) -> Adapter:
        """PEFT's own start, from a tape: A uniform within ±1/√wide, B zero, so that ΔW = 0."""
        x = np.zeros(self.d, np.float32)
        for k, site in enumerate(self.sites):
            size = self.rank * site.wide
            drawn = 2.0 * uniforms(private(seed), "adapter", k, size=size) - 1.0
            x[site.a : site.a + size] = drawn / math.sqrt(site.wide)
        return x

    def matrices(self, x: Adapter) -> dict[str, Adapter]:
        """A and B of every site, by the names that PEFT gives them in a file."""
        out = {}
        for site in self.sites:
            middle = site.a + self.rank * site.wide
            prefix = f"base_model.model.{site.name}"
            out[f"{prefix}.lora_A.weight"] = x[site.a : middle].reshape(self.rank, site.wide)
            out[f"{prefix}.lora_B.weight"] = x[middle : middle + self.rank * site.tall].reshape(-1, self.rank)
        return out

    def flat(self, matrices: dict[str, Adapter]) -> Adapter:
        """The vector that `matrices` took apart."""
        ours = self.matrices(np.zeros(self.d, np.float32))
        if missing := [name for name in ours if name not in matrices]:
            raise InputError(
                f"the adapter lacks {missing[0]} and {len(missing) - 1} more; it is of another shape"
            )
        for name, matrix in ours.items():
            if (shape := np.shape(matrices[name])) != matrix.shape:
                raise InputError(
                    f"{name} of the adapter is {shape}, not {matrix.shape}; it has another rank or model"
                )
        return np.concatenate([np.asarray(matrices[name], np.float32).reshape(-1) for name in ours])

    def save(self, folder: Path, x: Adapter, *, model: str) -> None:
        """A folder that `PeftModel.from_pretrained` loads."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        given = self.config.to_dict()  # type: ignore[no-untyped-call]
        about = {key: _plain(value) for key, value in given.items()}
        about |= {"base_model_name_or_path": model, "inference_mode": True}
        whole = {name: np.ascontiguousarray(matrix) for name, matrix in self.matrices(x).items()}
        data, text = save(whole, metadata={"format": "pt"}), json.dumps(about, indent=1, sort_keys=True)
        replace_file(folder / "adapter_model.safetensors", lambda path: path.write_bytes(data))
        replace_file(folder / "adapter_config.json", lambda path: path.write_text(text, encoding="utf-8"))

    def load(self, folder: Path) -> Adapter:
        """What `save` wrote, or another program with the same shape."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file  # NumPy has no bfloat16

        path = folder / "adapter_model.safetensors"
        try:
            return self.flat({name: matrix.float().numpy() for name, matrix in load_file(path).items()})
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path} holds no adapter: {error}") from None


def _plain(value: Any) -> Any:
    """For JSON: sets in order, enumerations by value."""
    return sorted(value) if isinstance(value, set) else getattr(value, "value", value)
