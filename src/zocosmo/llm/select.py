"""Select the parameters to train: the LoRA adapter, names by pattern, or all but the vocabulary."""

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from zocosmo.errors import InputError

FULL, LORA = "full", "lora"
NEAREST = 3  # names listed in an error
Q = 8192  # default number of coordinates per round

Named = dict[str, nn.Parameter]


def select(model: nn.Module, which: str | Sequence[str] = FULL, *, exclude: Sequence[str] = ()) -> Named:
    """The trainable parameters by name, in the model's order, each once.

    `which` is "lora" (the adapter of a PEFT model), "full" (all but the token embedding and the output head),
    or patterns such as "*.self_attn.*", where `*` matches dots too. `exclude` lists patterns as well.
    """
    named = dict(model.named_parameters(remove_duplicate=False))  # a tied weight has both names
    if which == FULL:
        chosen = _without_vocabulary(model, named)
    elif which == LORA:
        chosen = _adapter(named)
    else:
        chosen = _matching(named, [which] if isinstance(which, str) else which)
    chosen -= _matching(named, exclude)
    once = {id(named[name]): name for name in reversed(named) if name in chosen}
    found = {name: parameter for name, parameter in named.items() if once.get(id(parameter)) == name}
    if not found:
        raise InputError(f"{which!r} without {list(exclude)} leaves no parameter; exclude less")
    return found


def suggest_q(d: int) -> int:
    """The paper's 8192, or d/8 if that is less, so that messages stay sparse.

    >>> suggest_q(460_800), suggest_q(4096)
    (8192, 512)
    """
    return max(1, min(Q, d // 8))


def size(named: Named) -> int:
    """d, the number of selected coordinates."""
    return sum(parameter.numel() for parameter in named.values())


def _without_vocabulary(model: Any, named: Named) -> set[str]:
    """All names but those of the token embedding and the output head, which may be tied."""
    try:
        ends = (model.get_input_embeddings(), model.get_output_embeddings())
    except AttributeError:
        raise InputError(f"{type(model).__name__} has no get_input_embeddings; give patterns") from None
    vocabulary = {id(parameter) for module in ends if module is not None for parameter in module.parameters()}
    return {name for name, parameter in named.items() if id(parameter) not in vocabulary}


def _adapter(named: Named) -> set[str]:
    """The parameters PEFT names lora_…, of one adapter only, since a node has one state."""
    chosen, adapters = set(), set()
    for name in named:
        path = name.split(".")
        at = next((k for k, part in enumerate(path) if part.startswith("lora_")), None)
        if at is not None:
            chosen.add(name)
            adapters.add(path[at + 1] if at + 1 < len(path) else "")
    if not chosen:
        raise InputError("the model has no LoRA parameters; call peft.get_peft_model, or choose 'full'")
    if len(adapters) > 1:
        raise InputError(
            f"the model has adapters {', '.join(sorted(adapters))}; choose one with a pattern such as "
            f"'*.lora_*.{min(adapters)}*'"
        )
    return chosen


def _matching(named: Iterable[str], patterns: Sequence[str]) -> set[str]:
    """Names that match any of the patterns; each pattern must match some."""
    names, chosen = list(named), set[str]()
    for pattern in patterns:
        matched = {name for name in names if fnmatchcase(name, pattern)}
        if not matched:
            close = difflib.get_close_matches(pattern, names, NEAREST, cutoff=0)
            raise InputError(f"{pattern!r} matches no parameter; the closest are {', '.join(close)}")
        chosen |= matched
    return chosen
