"""Prompts and label words as tokens."""

import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError, check_whole
from zocosmo.llm.rows import LabelledText, shown

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer


class Encoded(NamedTuple):
    """Rows in tokens: prompts, labels, and the token of each label word."""

    tokens: list[NDArray[np.int32]]  # ragged, without padding
    labels: NDArray[np.int64]
    words: NDArray[np.int64]  # (labels,)


class Template:
    """Text with {fields}; the field `cut` is shortened if a prompt is too long.

    >>> Template("{sentence} It was").fill({"sentence": "A fine film."})
    'A fine film. It was'
    """

    def __init__(self, text: str, cut: str = "") -> None:
        self.text = text
        self.parts = parse_template(text)
        self.fields = tuple(dict.fromkeys(field for _, field in self.parts if field is not None))
        names = ", ".join(self.fields)
        if cut == "" and len(self.fields) > 1:
            raise InputError(f"the template has several fields; set cut to the one to shorten, of {names}")
        if cut not in ("", *self.fields):
            raise InputError(f"cut {cut!r} is not a field of the template; choose from {names}")
        self.cut = cut or self.fields[0]

    def fill(self, fields: Mapping[str, str]) -> str:
        return "".join(literal + (fields[field] if field else "") for literal, field in self.parts)

    @property
    def ends_in_words(self) -> bool:
        """Whether all prompts end in the same words, so that label words have the same tokens after each."""
        literal, field = self.parts[-1]
        return field is None and any(character.isalnum() for character in literal)


def parse_template(text: str) -> list[tuple[str, str | None]]:
    """Pairs of literal text and the field after it; {{ and }} are literal braces."""
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise InputError(f"template {shown(text)}: {error}; write {{{{ and }}}} for literal braces") from None
    for _, field, spec, conversion in parts:
        if field is not None and (field == "" or spec or conversion or any(c in field for c in ".[]")):
            raise InputError(f"template {shown(text)}: use plain field names, such as {{sentence}}")
    if all(field is None for _, field, _, _ in parts):
        raise InputError(f"template {shown(text)} has no {{field}}; add one, or all prompts are the same")
    return [(literal, field) for literal, field, _, _ in parts]


def encode_rows(
    template: Template,
    words: Sequence[str],
    rows: Sequence[LabelledText],
    tokenizer: "Tokenizer",
    max_tokens: int,
) -> Encoded:
    """Prompts of at most `max_tokens` tokens, and the token of each label word after them."""
    check_whole("max_tokens", max_tokens, 1)
    if not rows:
        raise InputError("there are no rows to encode; check the task's data files")
    prompts = [template.fill(row.fields) for row in rows]
    tokens = to_tokens(tokenizer, prompts)
    for k, row in enumerate(rows):
        if len(tokens[k]) > max_tokens:
            prompts[k], tokens[k] = shorten(template, row, tokenizer, tokens[k], max_tokens)
        if not tokens[k]:
            raise InputError(f"{row.where}: the prompt has no tokens; add text to the template")
    there = 1 if template.ends_in_words else len(rows)
    found = [
        word_tokens(words, prompt, list(ids), tokenizer)
        for prompt, ids in zip(prompts[:there], tokens, strict=False)
    ]
    for row, ids in zip(rows, found, strict=False):
        if ids != found[0]:
            wrong = f"{row.where}: label words have other tokens than in the first row"
            raise InputError(f"{wrong}; end the template in text")
    arrays = [np.asarray(ids, np.int32) for ids in tokens]
    return Encoded(arrays, np.array([row.label for row in rows], np.int64), np.array(found[0], np.int64))


def to_tokens(tokenizer: "Tokenizer", texts: list[str]) -> list[list[int]]:
    """The tokens of each text, including special tokens."""
    ids: list[list[int]] = tokenizer(texts, verbose=False)["input_ids"]
    return ids


def word_tokens(words: Sequence[str], prompt: str, ids: list[int], tokenizer: "Tokenizer") -> list[int]:
    """The single token each word adds to the prompt; tokens must differ."""
    found: dict[int, str] = {}
    for word, longer in zip(words, to_tokens(tokenizer, [prompt + word for word in words]), strict=True):
        if ids[-1] in tokenizer.all_special_ids and longer[-1:] == ids[-1:]:
            last = tokenizer.decode(ids[-1:])
            raise InputError(f"the tokenizer ends every text in {last!r}; set its add_eos_token to false")
        if longer[: len(ids)] != ids or len(longer) == len(ids):
            raise InputError(
                f"the word {word!r} merges with the end of the prompt, {prompt[-20:]!r}; "
                "end the template without a space, and begin the word with one"
            )
        added = longer[len(ids) :]
        if len(added) > 1:
            pieces = ", ".join(repr(tokenizer.decode([token])) for token in added)
            hint = "" if word[:1].isspace() else f"begin it with a space, {' ' + word!r}, or "
            raise InputError(
                f"the word {word!r} is {len(added)} tokens ({pieces}) in this model, but must be one; "
                f"{hint}choose a shorter word for this label"
            )
        if added[0] in found:
            raise InputError(f"the words {found[added[0]]!r} and {word!r} are the same token; change one")
        found[added[0]] = word
    return list(found)


def shorten(
    template: Template, row: LabelledText, tokenizer: "Tokenizer", ids: list[int], most: int
) -> tuple[str, list[int]]:
    """The prompt with tokens dropped from the end of its `cut` field until it fits."""
    text = row.fields[template.cut]
    begins = token_starts(tokenizer, text)
    times = sum(field == template.cut for _, field in template.parts)
    keep, prompt = len(begins), template.fill(row.fields)
    while len(ids) > most:
        if keep == 0:
            raise InputError(
                f"{row.where}: even without {template.cut!r} the prompt has {len(ids)} tokens, more than "
                f"max_tokens = {most}; raise it, or remove the row"
            )
        keep = max(0, keep - max(1, (len(ids) - most) // times))  # never more than needed
        prompt = template.fill({**row.fields, template.cut: text[: begins[keep]].rstrip()})
        ids = to_tokens(tokenizer, [prompt])[0]
    return prompt, ids


def token_starts(tokenizer: "Tokenizer", text: str) -> list[int]:
    """The text offset of each token; tokens within one character share an offset."""
    if not tokenizer.is_fast:
        raise InputError(f"{type(tokenizer).__name__} cannot cut prompts: no token offsets; raise max_tokens")
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return [begin for begin, _ in found["offset_mapping"]]
