"""Tasks: labelled text as a prompt and the word that should follow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zocosmo.errors import InputError, among, check_known, check_whole
from zocosmo.experiments.config import Config, at, check_fields, check_keys
from zocosmo.llm.prompts import Encoded, Template, encode_rows, parse_template
from zocosmo.llm.rows import Columns, Files, Hub, LabelledText, Source, find_source
from zocosmo.llm.toy import toy_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

SPLITS = ("train", "validation")


@dataclass(frozen=True)
class Task:
    """A template with {fields}, a word for each label, and the source of the rows.

    Truncation shortens only the field `cut`.
    """

    name: str
    template: str
    words: tuple[str, ...]
    source: Source = field(repr=False, compare=False)
    cut: str = ""  # default: the template's only field
    label: str = "label"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cut", self.form.cut)
        check_words(self.words)

    @cached_property
    def form(self) -> Template:
        return Template(self.template, self.cut)

    def rows(self, split: str) -> list[LabelledText]:
        """The rows of a split in order, read on every call."""
        check_known("split", split, SPLITS)
        return self.source(split, Columns(self.form.fields, self.label, len(self.words)))

    def prompt(self, fields: Mapping[str, str]) -> str:
        return self.form.fill(fields)


def check_words(words: tuple[str, ...]) -> None:
    """Refuse fewer than two words, empty words and repeated words."""
    if len(words) < 2:
        raise InputError(f"a task needs at least two label words, got {list(words)!r}")
    if any(not word.strip() for word in words) or len(set(words)) < len(words):
        raise InputError(f"label words must be different and not empty, got {list(words)!r}")


def encode(
    task: Task, split: str, tokenizer: "Tokenizer", *, max_tokens: int, limit: int | None = None
) -> Encoded:
    """The rows of a split, or its first `limit`, in tokens, with prompts of at most `max_tokens`."""
    rows = task.rows(split)
    if limit is not None:
        rows = rows[: check_whole("a limit of rows", limit, 1)]
    return encode_rows(task.form, task.words, rows, tokenizer, max_tokens)


# Template, words, and the field to cut. Words follow the hub's labels: 0 is entailment in QNLI and RTE, 1 is
# yes elsewhere.
BUILT_IN = {
    "sst2": ("{sentence} It was", (" terrible", " great"), "sentence"),
    "qnli": (
        '{sentence}\nQuestion: Does the text above answer the question "{question}"?\nAnswer:',
        (" yes", " no"),
        "sentence",
    ),
    "boolq": ("{passage}\nQuestion: {question}?\nAnswer:", (" no", " yes"), "passage"),
    "mrpc": (
        "{sentence1}\n{sentence2}\nQuestion: Do both sentences above say the same?\nAnswer:",
        (" no", " yes"),
        "sentence1",
    ),
    "rte": (
        '{sentence1}\nQuestion: Does the text above say that "{sentence2}"?\nAnswer:',
        (" yes", " no"),
        "sentence1",
    ),
    "toy": ("{sentence} It was", (" terrible", " great"), "sentence"),
}
BOOLQ = Hub("google/boolq", rename={"answer": "label"})  # the other tasks are in GLUE


def load_task(name: str, data: str | None = None) -> Task:
    """A built-in task by name, or a user's task from a YAML file. Rows are read on use.

    `data` is a folder with <task>/{train,validation}.jsonl or the two files themselves; the default is the
    folder in ZOCOSMO_DATA, then the hub.

    >>> load_task("toy").words
    (' terrible', ' great')
    """
    if Path(name).suffix.lower() in (".yaml", ".yml"):
        if data is not None:
            raise InputError(f"{name} names its own data files; omit the data folder {data}")
        return read_task(Path(name))
    if name not in BUILT_IN:
        known = among(name, BUILT_IN, ", or give a .yaml file")
        raise InputError(f"task {name!r} is not known; choose from {known}")
    if name == "toy" and data is not None:
        raise InputError(f"the toy task is generated and reads no data from {data}; omit the data folder")
    template, words, cut = BUILT_IN[name]
    hub = BOOLQ if name == "boolq" else Hub("nyu-mll/glue", name)
    source = toy_rows if name == "toy" else find_source(name, data, hub)
    return Task(name, template, words, source, cut)


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
    """A user's task from YAML. Data paths are relative to the YAML file."""
    config = Config.load(path)
    given = check_fields(config, (), check_keys(config, (), config.data, FIELDS), FIELDS)
    at(config, ("template",), parse_template, given["template"])
    at(config, ("cut",), Template, given["template"], given["cut"])
    at(config, ("words",), check_words, tuple(given["words"]))
    files = {split: path.parent / given.pop(split) for split in SPLITS}
    for split, file in files.items():
        if not file.is_file():
            raise config.fail((split,), f"{split}: {file} does not exist; paths are relative to {path.name}")
    given["name"] = given["name"] or path.stem
    return Task(**given | {"words": tuple(given["words"])}, source=Files(files))
