"""A tokenizer and models small enough to make in a test: no hub, no files, the same weights every time."""

import functools

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = (" terrible", " great", " bad", " good", " yes", " no")  # what the tests ask a model to say
TEXT = (
    "a gripping film with a great cast and a good script. It was great",
    "the plot is dull and the jokes are terrible. It was terrible",
    "not a bad meal, but the soup was cold and the service slow",
    "Question: does the sentence answer the question? Answer: yes or no",
    "the room was clean and quiet, and the staff was kind",
)
VOCABULARY = 512


@functools.cache
def _backend():
    """Byte-level BPE, as SmolLM2 and Qwen have it: every text can be encoded, spaces belong to words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([*TEXT, *(word * 50 for word in WORDS)], trainer)
    return backend.to_str()


def tiny_tokenizer():
    """A fast tokenizer of at most 512 tokens, without BOS; each of WORDS is one token."""
    from tokenizers import Tokenizer

    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_backend()), eos_token="<|end|>", pad_token="<|end|>"
    )


def tiny_model(family="llama", seed=0):
    """Two layers of width 32 with random weights; Llama ties its embeddings, Qwen2 does not."""
    kinds = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, {"tie_word_embeddings": True}),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, {"tie_word_embeddings": False}),
    }
    kind, model, options = kinds[family]
    tokenizer = tiny_tokenizer()
    config = kind(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **options,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model(config).eval()


def tiny_folder(path, family="llama", seed=0):
    """Both saved as `save_pretrained` does, in `path`, which is returned."""
    tiny_model(family, seed).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path
