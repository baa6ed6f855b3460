"""Accuracy and label loss of a model on a split, unmodified or with an adapter."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from zocosmo.errors import InputError, check_whole
from zocosmo.llm.adapters import NOWHERE, Adapter
from zocosmo.llm.backbone import Backbone, pick_device
from zocosmo.llm.batches import Examples
from zocosmo.llm.memory import check_memory
from zocosmo.llm.models import load_model, load_tokenizer, skeleton
from zocosmo.llm.prompts import to_tokens, word_tokens
from zocosmo.llm.screen import TaskCandidate
from zocosmo.llm.tasks import Task, encode, load_task

Done = Callable[[str, int, int], None]  # task, rows in all, rows done


class Scores(NamedTuple):
    """Scores over all examples of a split."""

    rows: int
    accuracy: float
    nll: float  # mean −log p of the right label, among the label words


def evaluate(
    backbone: Backbone,
    examples: Examples,
    adapter: Adapter | None = None,
    *,
    each: int = 64,
    done: Callable[[int], None] = lambda rows: None,
) -> Scores:
    """Score one adapter, or the unmodified model, on all examples in batches of `each`."""
    check_whole("rows in a batch", each, 1)
    x = np.zeros(backbone.layout.d, np.float32) if adapter is None else np.array(adapter, np.float32)
    row = torch.from_numpy(x[None]).to(backbone.device)
    nll = right = 0.0
    seen = 0
    for rows, batch in examples.by_length(each, backbone.device):
        losses, hits = backbone.judge(row, batch)
        nll, right, seen = nll + float(losses.sum()), right + float(hits.sum()), seen + len(rows)
        done(seen)
    return Scores(seen, right / seen, nll / seen)


def score_tasks(
    model: str,
    tasks: Sequence[str],
    data: str | None = None,
    *,
    dtype: str = "float32",
    device: str = "auto",
    max_tokens: int = 256,
    each: int = 64,
    done: Done = lambda task, rows, k: None,
) -> Iterator[tuple[TaskCandidate, Scores | None]]:
    """Score the unmodified model on whole validation splits, task by task.

    A task with a label word of several tokens is not scored; `screen` rejects it.
    """
    tokenizer, given = load_tokenizer(model), [load_task(name, data) for name in tasks]
    place = pick_device(device, dtype)
    check_memory(skeleton(model), dtype=dtype, device=place)
    loaded = None
    for task in given:
        rows, labels = len(task.rows("validation")), len(task.words)
        if not has_single_tokens(task, tokenizer):
            yield TaskCandidate(task.name, rows, 0.0, labels, single_token=False), None
            continue
        found = encode(task, "validation", tokenizer, max_tokens=max_tokens)
        loaded = loaded or load_model(model, dtype=dtype, device=place)
        backbone = Backbone(loaded, NOWHERE, np.asarray(found.words), tf32=dtype == "tf32")
        examples = Examples(found.tokens, found.labels)
        scores = evaluate(backbone, examples, each=each, done=partial(done, task.name, rows))
        yield TaskCandidate(task.name, rows, scores.accuracy, labels), scores


def has_single_tokens(task: Task, tokenizer: Any) -> bool:
    """Whether each label word is one token after the first prompt."""
    prompt = task.prompt(task.rows("validation")[0].fields)
    try:
        word_tokens(task.words, prompt, to_tokens(tokenizer, [prompt])[0], tokenizer)
    except InputError:
        return False
    return True
