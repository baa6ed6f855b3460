"""Tiny GGUF files, written as llama.cpp's converter writes them."""

import json

import pytest

from llm.tiny import tiny_model, tiny_tokenizer

gguf = pytest.importorskip("gguf")

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tiny_gguf(path, family="llama", *, pre="smollm", output=None, bos=False, seed=0):
    """Matrices in 4 bits (Q4_1), embeddings in 8. `output` is a head to store beside the embedding."""
    model = tiny_model(family, seed)
    writer = gguf.GGUFWriter(path, family)
    _describe(writer, model.config)
    _vocabulary(writer, pre, bos)
    tensors = dict(model.named_parameters())
    if output is not None:
        tensors["lm_head.weight"] = output
    for name, tensor in tensors.items():
        _tensor(writer, _their_name(name), tensor.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _describe(writer, config):
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)


def _vocabulary(writer, pre, bos):
    tokenizer = tiny_tokenizer()
    words = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(words["vocab"], key=words["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == "<|end|>" else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in words["merges"]])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        add(tokenizer.eos_token_id)
    writer.add_add_bos_token(bos)


def _their_name(name):
    stem, _, kind = name.rpartition(".")
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER[part]}.{kind}"


def _tensor(writer, name, values):
    if values.ndim == 1:
        writer.add_tensor(name, values)
        return
    wide = name.startswith(("token_embd", "output"))
    kind = gguf.GGMLQuantizationType.Q8_0 if wide else gguf.GGMLQuantizationType.Q4_1
    writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
