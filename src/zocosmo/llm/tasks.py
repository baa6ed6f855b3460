"""Tasks: labelled text as a prompt and the word that should follow it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.experiments.config import Config, at, check_fields, check_keys
from zocosmo.llm.prompts import Encoded, Template, encode_rows, parse_template
from zocosmo.llm.rows import Columns, Files, Hub, LabelledText, Source, find_source
from zocosmo.llm.toy import toy_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

SPLITS = ("train", "validation")


@dataclass(frozen=True)
class Task:
    """A template with {fields}, a word for each label, and where the rows are.

    `cut` names the field that truncation may shorten; all other text stays whole.
    """

    name: str
    template: str
    words: tuple[str, ...]
    source: Source = field(repr=False, compare=False)
    cut: str = ""  # the template's only field, where it has one only
    label: str = "label"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cut", self.form.cut)
        check_words(self.words)

    @cached_property
    def form(self) -> Template:
        return Template(self.template, self.cut)

    def rows(self, split: str) -> list[LabelledText]:
        """The rows of a split in their order, read anew at every call."""
        check_known("split", split, SPLITS)
        return self.source(split, Columns(self.form.fields, self.label, len(self.words)))

    def prompt(self, fields: Mapping[str, str]) -> str:
        return self.form.fill(fields)


def check_words(words: tuple[str, ...]) -> None:
    """Two words or more, none empty, none twice; whether each is one token depends on the model."""
    if len(words) < 2:
        raise InputError(f"a task has a word for each of its labels, two or more, got {list(words)!r}")
    if any(not word.strip() for word in words) or len(set(words)) < len(words):
        raise InputError(f"every label needs a word of its own, none of them empty, got {list(words)!r}")


def encode(
    task: Task, split: str, tokenizer: "Tokenizer", *, max_tokens: int, limit: int | None = None
) -> Encoded:
    """Rows of a split, or the first `limit`, in tokens: prompts of at most `max_tokens`, labels, words."""
    rows = task.rows(split)
    if limit is not None:
        rows = rows[: check_whole("a limit of rows", limit, 1)]
    return encode_rows(task.form, task.words, rows, tokenizer, max_tokens)


def glue(name: str, template: str, words: tuple[str, str], cut: str) -> Callable[[str | None], Task]:
    """A task of the GLUE collection, once it is known where its rows are."""
    hub = Hub("nyu-mll/glue", name)
    return lambda data: Task(name, template, words, find_source(name, data, hub), cut)


def boolq(data: str | None) -> Task:
    hub = Hub("google/boolq", rename={"answer": "label"})
    template = "{passage}\nQuestion: {question}?\nAnswer:"
    return Task("boolq", template, (" no", " yes"), find_source("boolq", data, hub), cut="passage")


def toy(data: str | None) -> Task:
    if data is not None:
        raise InputError(
            f"the toy task is generated and reads no rows from {data}; leave the data folder out"
        )
    return Task("toy", "{sentence} It was", (" terrible", " great"), toy_rows)


# Labels as on the hub, so the order of words is theirs: in QNLI and RTE 0 is entailment, elsewhere 1 is yes.
BUILT_IN: dict[str, Callable[[str | None], Task]] = {
    "sst2": glue("sst2", "{sentence} It was", (" terrible", " great"), "sentence"),
    "qnli": glue(
        "qnli",
        '{sentence}\nQuestion: Does the text above answer the question "{question}"?\nAnswer:',
        (" yes", " no"),
        "sentence",
    ),
    "boolq": boolq,
    "mrpc": glue(
        "mrpc",
        "{sentence1}\n{sentence2}\nQuestion: Do both sentences above say the same?\nAnswer:",
        (" no", " yes"),
        "sentence1",
    ),
    "rte": glue(
        "rte",
        '{sentence1}\nQuestion: Does the text above say that "{sentence2}"?\nAnswer:',
        (" yes", " no"),
        "sentence1",
    ),
    "toy": toy,
}


def load_task(name: str, data: str | None = None) -> Task:
    """A task by its name, or from a user's YAML file. Rows are read when they are asked for.

    `data` is a folder with <task>/{train,validation}.jsonl or with the two files themselves; without it,
    the folder in ZOCOSMO_DATA counts, and then the hub.

    >>> load_task("toy").words
    (' terrible', ' great')
    """
    if Path(name).suffix.lower() in (".yaml", ".yml"):
        if data is not None:
            raise InputError(f"{name} names its own rows; leave the data folder {data} out, or edit the file")
        return read_task(Path(name))
    if name not in BUILT_IN:
        known = ", ".join(BUILT_IN)
        raise InputError(f"task {name!r} is not known; choose from {known}, or give a .yaml file of your own")
    return BUILT_IN[name](data)


FIELDS: dict[str, tuple[Any, Any]] = {
    "name": (str, ""),
    "template": (str, ...),
    "words": (list[str], ...),
    "cut": (str, ""),
    "label": (str, "label"),
    "train": (str, ...),
    "validation": (str, ...),
}


def read_task(path: Path) -> Task:
    """A user's task. Paths to rows are relative to the file that names them."""
    config = Config.load(path)
    given = check_fields(config, (), check_keys(config, (), config.data, FIELDS), FIELDS)
    at(config, ("template",), parse_template, given["template"])
    at(config, ("cut",), Template, given["template"], given["cut"])
    at(config, ("words",), check_words, tuple(given["words"]))
    files = {split: path.parent / given.pop(split) for split in SPLITS}
    for split, file in files.items():
        if not file.is_file():
            raise config.fail(
                (split,), f"{split}: there is no file {file}; paths are relative to {path.name}"
            )
    given["name"] = given["name"] or path.stem
    return Task(**given | {"words": tuple(given["words"])}, source=Files(files))
