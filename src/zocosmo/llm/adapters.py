"""LoRA adapters as flat vectors: layout, initial values, and PEFT file names."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError
from zocosmo.files import replace_file
from zocosmo.llm.quiet import first_line
from zocosmo.problems.draws import private, uniforms

Adapter = NDArray[np.float32]

NOWHERE: Any = SimpleNamespace(sites=(), d=0)  # the layout of a model without adapters


class Site(NamedTuple):
    """One adapted module: ΔW = scaling · B A with A (rank × wide) and B (tall × rank)."""

    name: str  # of the module in the model
    wide: int  # inputs
    tall: int  # outputs
    a: int  # offset of A in the flat vector; B follows

    def shapes(self, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of A and B."""
        return (rank, self.wide), (self.tall, rank)

    def slices(self, rank: int) -> tuple[slice, slice]:
        """Slices of A and B in the flat vector."""
        middle = self.a + rank * self.wide
        return slice(self.a, middle), slice(middle, middle + rank * self.tall)


class Layout:
    """LoRA of one rank on some modules of a model as one flat d-vector: A, then B, site by site.

    PEFT resolves the targets and names the matrices; a `skeleton` without weights is enough for that.
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
            said = first_line(error)[:120]
            raise InputError(f"targets {targets!r} match no module ({said}); choose from {known}") from None
        self.sites = tuple(self._sites(adapted))
        for word in named if isinstance(named, list) else ():  # PEFT accepts the list if any target matches
            if not any(f".{site.name}".endswith(f".{word}") for site in self.sites):
                raise InputError(f"target {word!r} of {targets!r} matches no module; choose from {known}")
        self.d = self.sites[-1].slices(rank)[1].stop

    def _sites(self, adapted: Any) -> Iterator[Site]:
        from peft.tuners.lora import Linear, LoraLayer

        at = 0
        for name, module in adapted.get_base_model().named_modules():
            if not isinstance(module, LoraLayer):
                continue
            if not isinstance(module, Linear):
                raise InputError(f"target {name} is a {type(module).__name__}; choose linear modules only")
            (a,), (b,) = module.lora_A.parameters(), module.lora_B.parameters()
            site = Site(name, a.shape[1], b.shape[0], at)
            yield site
            at = site.slices(self.rank)[1].stop

    def start(self, seed: Seed) -> Adapter:
        """PEFT's initial values, drawn from a tape: A uniform in ±1/√wide, B zero, so ΔW = 0."""
        x = np.zeros(self.d, np.float32)
        for k, site in enumerate(self.sites):
            size = self.rank * site.wide
            drawn = 2.0 * uniforms(private(seed), "adapter", k, size=size) - 1.0
            x[site.slices(self.rank)[0]] = drawn / math.sqrt(site.wide)
        return x

    def matrices(self, x: Adapter) -> dict[str, Adapter]:
        """A and B of every site, by their names in a PEFT file."""
        out = {}
        for site in self.sites:
            for letter, part, shape in zip("AB", site.slices(self.rank), site.shapes(self.rank), strict=True):
                out[f"base_model.model.{site.name}.lora_{letter}.weight"] = x[part].reshape(shape)
        return out

    def flat(self, matrices: dict[str, Adapter]) -> Adapter:
        """The inverse of `matrices`."""
        ours = self.matrices(np.zeros(self.d, np.float32))
        if missing := [name for name in ours if name not in matrices]:
            others = f"and {len(missing) - 1} more"
            raise InputError(f"the adapter lacks {missing[0]} {others}; use one for the same targets")
        for name, matrix in ours.items():
            if (shape := np.shape(matrices[name])) != matrix.shape:
                wrong = f"{name} of the adapter is {shape}, not {matrix.shape}"
                raise InputError(f"{wrong}; use one for this model and rank")
        return np.concatenate([np.asarray(matrices[name], np.float32).reshape(-1) for name in ours])

    def save(self, folder: Path, x: Adapter, *, model: str) -> None:
        """Write a folder that `PeftModel.from_pretrained` can load."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        about = self.config.to_dict()  # type: ignore[no-untyped-call]
        about |= {"base_model_name_or_path": model, "inference_mode": True}
        whole = {name: np.ascontiguousarray(matrix) for name, matrix in self.matrices(x).items()}
        data = save(whole, metadata={"format": "pt"})
        text = json.dumps(about, indent=1, sort_keys=True, default=sorted)  # sets
        replace_file(folder / "adapter_model.safetensors", lambda path: path.write_bytes(data))
        replace_file(folder / "adapter_config.json", lambda path: path.write_text(text, encoding="utf-8"))

    def load(self, folder: Path) -> Adapter:
        """Read what `save`, or PEFT, wrote for the same layout."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file  # NumPy has no bfloat16

        path = folder / "adapter_model.safetensors"
        try:
            return self.flat({name: matrix.float().numpy() for name, matrix in load_file(path).items()})
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path} is not a readable adapter: {error}") from None
