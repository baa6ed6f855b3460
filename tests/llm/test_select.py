"""The trainable set: full, LoRA, or by name."""

import pytest

pytest.importorskip("transformers")

import torch
from tiny import tiny_model

from zocosmo.errors import InputError
from zocosmo.llm.select import select, size
from zocosmo.torch.flat import Flat


def lora_model(**given):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **given)
    return peft.get_peft_model(tiny_model("llama"), config)


def qwen2_7b():
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        vocab_size=152064,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def test_the_full_set_of_qwen2_7b_has_the_papers_size():
    model = qwen2_7b()
    assert size(select(model, "full")) == 6_525_621_760
    assert size(select(model, "*")) == 6_525_621_760 + 2 * 152064 * 3584


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_full_leaves_out_embedding_and_head_tied_or_not_and_keeps_norms(family):
    model = tiny_model(family)
    left_out = {"model.embed_tokens.weight", "lm_head.weight"}
    names = [name for name, _ in model.named_parameters() if name not in left_out]
    assert list(select(model)) == names
    assert {"model.norm.weight", "model.layers.1.input_layernorm.weight"} <= set(names)


def test_lora_is_the_adapter_in_the_models_order():
    model = lora_model()
    found = select(model, "lora")
    assert list(found) == [name for name, p in model.named_parameters() if p.requires_grad]
    assert size(found) == 2 * 4 * ((32 + 32) + (32 + 16))  # two layers, rank 4; v has half the heads


def test_the_adapter_is_found_when_nothing_asks_for_gradients():
    model = lora_model()
    names = list(select(model, "lora"))
    assert list(select(model.requires_grad_(False), "lora")) == names


def test_patterns_pick_by_name_whatever_their_order():
    model = tiny_model()
    found = select(model, ["*.v_proj.weight", "model.layers.0.self_attn.q_proj.weight"])
    layers = [f"model.layers.{k}.self_attn" for k in (0, 1)]
    assert list(found) == [
        f"{layers[0]}.q_proj.weight",
        f"{layers[0]}.v_proj.weight",
        f"{layers[1]}.v_proj.weight",
    ]
    assert all(found[name] is model.get_parameter(name) for name in found)


def test_exclude_takes_away_from_any_choice():
    model = tiny_model()
    left = select(model, "full", exclude=["*norm*"])
    assert set(select(model)) - set(left) == {name for name in select(model) if "norm" in name}


def test_a_tied_weight_answers_to_both_names_and_counts_once():
    model = tiny_model("llama")
    assert list(select(model, "lm_head.weight")) == ["lm_head.weight"]
    both = select(model, ["lm_head.weight", "*embed_tokens*"])
    assert list(both) == ["model.embed_tokens.weight"]


def test_a_pattern_that_fits_nothing_shows_the_closest_names():
    with pytest.raises(InputError, match=r"q_prj.*closest are model\.layers\.0\.self_attn\.q_proj\.weight"):
        select(tiny_model(), "model.layers.0.self_attn.q_prj.weight")
    with pytest.raises(InputError, match="'nothing' matches no parameter"):
        select(tiny_model(), "full", exclude=["nothing"])


def test_choices_that_leave_nothing_are_refused():
    with pytest.raises(InputError, match="leaves no parameter"):
        select(tiny_model(), "full", exclude=["*"])
    with pytest.raises(InputError, match="no LoRA parameters"):
        select(tiny_model(), "lora")
    with pytest.raises(InputError, match="Linear has no get_input_embeddings"):
        select(torch.nn.Linear(2, 2), "full")


def test_a_model_in_one_buffer_is_saved_and_loaded_as_before(tmp_path):
    transformers, model = pytest.importorskip("transformers"), tiny_model().bfloat16()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    Flat(list(select(model).values()))
    model.save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype="bfloat16").state_dict()
    assert before.keys() == loaded.keys()
    assert all(torch.equal(before[name], loaded[name]) for name in before)


def test_an_adapter_in_one_buffer_is_saved_and_loaded_as_before(tmp_path):
    model, peft = lora_model(init_lora_weights=False), pytest.importorskip("peft")
    before = [p.clone() for p in select(model, "lora").values()]
    Flat(list(select(model, "lora").values()))
    model.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(tiny_model("llama"), tmp_path)
    assert all(map(torch.equal, before, select(loaded, "lora").values()))


def test_one_of_several_adapters_must_be_named():
    model = lora_model()
    model.add_adapter("second", model.peft_config["default"])
    with pytest.raises(InputError, match="adapters default, second"):
        select(model, "lora")
    assert all(".second." in name for name in select(model, "*.lora_*.second*"))
