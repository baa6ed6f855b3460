"""Convert a GGUF file to a folder with float32 weights in safetensors, and the tokenizer.

A GGUF stores each weight as a scale times a small integer. Float32 holds the product as GGUF arithmetic gives
it; bfloat16 would round again and change every logit.
"""

import contextlib
import io
import os
import shutil
from pathlib import Path
from typing import Any

from zocosmo.errors import InputError
from zocosmo.extras import missing
from zocosmo.llm.memory import check_free
from zocosmo.llm.quiet import first_line, quiet

# Vocabularies trained on text with single digits; transformers splits words only.
SINGLE_DIGITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
SAME = 0.1  # relative distance below which two matrices are one matrix rounded twice
COPIES = 2  # of the float32 weights in memory: as read, and in the model


def convert(gguf: Path, to: Path) -> tuple[str, ...]:
    """Write the folder `to`, completely or not at all; returns notes on what was changed."""
    header = _header(gguf)
    check_free(
        COPIES * 4 * header["elements"],
        device="cpu",
        what=f"converting {gguf.name}",
        remedy="convert on a larger machine and copy the folder",
    )
    with quiet():
        with contextlib.redirect_stderr(io.StringIO()):  # a progress bar with no off switch
            tokenizer, model = _read(gguf)
        notes = [_split_digits(tokenizer, header), _begin(tokenizer, header), _tie(model)]
        _forget_quantisation(model)
        _save(model, tokenizer, to)
    return tuple(note for note in notes if note)


def _header(gguf: Path) -> dict[str, Any]:
    """Tokenizer settings and number of weights, from the file's header."""
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise missing("reading a GGUF file", "gguf") from None
    try:
        reader = GGUFReader(gguf)
        told = {
            key: field.contents() if (field := reader.get_field(f"tokenizer.ggml.{key}")) else None
            for key in ("pre", "add_bos_token")
        }
        return {**told, "elements": sum(int(tensor.n_elements) for tensor in reader.tensors)}
    except (ValueError, IndexError, KeyError, OSError, OverflowError) as error:
        raise InputError(f"{gguf} is not a complete GGUF ({first_line(error)}); download it again") from None


def _read(gguf: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**where)
        return tokenizer, AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    except (ValueError, KeyError, OSError, NotImplementedError, ImportError) as error:
        raise InputError(f"transformers cannot read {gguf.name}: {first_line(error)}") from None


def _split_digits(tokenizer: Any, header: dict[str, Any]) -> str | None:
    """Split numbers into digits, as the vocabulary's own tokenizer does: 2024 is four tokens."""
    if header["pre"] not in SINGLE_DIGITS:
        return None
    from tokenizers import pre_tokenizers as steps

    tokenizer.backend_tokenizer.pre_tokenizer = steps.Sequence(
        [steps.Digits(individual_digits=True), steps.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    return f"tokenizer: splits numbers into digits, as {header['pre']} does"


def _begin(tokenizer: Any, header: dict[str, Any]) -> str | None:
    """Add the BOS token to every text if the file says so."""
    if not header["add_bos_token"] or tokenizer.bos_token is None or tokenizer.add_bos_token:
        return None
    tokenizer.add_bos_token = True
    return f"tokenizer: starts every text with {tokenizer.bos_token}, as the file says"


def _tie(model: Any) -> str | None:
    """Tie embedding and output if the file holds one matrix twice, rounded in two ways.

    A GGUF does not say whether they were tied; separately trained matrices are far apart. The output's copy
    is kept, as files store it with more bits.
    """
    inside, outside = model.get_input_embeddings(), model.get_output_embeddings()
    if outside is None or inside.weight is outside.weight or inside.weight.shape != outside.weight.shape:
        return None
    distance = ((inside.weight - outside.weight).norm() / outside.weight.norm()).item()
    if not distance < SAME:
        return None
    inside.weight = outside.weight
    model.config.tie_word_embeddings = True
    return f"embedding and output differ by {distance:.1%}: tied, using the output's matrix"


def _forget_quantisation(model: Any) -> None:
    """Remove the quantisation settings, or loading would look for the GGUF."""
    vars(model.config).pop("quantization_config", None)
    for name in ("hf_quantizer", "quantization_method", "is_quantized"):
        vars(model).pop(name, None)


def _save(model: Any, tokenizer: Any, to: Path) -> None:
    from safetensors import SafetensorError

    draft = to.with_name(f".{to.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # left by a killed process
    try:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        usual = (draft / "config.json").stat().st_mode
        for file in draft.iterdir():
            file.chmod(usual)  # safetensors files are created owner-only
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
        draft.rename(to)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{to} cannot be written: {first_line(error)}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
