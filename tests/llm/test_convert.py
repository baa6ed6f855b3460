import json
import os
from unittest.mock import Mock

import pytest

from llm.ggufs import tiny_gguf
from llm.tiny import tiny_model, tiny_tokenizer, torch, transformers
from zocosmo.errors import InputError
from zocosmo.llm.convert import convert
from zocosmo.llm.models import load_model, load_tokenizer

PROMPTS = ("a gripping film", "the soup was cold   12", "It was")


def logits(model, text):
    with torch.no_grad():
        return model(torch.tensor([tiny_tokenizer()(text)["input_ids"]])).logits


@pytest.fixture
def twin():
    """A head that is the embedding with a little noise, as two roundings of one matrix are."""
    head = tiny_model("llama").lm_head.weight.detach().clone()
    return head + 0.03 * head.norm() / head.numel() ** 0.5


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_the_folder_computes_what_the_file_does(tmp_path, family):
    file = tiny_gguf(tmp_path / "tiny.gguf", family)
    convert(file, tmp_path / "folder")
    read = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=file.name, dtype=torch.float32
    )
    ours = load_model(str(tmp_path / "folder"), dtype="float32", device="cpu")
    for prompt in PROMPTS:
        assert torch.equal(logits(ours, prompt), logits(read.eval(), prompt))


def test_the_weights_are_those_of_the_model_up_to_the_four_bits(tmp_path):
    """Q4_1 has 16 levels between the ends of 32 weights: half a level off, and the ends' own float16."""
    convert(tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "folder")
    ours, true = (
        model.model.layers[1].mlp.down_proj.weight.reshape(-1, 32)
        for model in (load_model(str(tmp_path / "folder"), dtype="float32", device="cpu"), tiny_model())
    )
    span = true.amax(dim=1) - true.amin(dim=1)
    assert ((ours - true).abs().amax(dim=1) <= span / 30 + span * 2**-9).all()


def test_nothing_of_the_quantisation_stays_in_the_config(tmp_path):
    convert(tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["dtype"] == "float32"
    assert {file.name for file in tmp_path.iterdir()} == {"tiny.gguf", "folder"}


@pytest.mark.parametrize(
    ("pre", "pieces"), [("smollm", ["a", "Ġ" * 3, "1", "2"]), ("gpt-2", ["a", "ĠĠ", "Ġ12"])]
)
def test_digits_stand_alone_where_the_vocabulary_was_learnt_so(tmp_path, pre, pieces):
    notes = convert(tiny_gguf(tmp_path / "tiny.gguf", pre=pre), tmp_path / "folder")
    step = load_tokenizer(str(tmp_path / "folder")).backend_tokenizer.pre_tokenizer
    assert [piece for piece, _ in step.pre_tokenize_str("a   12")] == pieces
    assert [note for note in notes if "into digits" in note] == list(notes)
    assert bool(notes) == (pre == "smollm")


@pytest.mark.parametrize("bos", [False, True])
def test_texts_begin_as_the_file_says(tmp_path, bos):
    notes = convert(tiny_gguf(tmp_path / "tiny.gguf", pre="gpt-2", bos=bos), tmp_path / "folder")
    plain = tiny_tokenizer()
    first = [plain.eos_token_id] if bos else []
    assert load_tokenizer(str(tmp_path / "folder"))("It was")["input_ids"] == first + plain.encode("It was")
    assert len(notes) == bos


def test_a_matrix_that_is_stored_twice_is_tied_to_the_output(tmp_path, twin):
    notes = convert(tiny_gguf(tmp_path / "tiny.gguf", pre="gpt-2", output=twin), tmp_path / "folder")
    assert notes == ("embedding and output differ by 3.1%: tied, using the output's matrix",)
    model = load_model(str(tmp_path / "folder"), dtype="float32", device="cpu")
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert (
        (model.lm_head.weight - twin).norm()
        < 0.01 * twin.norm()
        < (twin - tiny_model().lm_head.weight).norm()
    )


def test_matrices_that_were_trained_apart_stay_apart(tmp_path):
    assert convert(tiny_gguf(tmp_path / "tiny.gguf", "qwen2", pre="qwen2"), tmp_path / "folder") == ()
    model = load_model(str(tmp_path / "folder"), dtype="float32", device="cpu")
    assert not torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)


def test_a_conversion_prints_nothing(tmp_path, capfd):
    convert(tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "folder")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + bytes(64), "half"])
def test_a_file_that_is_no_whole_gguf_is_one_line(tmp_path, content):
    file = tiny_gguf(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2] if content == "half" else content)
    with pytest.raises(InputError, match=r"tiny.gguf is not a complete GGUF .*; download it again") as told:
        convert(file, tmp_path / "folder")
    assert "\n" not in str(told.value)
    assert not (tmp_path / "folder").exists()


def test_an_architecture_that_transformers_does_not_know_is_one_line(tmp_path):
    file = tiny_gguf(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes().replace(b"llama", b"lambo"))
    with pytest.raises(InputError, match=r"transformers cannot read tiny.gguf: .*lambo") as told:
        convert(file, tmp_path / "folder")
    assert "\n" not in str(told.value)


def test_what_was_half_written_never_counts(tmp_path, monkeypatch):
    """A disk that is full in the middle, then what a killed process left, then a good end."""
    file = tiny_gguf(tmp_path / "tiny.gguf")
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(InputError, match=r"folder cannot be written: .*No space"):
            convert(file, tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny.gguf"]
    (tmp_path / ".folder.draft").mkdir()
    (tmp_path / ".folder.draft" / "model.safetensors").write_bytes(b"half")
    convert(file, tmp_path / "folder")
    assert load_model(str(tmp_path / "folder"), dtype="float32", device="cpu").config.model_type == "llama"


def test_too_little_memory_is_said_before_weights_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("zocosmo.llm.memory.free_memory", lambda device: 1000)
    with pytest.raises(InputError, match=r"converting tiny.gguf needs 0.25 MB, but cpu has 0.00 MB free"):
        convert(tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "folder")
