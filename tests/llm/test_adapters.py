"""Adapters as flat vectors: their size, their order, their start, and that PEFT reads what we write."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from llm.tiny import tiny_model  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.llm.adapters import Layout  # noqa: E402

SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}
QWEN2_7B = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
SOME = [("llama", "q_proj,v_proj"), ("qwen2", "v_proj, down_proj"), ("qwen2", "all-linear")]


def layout_of(family="llama", *, rank=2, alpha=3.0, targets="q_proj,v_proj"):
    return Layout(tiny_model(family), rank=rank, alpha=alpha, targets=targets)


LAYOUT = layout_of("qwen2", targets="all-linear")


def some_adapter(layout, seed=0, size=0.3):
    """Both A and B with entries of this size, so that ΔW is something."""
    return (size * np.random.default_rng(seed).standard_normal(layout.d)).astype(np.float32)


# Where things lie


@pytest.mark.parametrize(
    ("family", "shape", "d"), [("Llama", SMOLLM2, 460_800), ("Qwen2", QWEN2_7B, 2_523_136)]
)
def test_the_papers_models_have_the_papers_d(family, shape, d):
    """By hand: 30 · 8 · (576 + 576 + 576 + 192), and 28 · 8 · (3584 + 3584 + 3584 + 512)."""
    config = getattr(transformers, f"{family}Config")(**shape)
    with torch.device("meta"):
        skeleton = getattr(transformers, f"{family}ForCausalLM")(config)
    assert Layout(skeleton, rank=8, alpha=16.0, targets="q_proj,v_proj").d == d


@pytest.mark.parametrize(("family", "targets"), SOME)
def test_names_shapes_and_order_are_those_of_pefts_own_file(family, targets):
    layout = layout_of(family, targets=targets)
    theirs = peft.get_peft_model_state_dict(peft.get_peft_model(tiny_model(family), layout.config))
    ours = layout.matrices(np.zeros(layout.d, np.float32))
    assert [(name, each.shape) for name, each in ours.items()] == [
        (name, tuple(each.shape)) for name, each in theirs.items()
    ]


def test_every_coordinate_lies_in_one_matrix_in_order():
    layout = layout_of(targets="all-linear")
    x = np.arange(layout.d, dtype=np.float32)
    assert np.concatenate([each.reshape(-1) for each in layout.matrices(x).values()]).tolist() == x.tolist()


@given(seed=st.integers(0, 2**32 - 1), turn=st.integers(0, 10))
def test_flat_puts_together_what_matrices_took_apart_in_any_order(seed, turn):
    x = np.random.default_rng(seed).standard_normal(LAYOUT.d).astype(np.float32)
    apart = list(LAYOUT.matrices(x).items())
    assert LAYOUT.flat(dict(apart[turn:] + apart[:turn])).tobytes() == x.tobytes()


def test_a_matrix_that_is_missing_is_named():
    matrices = LAYOUT.matrices(np.zeros(LAYOUT.d, np.float32))
    name = list(matrices)[3]
    del matrices[name]
    with pytest.raises(InputError, match=f"lacks {name} and 0 more"):
        LAYOUT.flat(matrices)


def test_an_adapter_of_another_rank_is_refused(tmp_path):
    layout_of(rank=3).save(tmp_path, np.zeros(layout_of(rank=3).d, np.float32), model="tiny")
    with pytest.raises(InputError, match=r"lora_A.weight of the adapter is \(3, 32\), not \(2, 32\)"):
        layout_of(rank=2).load(tmp_path)


# Where they start


@pytest.mark.parametrize(("family", "targets"), SOME)
def test_b_starts_at_zero_and_a_within_one_over_the_root_of_its_inputs(family, targets):
    """N = 16 wide uniforms reach 0.95 of their bound with probability 1 − 0.95^N > 1 − 1e-11."""
    layout = layout_of(family, rank=16, targets=targets)
    for name, matrix in layout.matrices(layout.start(0)).items():
        if "lora_B" in name:
            assert not matrix.any()
        else:
            bound = matrix.shape[1] ** -0.5
            assert 0.95 * bound < matrix.max() <= bound
            assert -0.95 * bound > matrix.min() >= -bound


def test_the_start_is_uniform_to_its_second_moment():
    """Of N = 4096 squares of uniforms on ±b the mean is b²/3 within five standard errors b² √(4/45 / N)."""
    layout = layout_of(rank=64, targets="q_proj")
    a = layout.start(3)[layout.start(3) != 0] * 32**0.5
    assert a.size == 4096
    assert abs((a**2).mean() - 1 / 3) < 5 * (4 / 45 / a.size) ** 0.5
    assert abs(a.mean()) < 5 * (1 / 3 / a.size) ** 0.5


def test_the_same_seed_gives_the_same_bits_and_another_gives_others():
    first, again, other = layout_of().start("s"), layout_of().start("s"), layout_of().start("t")
    assert first.dtype == np.float32
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_no_two_sites_start_alike():
    layout = layout_of(targets="q_proj,k_proj,v_proj")  # all of one width
    starts = [x.tobytes() for name, x in layout.matrices(layout.start(0)).items() if "lora_A" in name]
    assert len(set(starts)) == len(starts) == 6


# Files


@torch.no_grad()
def merged(family, layout, x):
    """A model with ΔW = scaling · B A added to its weights by hand."""
    model, matrices = tiny_model(family), list(layout.matrices(x).values())
    for site, a, b in zip(layout.sites, matrices[::2], matrices[1::2], strict=True):
        model.get_submodule(site.name).weight += layout.scaling * torch.from_numpy(b @ a)
    return model


@pytest.mark.parametrize(("family", "targets"), SOME)
def test_peft_loads_a_saved_adapter_with_its_scaling(tmp_path, family, targets):
    """Float32: logits of order 1 out of a few hundred roundings of 6e-8 each; 1e-5 is many times that."""
    layout = layout_of(family, targets=targets)
    x = some_adapter(layout)
    layout.save(tmp_path, x, model="tiny")
    theirs, tokens = (
        peft.PeftModel.from_pretrained(tiny_model(family), tmp_path),
        torch.arange(40).view(4, 10),
    )
    with torch.inference_mode():
        told, ours, plain = (
            model(tokens).logits for model in (theirs, merged(family, layout, x), tiny_model(family))
        )
    assert (told - ours).abs().max() < 1e-5
    assert (told - plain).abs().max() > 1e-2  # it does something


def test_what_was_saved_is_loaded_to_the_bit_and_saved_to_the_byte(tmp_path):
    x = some_adapter(LAYOUT)
    for name in ("a", "b"):
        LAYOUT.save(tmp_path / name, x, model="tiny")
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab"]
    assert LAYOUT.load(tmp_path / "a").tobytes() == x.tobytes()
    assert files[0] == files[1]
    assert json.loads(files[0]["adapter_config.json"])["base_model_name_or_path"] == "tiny"


def test_an_adapter_that_peft_saved_in_half_precision_is_loaded(tmp_path):
    layout = layout_of()
    theirs = peft.get_peft_model(tiny_model(), layout.config).to(torch.bfloat16)
    theirs.save_pretrained(tmp_path)
    kept = peft.get_peft_model_state_dict(theirs)
    assert (layout.load(tmp_path) == layout.flat({k: v.float().numpy() for k, v in kept.items()})).all()


@pytest.mark.parametrize("content", [None, b"", b"no tensors at all"])
def test_a_folder_without_an_adapter_is_one_line(tmp_path, content):
    if content is not None:
        (tmp_path / "adapter_model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"adapter_model.safetensors is not a readable adapter: ") as found:
        layout_of().load(tmp_path)
    assert "\n" not in str(found.value)


# Targets


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ("c_attn", "targets 'c_attn' match no module"),
        ("q_proj,v_porj", "target 'v_porj' of 'q_proj,v_porj' matches no module"),
        ("v", "targets 'v' match no module"),  # ends of names do not count
        ("mlp", "targets 'mlp' match no module"),  # there is one, but it is not linear
    ],
)
def test_an_unknown_target_is_refused_with_those_that_exist(targets, said):
    with pytest.raises(InputError, match=said) as found:
        layout_of(targets=targets)
    assert "down_proj, embed_tokens, gate_proj" in str(found.value)
    assert "\n" not in str(found.value)


def test_a_target_may_have_more_of_its_name():
    assert [site.name for site in layout_of(targets="0.self_attn.q_proj").sites] == [
        "model.layers.0.self_attn.q_proj"
    ]


def test_an_embedding_is_refused():
    with pytest.raises(InputError, match=r"target model.embed_tokens is a Embedding; choose linear"):
        layout_of("qwen2", targets="embed_tokens")
