"""CosmoConfig: what is refused before work starts, and what a launched process is."""

import json
import os

import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from llm.trainer_driver import QUIET, config  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.llm import CosmoConfig  # noqa: E402

TREE = {"tree": True, "momentum": 0.0}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"gradient_accumulation_steps": 2},
            "gradient_accumulation_steps = 2 was given; a round has one batch",
        ),
        ({"fp16": True}, "fp16 = True was given; the loss is computed in the type of the weights"),
        ({"bf16": True}, "bf16 = True was given; .* load the model with dtype='bfloat16'"),
        ({"deepspeed": {"a": 1}}, "deepspeed = .* a node holds its whole model"),
        ({"fsdp": True}, "fsdp = .* a node holds its whole model"),
        ({"max_grad_norm": 1.0}, "max_grad_norm = 1.0 was given; there are no gradients"),
        ({"gradient_checkpointing": True}, "gradient_checkpointing = True was given; there are no gradients"),
        ({"weight_decay": 0.1}, "weight_decay = 0.1 was given; Cosmo has no weight decay"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size = True was given"),
        ({"optim": "sgd"}, "optim = sgd was given; the optimizer is zocosmo.torch.Cosmo"),
        ({"q": 0}, "q must be 1 or more, got 0"),
        ({"mu": 0.0}, "mu must be a finite number above 0, got 0.0"),
        ({"momentum": 1.0}, "momentum must be a finite number at least 0 and below 1"),
        ({"learning_rate": -1.0}, "learning_rate must be a finite number at least 0"),
        ({"tape_seed": 0.5}, "a seed must be an integer, a string or 32 bytes, got float"),
        ({"graph": "erdos_renyi"}, "graph 'erdos_renyi' is not known; choose from ring, path"),
        ({"schedule": "often"}, "schedule 'often' is not known"),
        ({"coupling": "X"}, "coupling 'X' is not known"),
        ({"coupling": "G"}, "coupling 'G' needs pairs; give a schedule"),
        ({"tree": True, "schedule": "auto"}, "schedule 'auto' pairs nodes, and a tree has no pairs"),
        ({"tree": True}, "a mean over a tree has no momentum, got 0.9; set momentum to 0"),
        ({**TREE, "correction": 0.1}, "a mean over a tree has no correction, got 0.1; set correction to 0"),
        ({**TREE, "step": "normalised_local"}, "all know the scale of a step; set step to normalised"),
        ({**TREE, "wire": "mod4"}, "a mean over a tree cannot use wire mod4; use f32, or grid3"),
        ({"wire": "f8"}, "wire 'f8' is not known"),
        ({"subspace": 0}, "subspace must be 1 or more, got 0"),
        ({"directions": 0}, "directions must be 1 or more, got 0"),
        ({"signs": "odd"}, "signs 'odd' is not known"),
        ({"rows": "shared"}, "rows 'shared' is not known"),
        ({"step": "long"}, "step 'long' is not known"),
        ({"rule": "fair"}, "rule 'fair' is not known"),
        ({"correction": 2.0}, "correction must be a finite number at least 0 and at most 1, got 2.0"),
        ({"rows": "split", "directions": 9}, "9 directions cannot split a batch of 8"),
        ({"deadline": 0.0}, "a deadline must be a number of seconds above 0"),
        ({"key_file": "nowhere"}, "key file nowhere cannot be read"),
        ({"listen": "nowhere.invalid"}, "'nowhere.invalid' is not an address of this machine"),
    ],
)
def test_a_config_is_refused_in_one_line(tmp_path, given, line):
    with pytest.raises(InputError, match=line) as found:
        CosmoConfig(str(tmp_path), **QUIET, **given)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("name", "value"), [("ACCELERATE_USE_FSDP", "true"), ("ACCELERATE_MIXED_PRECISION", "bf16")]
)
def test_what_accelerate_was_told_is_refused(tmp_path, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"{name} is '{value}'; start with torchrun or zocosmo launch"):
        CosmoConfig(str(tmp_path), **QUIET)


def test_options_can_be_given_on_the_command_line():
    line = ["--output_dir", "out", "--q", "9", "--tape_seed", "7", "--schedule", "auto", "--use_cpu"]
    (args,) = transformers.HfArgumentParser(CosmoConfig).parse_args_into_dataclasses(line)
    assert (args.q, args.tape, args.schedule, args.max_grad_norm) == (9, "7", "auto", 0.0)
    assert json.loads(args.to_json_string())["q"] == 9


@pytest.fixture
def launched(monkeypatch):
    """This process as rank 1 of 3, as torchrun would have it."""
    about = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}
    for name, value in {**about, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)


def test_a_launched_process_is_a_node_and_for_trainer_alone(tmp_path, launched):
    before = dict(os.environ)
    args = config(tmp_path)
    assert (args.node, args.nodes, args.world_size) == (1, 3, 1)
    assert args.output_dir == str(tmp_path / "rank-1")
    assert (args.should_save, args.should_log, args.process_index) == (True, False, 1)
    assert dict(os.environ) == before
    assert not torch.distributed.is_initialized()


def test_a_graph_or_schedule_that_does_not_fit_is_refused_before_peers_are_met(tmp_path, launched):
    with pytest.raises(InputError, match="a hypercube has 2, 4, 8, 16, … nodes, got n = 3"):
        config(tmp_path, graph="hypercube")
    with pytest.raises(InputError, match="alternating"):
        config(tmp_path, schedule="alternating")


def test_processes_take_the_gpus_of_a_machine_in_turn(tmp_path, launched, monkeypatch):
    took = []
    monkeypatch.setattr(CosmoConfig, "device", torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", took.append)
    args = config(tmp_path)
    assert took == [torch.device("cuda", 1)]
    assert (args.__dict__["_setup_devices"], args.n_gpu) == (torch.device("cuda", 1), 1)
