"""The Hugging Face trainer: rounds of Cosmo and nothing else, alone and as one of two processes."""

import difflib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
torch = pytest.importorskip("torch")

from llm import trainer_driver  # noqa: E402
from llm.tiny import tiny_model  # noqa: E402
from llm.trainer_driver import BATCH, RATE, ROUNDS, SECOND, STEP, N, by_hand, config, hex_of  # noqa: E402
from zocosmo.errors import InputError, OracleError  # noqa: E402
from zocosmo.llm import CosmoTrainer  # noqa: E402
from zocosmo.llm.trainer import block_of  # noqa: E402
from zocosmo.torch import Cosmo  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"
LORA = {"r": 2, "target_modules": ["q_proj", "v_proj"], "lora_dropout": 0.5, "task_type": "CAUSAL_LM"}


@pytest.fixture
def rows():
    return trainer_driver.examples(0)


def make(folder, rows, kind=CosmoTrainer, /, model=None, callbacks=None, more=None, **given):
    args = config(folder, **given)
    return kind(model or tiny_model(), args, train_dataset=rows, callbacks=callbacks, **(more or {}))


def lora(folder, rows, /, **given):
    """A trainer of an adapter with dropout, on examples that are shuffled, for two epochs and more."""
    about = {"train_sampling_strategy": "random", "max_steps": 8, "save_strategy": "steps", "save_steps": 2}
    more = {"peft_config": peft.LoraConfig(**LORA)}
    return make(folder, rows[: 3 * BATCH], more=more, **about, **given)


# One process


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_rounds_are_those_of_a_loop_written_by_hand(tmp_path, rows, momentum, monkeypatch):
    monkeypatch.setitem(STEP, "momentum", momentum)
    trainer = make(tmp_path, rows)
    trainer.train()
    assert hex_of(trainer.model) == by_hand(tiny_model(), rows) != hex_of(tiny_model())


def test_rounds_of_the_second_generation_are_those_of_a_loop_written_by_hand(tmp_path, rows):
    """Four rows in three blocks, and each direction has its own."""
    trainer = make(tmp_path, rows, **SECOND)
    trainer.train()
    assert hex_of(trainer.model) == by_hand(tiny_model(), rows, **SECOND) != hex_of(tiny_model())


def test_an_adapter_in_a_subspace_resumes_to_the_same_bits_and_is_ordinary_peft(tmp_path, rows):
    second = {**SECOND, "subspace": 50, "q": 20}
    whole, resumed = (lora(tmp_path, rows, **second) for _ in range(2))
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert hex_of(resumed.model) == hex_of(whole.model)
    loaded = peft.PeftModel.from_pretrained(tiny_model(), tmp_path / "checkpoint-8")
    assert hex_of(loaded) == hex_of(whole.model)
    assert len(np.unique(whole.optimizer.lifted.z)) > 20


def test_a_block_has_the_rows_of_every_tensor_that_has_rows():
    inputs = {"input_ids": torch.arange(10).reshape(5, 2), "labels": torch.arange(5), "scale": torch.ones(())}
    parts = [block_of(inputs, k, 2) for k in range(2)]
    assert [part["labels"].tolist() for part in parts] == [[0, 1], [2, 3, 4]]
    assert [part["input_ids"].shape for part in parts] == [(2, 2), (3, 2)]
    assert parts[1]["scale"] is inputs["scale"]
    with pytest.raises(InputError, match="6 directions cannot split a batch of 5 rows"):
        block_of(inputs, 0, 6)


def test_one_method_of_trainer_is_overridden():
    theirs = {name for name in dir(transformers.Trainer) if not name.startswith("__")}
    assert theirs & set(vars(CosmoTrainer)) == {"training_step"}


def test_no_gradient_is_ever_asked_for(tmp_path, rows):
    seen = []

    class Watched(CosmoTrainer):
        def compute_loss(self, model, inputs, **given):
            seen.append((torch.is_grad_enabled(), model.training))
            return super().compute_loss(model, inputs, **given)

    trainer = make(tmp_path, rows, Watched)
    trainer.train()
    assert seen == 2 * ROUNDS * [(False, True)]
    assert all(p.grad is None for p in trainer.model.parameters())


def test_the_step_that_trainer_adds_does_nothing(tmp_path, rows):
    trainer = make(tmp_path, rows)
    trainer.optimizer.step()
    assert (trainer.optimizer.t, hex_of(trainer.model)) == (0, hex_of(tiny_model()))
    trainer.train()
    assert (trainer.optimizer.t, trainer.optimizer.queries) == (ROUNDS, 2 * ROUNDS)
    assert isinstance(trainer.optimizer, Cosmo)


def test_callbacks_are_called_and_logs_say_what_there_is(tmp_path, rows):
    seen = []

    class Listens(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            seen.append("step")

        def on_log(self, args, state, control, logs, **_):
            seen.append(sorted(logs))

    make(tmp_path, rows, callbacks=[Listens()]).train()
    logged = ["bits_sent", "epoch", "learning_rate", "loss"]
    assert seen[:-1] == ["step", "step", logged] * (ROUNDS // 2)


def test_the_learning_rate_follows_the_schedule(tmp_path, rows):
    trainer = make(tmp_path, rows, lr_scheduler_type="constant_with_warmup", warmup_steps=4, logging_steps=1)
    trainer.train()
    rates = [each["learning_rate"] for each in trainer.state.log_history if "loss" in each]
    assert rates == [0, RATE / 4, RATE / 2, 3 * RATE / 4, RATE, RATE]


@pytest.mark.parametrize("at", [2, 6])
def test_a_resumed_run_ends_with_the_bits_of_the_whole_one(tmp_path, rows, at):
    """Three batches an epoch: round 2 is within one, 6 between two. Dropout and shuffling draw coins."""
    whole = lora(tmp_path, rows)
    whole.train()
    resumed = lora(tmp_path, rows)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{at}"))
    assert hex_of(resumed.model) == hex_of(whole.model)
    assert resumed.optimizer.queries == whole.optimizer.queries == 16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_resumed_run_in_half_precision_ends_with_the_bits_of_the_whole_one(tmp_path, rows, dtype):
    given = {"save_strategy": "steps", "save_steps": 3}
    whole, resumed = (make(tmp_path, rows, model=tiny_model().to(dtype), **given) for _ in range(2))
    whole.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    ends = [[p.view(torch.int16).tolist() for p in each.model.parameters()] for each in (whole, resumed)]
    assert ends[0] == ends[1] != [p.view(torch.int16).tolist() for p in tiny_model().to(dtype).parameters()]


def test_an_adapter_is_trained_and_its_model_is_not(tmp_path, rows):
    trainer = lora(tmp_path, rows)
    d = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
    trainer.train()
    after = {name: p for name, p in trainer.model.named_parameters() if "lora" not in name}
    assert trainer.optimizer.d == d == 2 * 2 * (2 * 32 + 32 + 16)
    assert [p.tolist() for p in after.values()] == [p.tolist() for p in tiny_model().parameters()]
    loaded = peft.PeftModel.from_pretrained(tiny_model(), tmp_path / "checkpoint-8")
    assert hex_of(loaded) == hex_of(trainer.model)


def test_an_adapter_starts_alike_whatever_was_drawn_before(tmp_path, rows):
    torch.manual_seed(1)
    one = hex_of(lora(tmp_path, rows).model)
    torch.manual_seed(2)
    assert hex_of(lora(tmp_path, rows).model) == one != hex_of(lora(tmp_path, rows, seed=7).model)


def test_both_queries_see_the_labels_where_a_loss_takes_them_out(tmp_path, rows):
    seen = []

    def loss(outputs, labels, num_items_in_batch=None):
        seen.append(labels is not None)
        return outputs.logits.square().mean()

    make(tmp_path, rows, more={"compute_loss_func": loss}).train()
    assert seen == [True] * 2 * ROUNDS


def test_a_round_without_a_partner_logs_the_last_loss(tmp_path, rows):
    trainer = make(tmp_path, rows)
    gave = iter([2.0, None, 3.0])
    trainer.optimizer.step = lambda closure=None: next(gave)
    batch = {"input_ids": torch.zeros((1, 4), dtype=torch.long)}
    assert [trainer.training_step(trainer.model, batch).item() for _ in range(3)] == [2.0, 2.0, 3.0]


def test_evaluation_and_the_average_work_alone(tmp_path, rows):
    trainer = make(tmp_path, rows, eval_strategy="steps", eval_steps=3, more={"eval_dataset": rows[:4]})
    trainer.train()
    with trainer.consensus():
        last = trainer.evaluate()["eval_loss"]
    assert [each["eval_loss"] for each in trainer.state.log_history if "eval_loss" in each][1:] == [
        last,
        last,
    ]


def test_a_loss_that_is_no_number_is_named(tmp_path, rows):
    def loss(outputs, labels, num_items_in_batch=None):
        return outputs.logits.mean() * float("nan")

    with pytest.raises(OracleError, match=r"the closure of node 0 in round 0 gave nan at query 1 of 2"):
        make(tmp_path, rows, more={"compute_loss_func": loss}).train()


def test_unless_told_a_round_touches_8192_parameters_or_an_eighth(tmp_path, rows):
    large, small = torch.nn.Linear(300, 300), torch.nn.Linear(9, 8)
    assert make(tmp_path, rows, q=None, model=large).optimizer.q == 8192
    assert make(tmp_path, rows, q=None, model=small).optimizer.q == 10


def test_the_best_checkpoint_is_loaded_at_the_end(tmp_path, rows):
    about = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    best = {"load_best_model_at_end": True, "save_total_limit": 1}
    patience = [transformers.EarlyStoppingCallback(ROUNDS)]
    trainer = make(tmp_path, rows, callbacks=patience, more={"eval_dataset": rows[:4]}, **about, **best)
    trainer.train()
    seen = [each["eval_loss"] for each in trainer.state.log_history if "eval_loss" in each]
    assert trainer.evaluate()["eval_loss"] == min(seen) == trainer.state.best_metric
    assert len(seen) == ROUNDS // 2
    assert max(seen) > min(seen)


def test_a_run_goes_on_from_the_last_checkpoint_of_its_folder(tmp_path, rows):
    make(tmp_path, rows, max_steps=4, save_strategy="steps", save_steps=2).train()
    seen = []

    class Listens(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            seen.append(state.global_step)

    resumed = make(tmp_path, rows, callbacks=[Listens()])
    resumed.train(resume_from_checkpoint=True)
    assert (seen, resumed.optimizer.t, resumed.optimizer.queries) == ([5, 6], 6, 12)


def test_predictions_are_those_of_the_trained_model(tmp_path, rows):
    trainer = make(tmp_path, rows)
    trainer.train()
    tokens = torch.stack([row["input_ids"] for row in rows[:4]])
    with torch.no_grad():
        expected = trainer.model.eval()(input_ids=tokens).logits
    assert (trainer.predict(rows[:4]).predictions == expected.numpy()).all()


def test_a_callback_can_stop_the_run(tmp_path, rows):
    class Stops(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step == 3

    trainer = make(tmp_path, rows, callbacks=[Stops()])
    trainer.train()
    assert (trainer.state.global_step, trainer.optimizer.t) == (3, 3)


# What is refused


def test_a_checkpoint_of_weights_alone_is_no_place_to_go_on_from(tmp_path, rows):
    given = {"save_strategy": "steps", "save_steps": 2}
    make(tmp_path, rows, save_only_model=True, **given).train()
    with pytest.raises(InputError, match=r"round 4 has no optimizer\.pt, .* save_only_model=False"):
        make(tmp_path, rows).train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))


def test_a_peft_config_is_one_of_peft_and_for_a_model_without_adapter(tmp_path, rows):
    with pytest.raises(InputError, match="peft_config must be a PEFT config such as LoraConfig, got a dict"):
        make(tmp_path, rows, more={"peft_config": LORA})
    wrapped = peft.get_peft_model(tiny_model(), peft.LoraConfig(**LORA))
    with pytest.raises(InputError, match="already has an adapter, which is trained; omit peft_config"):
        make(tmp_path, rows, model=wrapped, more={"peft_config": peft.LoraConfig(**LORA)})


def test_arguments_of_another_trainer_are_refused(tmp_path, rows):
    plain = transformers.TrainingArguments(str(tmp_path), report_to="none", use_cpu=True)
    with pytest.raises(InputError, match="args must be a CosmoConfig, got a TrainingArguments"):
        CosmoTrainer(tiny_model(), plain, train_dataset=rows)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"model_init": tiny_model}, "must be a torch module, got a model_init; load the model and pass it"),
        ({"optimizer_cls_and_kwargs": (torch.optim.SGD, {})}, "CosmoTrainer creates its own optimizer"),
    ],
)
def test_another_optimizer_is_refused(tmp_path, rows, more, line):
    with pytest.raises(InputError, match=line):
        make(tmp_path, rows, more=more)


def test_a_model_without_anything_to_train_is_refused(tmp_path, rows):
    with pytest.raises(InputError, match="no parameter of the model has requires_grad set"):
        make(tmp_path, rows, model=tiny_model().requires_grad_(False))


# Two processes


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What two processes under torchrun found, all cases in one start: that is what takes long."""
    folder = tmp_path_factory.mktemp("trainer")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(N)]
    command = [sys.executable, *launch, trainer_driver.__file__, str(folder)]
    places = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"found.{rank}").read_text(encoding="utf-8")) for rank in range(N)]


def test_two_trainers_are_two_loops_written_by_hand(found):
    assert [each["plain"]["x"] for each in found] == [each["by_hand"] for each in found]


def test_pairs_that_mix_hold_equal_bits(found):
    """From one start, and all that changes is averaged: not one bit differs, though the data do."""
    assert found[0]["pairs"] == found[1]["pairs"] != hex_of(tiny_model())


def test_two_resumed_trainers_end_with_the_bits_of_the_whole_run(found):
    assert [each["resumed"] for each in found] == [each["pairs"] for each in found]


@pytest.mark.parametrize("case", ["second by hand", "second resumed"])
def test_two_nodes_in_a_subspace_over_four_bits_are_a_loop_by_hand_and_resume(found, case):
    ends = [each["second"] for each in found]
    assert [each[case] for each in found] == ends
    assert ends[0] != ends[1]  # an average over four bits leaves nodes apart


def test_trainer_neither_wraps_the_model_nor_shares_out_the_data(found):
    plain = [each["plain"] for each in found]
    assert [(p["wrapped"], p["world"], p["seen"]) for p in plain] == N * [
        ("LlamaForCausalLM", 1, ROUNDS * BATCH)
    ]
    assert [each["group"] for each in found] == [False, False]
    assert [Path(p["folder"]).name for p in plain] == ["rank-0", "rank-1"]


def test_logs_say_how_many_bits_of_payload_were_sent(found):
    expected = [rounds * STEP["q"] * 32 for rounds in (2, 4, 6)]
    assert [each["plain"]["sent"] for each in found] == [expected, expected]


def test_consensus_is_the_average_inside_and_a_nodes_own_after(found):
    average = [each["average"] for each in found]
    assert [(a["inside"], a["after"]) for a in average] == [([2.0], [1.0]), ([2.0], [3.0])]
    assert average[0]["loss"] == average[1]["loss"]


@pytest.mark.parametrize(
    ("case", "line"),
    [
        ("rounds", "InputError: rank 1 would run 7 rounds, rank 0 6; give all ranks the same max_steps"),
        ("weights", "InputError: rank 1 and rank 0 start from different weights; load the same"),
        ("apart", "InputError: rank 1 resumes from round 6, rank 0 from 3; resume all"),
        ("seeds", "ManifestMismatch: seed_commitment: rank 0 has"),
    ],
)
def test_nodes_that_do_not_fit_end_with_the_same_line(found, case, line):
    assert found[0][case] == found[1][case]
    assert found[0][case].startswith(line)


def test_a_lost_peer_is_one_line_that_says_why(found):
    assert found[1]["lost"].startswith("OracleError: the closure of node 1 in round 3 gave nan")
    assert found[0]["lost"].startswith("PeerLost: rank 1 closed the connection in round 3")
    assert "the first to end was rank 1: OracleError" in found[0]["lost"]
    assert "\n" not in found[0]["lost"]


# The examples


def test_node_0_alone_prints_what_the_example_logs(found):
    assert "eval_loss" in found[0]["example"]
    assert found[1]["example"] == ""


def test_the_plain_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trainer_plain.py", "--rounds", "2", "--out", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "trainer_plain.py"), run_name="__main__")
    assert "eval_loss" in capsys.readouterr().out


def test_five_lines_make_a_plain_trainer_a_decentralised_one():
    plain, cosmo = (
        (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
        for name in ("trainer_plain.py", "trainer_cosmo.py")
    )
    changed = [line[0] for line in difflib.ndiff(plain, cosmo) if line[0] in "+-" and line[1:].strip()]
    assert (changed.count("+"), changed.count("-")) == (5, 4)
