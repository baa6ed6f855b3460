"""Tasks: prompts, words that are one token each, truncation, and files of a user's own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm.tiny import tiny_tokenizer
from zocosmo.errors import ConfigError, InputError
from zocosmo.llm.prompts import Template
from zocosmo.llm.rows import LabelledText
from zocosmo.llm.tasks import BUILT_IN, Task, encode, load_task

TOKENIZER = tiny_tokenizer()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(str.strip)


def task_of(rows, template="{sentence} It was", words=(" terrible", " great"), **options):
    def source(split, columns):
        return [columns.row(f"here:{k}", row) for k, row in enumerate(rows, 1)]

    return Task("mine", template, words, source, **options)


def review(text, label=1):
    return {"sentence": text, "label": label}


def encode_mine(task, max_tokens=256, **options):
    return encode(task, "validation", TOKENIZER, max_tokens=max_tokens, **options)


# Built in


def test_sst2_is_the_documented_prompt():
    task = load_task("sst2", data=None)
    assert task.prompt({"sentence": "a fine film ."}) == "a fine film . It was"
    assert task.words == (" terrible", " great")


@pytest.mark.parametrize("name", ["qnli", "boolq", "mrpc", "rte"])
def test_truncation_keeps_what_is_asked(name):
    """Of a question about a text, the text is cut."""
    task = load_task(name)
    assert task.cut in {"sentence", "passage", "sentence1"}
    assert "question" not in task.cut


@pytest.mark.parametrize(("name", "yes"), [("qnli", 0), ("rte", 0), ("boolq", 1), ("mrpc", 1)])
def test_yes_has_the_label_of_the_hub(name, yes):
    assert load_task(name).words[yes] == " yes"


@pytest.mark.parametrize("name", BUILT_IN)
def test_words_of_every_built_in_task_are_one_token(name):
    built = load_task(name)
    row = dict.fromkeys(built.form.fields, "a film") | {"label": 1}
    found = encode_mine(task_of([row], built.template, built.words, cut=built.cut))
    assert [TOKENIZER.decode([token]) for token in found.words] == list(built.words)


def test_an_unknown_task_names_those_there_are():
    with pytest.raises(
        InputError, match=r"task 'sst3' is not known; choose from sst2, .*toy, or give a \.yaml"
    ):
        load_task("sst3")


def test_the_toy_task_reads_no_folder(tmp_path):
    with pytest.raises(InputError, match="the toy task is generated"):
        load_task("toy", data=str(tmp_path))


# Tokens


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_encoded_prompts_decode_to_the_text(texts):
    found = encode_mine(task_of([review(text) for text in texts]), max_tokens=10_000)
    assert [TOKENIZER.decode(ids) for ids in found.tokens] == [f"{text} It was" for text in texts]


def test_encoded_rows_have_labels_and_words():
    found = encode_mine(task_of([review("a good film", 1), review("dull", 0)]))
    assert found.labels.tolist() == [1, 0]
    assert [TOKENIZER.decode([token]) for token in found.words] == [" terrible", " great"]
    assert found.tokens[0].dtype == "int32"


def test_a_limit_takes_the_first_rows():
    task = task_of([review(f"film {k}", k % 2) for k in range(9)])
    assert [ids.tolist() for ids in encode_mine(task, limit=4).tokens] == [
        ids.tolist() for ids in encode_mine(task).tokens[:4]
    ]


def test_a_source_without_rows_is_refused():
    with pytest.raises(InputError, match="there are no rows to encode"):
        encode_mine(task_of([]))


def test_a_prompt_without_tokens_is_refused():
    with pytest.raises(InputError, match="here:1: the prompt has no tokens"):
        encode_mine(task_of([review(" ")], "{sentence}"))


def test_tokens_that_begin_every_text_are_kept():
    """A tokenizer with a BOS puts it before every prompt, and it counts."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|end|> $A", special_tokens=[("<|end|>", 0)]
    )
    task = task_of([review("a good film")])
    with_bos = encode(task, "train", tokenizer, max_tokens=256)
    assert with_bos.tokens[0].tolist() == [0, *encode_mine(task).tokens[0].tolist()]
    assert with_bos.words.tolist() == encode_mine(task).words.tolist()


# Words


def test_a_word_of_several_tokens_is_named_with_its_pieces():
    task = task_of([review("a film")], words=(" terrible", " marvellous"))
    with pytest.raises(
        InputError, match=r"the word ' marvellous' is \d+ tokens \(.*'.*'\) in this model, .*shorter word"
    ):
        encode_mine(task)


def test_a_word_without_its_space_is_told_so():
    task = task_of([review("a film")], words=(" terrible", "great"))
    with pytest.raises(InputError, match=r"begin it with a space, ' great', or"):
        encode_mine(task)


def test_a_prompt_that_ends_in_a_space_is_refused():
    """The space and the word are one token, so the prompt's own last token would never be read."""
    task = task_of([review("a film")], "{sentence} It was ", ("terrible", "great"))
    with pytest.raises(InputError, match=r"merges with the end of the prompt, .* without a space"):
        encode_mine(task)


def test_words_are_checked_in_every_row_when_a_field_ends_the_prompt():
    """After "x!" the letter t is a token of its own; after "it was grea" it is not."""
    assert encode_mine(task_of([review("x!"), review("?")], "{sentence}", ("t", "b"))).words.size == 2
    with pytest.raises(InputError, match="the word 't' merges with the end of the prompt, 'it was grea'"):
        encode_mine(task_of([review("x!"), review("it was grea")], "{sentence}", ("t", "b")))


@pytest.mark.parametrize("words", [(" great",), (" great", " great"), (" great", " ")])
def test_words_must_be_two_different_ones(words):
    with pytest.raises(InputError, match="word"):
        task_of([], words=words)


def test_words_of_one_token_are_refused():
    from tokenizers.normalizers import Lowercase

    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.normalizer = Lowercase()
    with pytest.raises(InputError, match="' great' and ' GREAT' are the same token"):
        encode(task_of([review("a film")], words=(" great", " GREAT")), "train", tokenizer, max_tokens=99)


# Truncation


@given(TEXTS, TEXTS, st.integers(0, 60))
def test_only_the_end_of_the_cut_field_is_lost(text, question, spare):
    """The prompt fits, begins with a part of the text, and ends with all that follows it."""
    tail = f" | {question} It was"
    most = len(TOKENIZER(tail)["input_ids"]) + 1 + spare
    row = {"sentence": text, "question": question, "label": 0}
    ids = encode_mine(task_of([row], "{sentence} | {question} It was", cut="sentence"), most).tokens[0]
    prompt = TOKENIZER.decode(ids)
    assert len(ids) <= most
    assert prompt.endswith(tail)
    assert text.startswith(prompt.removesuffix(tail))


@given(
    st.lists(st.sampled_from(["good", "film", "soup", "漢字", "é"]), min_size=8, max_size=20),
    st.integers(4, 12),
)
def test_no_token_is_lost_that_fits(words, most):
    """A token more of the text, and the prompt would be too long: tokens end at words, nothing is wasted."""
    ids = encode_mine(task_of([review(" ".join(words))]), most).tokens[0]
    kept = TOKENIZER.decode(ids).removesuffix(" It was")
    begins = [begin for begin, _ in TOKENIZER(" ".join(words), return_offsets_mapping=True)["offset_mapping"]]
    following = [" ".join(words)[:begin].rstrip() for begin in begins if begin > len(kept) + 1]
    assert all(len(TOKENIZER(f"{longer} It was")["input_ids"]) > most for longer in following)


def test_prompts_that_fit_are_left_alone():
    task = task_of([review("a good film with a great cast"), review("dull " * 50)])
    short, long = encode_mine(task, 20).tokens
    assert TOKENIZER.decode(short) == "a good film with a great cast It was"
    assert len(long) == 20


def test_a_field_that_stands_twice_is_cut_in_both_places():
    task = task_of([review("good film " * 20)], "{sentence} / {sentence} It was")
    (ids,) = encode_mine(task, 20).tokens
    first, second = TOKENIZER.decode(ids).removesuffix(" It was").split(" / ")
    assert first == second
    assert 17 <= len(ids) <= 20  # one more token of both fields would not have fitted


def test_a_row_whose_rest_is_too_long_is_named():
    task = task_of([review("a film")], "{sentence} and this is said of every film. It was")
    with pytest.raises(
        InputError,
        match=r"here:1: even without 'sentence' the prompt has \d+ tokens, more than max_tokens = 5",
    ):
        encode_mine(task, 5)


def test_a_tokenizer_without_places_cannot_cut():
    class Slow:
        is_fast = False

        def __call__(self, texts, **options):
            return TOKENIZER(texts, **options)

    with pytest.raises(InputError, match="Slow cannot cut prompts: no token offsets"):
        encode(task_of([review("a good film " * 9)]), "train", Slow(), max_tokens=9)


# Templates


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("It was", "has no {field}"),
        ("{} It was", "plain field names"),
        ("{a.b} It was", "plain field names"),
        ("{a!r} It was", "plain field names"),
        ("{a:>9} It was", "plain field names"),
        ("{a It was", "braces"),
        ("{a} {b} It was", "set cut to the one to shorten, of a, b"),
    ],
)
def test_templates_that_cannot_be_filled_are_refused(template, said):
    with pytest.raises(InputError, match=said):
        Template(template)


def test_doubled_braces_are_braces():
    assert Template("{{{a}}}").fill({"a": "{b}"}) == "{{b}}"


def test_fields_are_filled_in_as_they_are():
    """Braces in a row are text, not fields of the template."""
    assert Template("{a} It was").fill({"a": "{a} {{b}} {0}"}) == "{a} {{b}} {0} It was"


# A task of one's own

MINE = """name: support
template: "{message} This customer is"
words: [" angry", " happy"]
cut: message
label: mood
train: rows/train.jsonl
validation: rows/validation.jsonl
"""


@pytest.fixture
def mine(tmp_path):
    """A function that writes the file, with one text replaced, and gives its path."""
    (tmp_path / "rows").mkdir()
    for split in ("train", "validation"):
        line = json.dumps({"message": f"from {split}", "mood": 1})
        (tmp_path / "rows" / f"{split}.jsonl").write_text(line + "\n")

    def write(old="", new=""):
        path = tmp_path / "task.yaml"
        path.write_text(MINE.replace(old, new) if old else MINE)
        return str(path)

    return write


def test_a_file_is_a_task(mine):
    task = load_task(mine())
    assert (task.name, task.words, task.cut, task.label) == (
        "support",
        (" angry", " happy"),
        "message",
        "mood",
    )
    assert [row.fields for row in task.rows("train")] == [{"message": "from train"}]
    assert isinstance(task.rows("validation")[0], LabelledText)


def test_name_cut_and_label_have_defaults(mine):
    assert load_task(mine("name: support\n")).name == "task"
    assert load_task(mine("cut: message\n")).cut == "message"
    assert load_task(mine("label: mood\n")).label == "label"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cut:", "cutt:", r"task.yaml:4: unknown key 'cutt' .*did you mean 'cut'\?"),
        ("cut: message", "cut: mesage", "task.yaml:4: cut 'mesage' is not a field"),
        ('" happy"', '" angry"', r"task.yaml:3: label words must be different"),
        ('[" angry", " happy"]', '" angry"', r"task.yaml:3: words: .*list"),
        ("{message} This", "This", r"task.yaml:2: template .* has no {field}"),
        ("{message}", "{message", r"task.yaml:2: template .*braces"),
        ("rows/train", "rows/trian", r"task.yaml:6: train: .*trian.jsonl does not exist"),
        ("validation: rows/validation.jsonl\n", "", r"task.yaml:1: the file lacks 'validation'"),
        (MINE, "- a list", r"task.yaml:1: the file must be a mapping"),
        (MINE, "a: [", r"task.yaml:\d: not YAML"),
    ],
)
def test_every_mistake_in_the_file_has_a_line(mine, old, new, said):
    with pytest.raises(ConfigError, match=said):
        load_task(mine(old, new))


def test_a_file_that_is_not_there_is_said_so():
    with pytest.raises(ConfigError, match=r"nowhere.yaml: there is no such file"):
        load_task("nowhere.yaml")


def test_a_file_with_rows_of_its_own_takes_no_folder(mine, tmp_path):
    with pytest.raises(InputError, match="names its own data files"):
        load_task(mine(), data=str(tmp_path))


def test_an_unknown_split_is_refused(mine):
    with pytest.raises(InputError, match="split 'test' is not known; choose from train, validation"):
        load_task(mine()).rows("test")
