"""Fine-tune a causal language model to say whether a review is good: yours, or a tiny random one."""

import argparse
import itertools
from typing import Any

import torch
import transformers
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import Trainer, TrainingArguments

THINGS = ("soup", "film", "room", "book", "song", "trip", "game", "talk")
PLACES = ("here", "in town", "at sea", "on the hill")
WORDS = (("awful", "dull", "bad", "poor"), ("lovely", "fine", "good", "superb"))
ANSWERS = (" terrible", " great")


def reviews() -> list[tuple[str, str]]:
    """Prompts and answers, good and bad in turn."""
    pairs = itertools.product(THINGS, PLACES, zip(*WORDS, strict=True), (0, 1))
    return [(f"the {thing} {place} is {words[k]} . It was", ANSWERS[k]) for thing, place, words, k in pairs]


def tiny() -> tuple[Any, Any]:
    """A tokenizer that knows the words of the reviews, and a model with random weights."""
    torch.set_num_threads(1)  # more would be in each other's way
    backend = Tokenizer(models.WordLevel(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>"], show_progress=False)
    backend.train_from_iterator([prompt + answer for prompt, answer in reviews()], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>"
    )
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"pad_token_id": tokenizer.pad_token_id, "bos_token_id": None, "eos_token_id": None}
    return tokenizer, transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=len(tokenizer), **sizes, **ids)
    )


def load(name: str) -> tuple[Any, Any]:
    """A model of yours, by name or folder, with a LoRA adapter."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = transformers.AutoModelForCausalLM.from_pretrained(name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return tokenizer, get_peft_model(model, LoraConfig(task_type="CAUSAL_LM"))


def encode(tokenizer: Any) -> Dataset:
    """Reviews in tokens; the loss looks at the answer alone."""
    rows = []
    for prompt, answer in reviews():
        start, ids = len(tokenizer(prompt)["input_ids"]), tokenizer(prompt + answer)["input_ids"]
        rows.append({"input_ids": ids, "labels": [-100] * start + ids[start:]})
    return Dataset.from_list(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="name or folder of a causal language model; a tiny one unless given")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--out", default="trainer_output")
    given = parser.parse_args()
    transformers.set_seed(0)
    tokenizer, model = load(given.model) if given.model else tiny()
    parts = encode(tokenizer).train_test_split(64, seed=0)
    args = TrainingArguments(
        output_dir=given.out,
        max_steps=given.rounds,
        learning_rate=1e-2,
        per_device_train_batch_size=16,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=parts["train"],
        eval_dataset=parts["test"],
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer),
    )
    trainer.train()
    trainer.evaluate()


if __name__ == "__main__":
    main()
