"""zocosmo finetune: a config in, a log and adapters out; stopped, resumed, diverged, refused."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from llm import finetune_driver  # noqa: E402
from llm.tiny import tiny_folder, tiny_model  # noqa: E402
from llm.tuning import small_plan, tuned  # noqa: E402
from zocosmo.errors import InputError, OracleError  # noqa: E402
from zocosmo.experiments import run as runs  # noqa: E402
from zocosmo.experiments.plan import load_plan  # noqa: E402
from zocosmo.experiments.states import read_states  # noqa: E402
from zocosmo.llm import cache, memory, subject  # noqa: E402
from zocosmo.llm.evaluate import evaluate  # noqa: E402
from zocosmo.llm.finetune import average, finetune, numbered  # noqa: E402
from zocosmo.llm.problem import LanguageModel  # noqa: E402
from zocosmo.llm.recipe import open_recipe, settle, subject_of  # noqa: E402
from zocosmo.log import read_log  # noqa: E402
from zocosmo.sim.engine import Simulation  # noqa: E402

LINE = "--rounds 4 --every 2 --q 64 --eta 20 --mu 0.01 --set problem.train_rows=64 --set problem.threads=1"
LINE += " --set problem.validation_rows=24"
GOOD = '{"text": "a great film", "label": 1}\n{"text": "a bad film", "label": 0}\n'


@pytest.fixture(scope="module")
def straight(model, tmp_path_factory):
    """A run that nobody disturbs: its folder."""
    out = tmp_path_factory.mktemp("straight")
    tuned(model, out)
    return out


def files(folder, *names):
    return {name: (folder / name).read_bytes() for name in names}


RESULT = ("log.parquet", "states.npz", "adapter/adapter_model.safetensors", "adapter/adapter_config.json")


# Config


def test_the_command_writes_a_config_that_zocosmo_run_repeats_to_the_byte(run, tmp_path):
    code, out, err = run(f"finetune --model tiny {LINE} --out a")
    assert code == 0, err
    assert "0.008192 Mbit per node" in out  # 4 rounds · 64 values · 32 bits
    assert run("run a/config.yaml --out b --states")[0] == 0
    assert files(tmp_path / "a", "log.parquet", "states.npz") == files(
        tmp_path / "b", "log.parquet", "states.npz"
    )


def test_every_default_is_written_down(straight):
    config = load_plan(straight / "config.yaml").config
    assert {"rank", "alpha", "targets", "dtype", "clip", "noise"} <= set(config["problem"])
    assert config["methods"][0]["decay"] == {"kind": "cosine", "rounds": 12, "to": 0.0}
    assert (config["problem"]["clip"], config["guard"]) == (0.9, {"grow": 0.05, "by": 0.5})


def test_exact_turns_all_guards_off(model):
    plan = small_plan(model, exact=True)
    assert (plan.guard, plan.diverged_above, plan.config["problem"]["clip"]) == (None, 1e12, 0.0)
    assert plan.trials[0].method.decay.kind == "constant"


@pytest.mark.parametrize(
    "text", ["problem.clip=0.5", "guard.by=0.1", "methods.0.decay.kind=cosine", "guard=null"]
)
def test_exact_and_a_guard_are_not_both_meant(text):
    with pytest.raises(InputError, match=f"^--exact turns guards off, and --set {text} sets one; leave one"):
        open_recipe(None, {}, ["rounds=8", text], exact=True)


def test_a_config_that_zocosmo_run_takes_means_the_same_here(model, tmp_path):
    path = tmp_path / "mine.yaml"
    entries = {"problem": {"kind": "llm", "model": str(model), "train_rows": 32}, "rounds": 4, "log_every": 2}
    step = {"kind": "cosmo", "q": 8, "eta": 0.5, "mu": 0.01}
    path.write_text(
        json.dumps({**entries, "graphs": [{"kind": "path", "n": 2}], "methods": [step], "seeds": [3]})
    )
    ours, theirs = settle(open_recipe(path, {}), "mine"), load_plan(path)
    assert ours.trials == theirs.trials
    assert (ours.wire, ours.dtype, ours.guard) == (theirs.wire, theirs.dtype, theirs.guard)


def test_a_config_of_half_the_sections_gets_the_others(model, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"problem": {"kind": "llm", "model": str(model)}, "rounds": 30}))
    sets = ["methods.0.q=8", "methods.0.eta=0.5", "methods.0.mu=0.1", "problem.train_rows=32"]
    plan = settle(open_recipe(path, {}, sets), "mine")
    assert (plan.rounds, plan.log_every, plan.trials[0].method.decay.rounds) == (30, 30, 30)
    assert (plan.trials[0].method.q, plan.trials[0].graph_of().n, plan.dtype) == (8, 4, "float32")


def test_eta_and_mu_come_from_the_probe(run, tmp_path):
    more = "--set problem.train_rows=64 --set problem.validation_rows=8 --rounds 2 --q 64 --out a"
    code, _, err = run(f"finetune --model tiny {more}")
    config = load_plan(tmp_path / "a" / "config.yaml").config
    assert code == 0, err
    assert config["methods"][0]["eta"] > 0
    assert config["methods"][0]["mu"] in (1e-3, 3e-3, 1e-2, 3e-2, 0.1)
    assert config["problem"]["noise"] > 0


# Adapters


def test_peft_loads_the_adapter_and_gives_our_logits(model, straight):
    """Float32: logits of order 1 out of a few hundred roundings of 6e-8 each; 1e-5 is ten times that."""
    ours = subject_of(load_plan(straight / "config.yaml"))
    seen = []
    hook = ours.backbone.model.lm_head.register_forward_hook(lambda module, x, out: seen.append(out[:, -1]))
    x = torch.from_numpy(ours.layout.load(straight / "adapter"))
    batch = ours.validation.batch(np.arange(8), torch.device("cpu"))
    ours.backbone.losses(x[None], batch)
    ours.backbone.losses(torch.zeros_like(x)[None], batch)
    hook.remove()
    theirs = peft.PeftModel.from_pretrained(tiny_model(), straight / "adapter")
    with torch.inference_mode():
        told = theirs(input_ids=batch.tokens, attention_mask=batch.mask, position_ids=batch.places).logits
    assert (seen[0] - told[:, -1]).abs().max() < 1e-5
    assert (seen[0] - seen[1]).abs().max() > 1e-3  # it does something


def test_the_last_three_adapters_stay_and_the_last_is_the_result(straight):
    assert [path.name for path in numbered(straight)] == ["adapter-8", "adapter-10", "adapter-12"]
    names = "adapter_config.json", "adapter_model.safetensors"
    assert files(straight / "adapter-12", *names) == files(straight / "adapter", *names)
    assert not list(straight.glob(".adapter*"))


def test_the_adapter_is_what_the_last_checkpoint_measured(straight):
    """Sums over other batches: double roundings of float32 logits, so 1e-5 on a mean loss near 0.7."""
    ours, last = (
        subject_of(load_plan(straight / "config.yaml")),
        read_log(straight / "log.parquet").rows.iloc[-1],
    )
    adapter = ours.layout.load(straight / "adapter")
    assert (adapter == average(read_states(straight / "states.npz")["trial-0"])).all()
    found = evaluate(ours.backbone, ours.validation, adapter, each=5)
    assert (found.rows, found.accuracy) == (24, pytest.approx(last["accuracy"], abs=1e-12))
    assert found.nll == pytest.approx(last["objective"], abs=1e-5)


def test_the_adapter_of_a_launched_run_is_made_from_its_states(straight, tmp_path):
    for name in ("log.parquet", "states.npz", "plan.json"):
        (tmp_path / name).write_bytes((straight / name).read_bytes())
    finetune(load_plan(straight / "config.yaml"), tmp_path)
    assert files(tmp_path, *RESULT, "config.yaml") == files(straight, *RESULT, "config.yaml")


# Measuring


def test_a_checkpoint_leaves_every_state_as_it_is(model):
    plan = small_plan(model)
    sim = Simulation([plan.trials[0].run()], wire=plan.wire, dtype=plan.dtype, guard=plan.guard)
    for _ in range(3):
        sim.round()
    before = {name: array.tobytes() for name, array in sim.arrays().items() if name.startswith("state.")}
    sim.checkpoint()
    after = {name: array.tobytes() for name, array in sim.arrays().items() if name.startswith("state.")}
    assert before == after
    assert set(before) == {"state.x", "state.m"}


def test_more_checkpoints_leave_the_trajectory_as_it_is(model, tmp_path):
    for every in (2, 6):
        tuned(model, tmp_path / str(every), exact=True, log_every=every)
    states = [read_states(tmp_path / every / "states.npz")["trial-0"].tobytes() for every in ("2", "6")]
    assert states[0] == states[1]


def test_progress_carries_the_loss_and_the_signal_between_checkpoints(model, monkeypatch):
    monkeypatch.setattr(runs, "NOTE_EVERY", -1.0)  # after every round
    seen = []
    runs.run_plan(small_plan(model, log_every=6), tick=seen.append)
    assert [now.rounds // 4 for now in seen] == [*range(1, 13), 12]
    assert all(re.fullmatch(r"loss \d\.\d+  snr \d+\.\d", now.note) for now in seen)


def test_a_watched_plan_runs_in_one_process(model):
    with pytest.raises(InputError, match="only one process can be watched, got processes = 2"):
        runs.run_plan(small_plan(model), processes=2, watch=lambda sim, now: None)


def test_a_hundred_rounds_of_four_nodes_cost_26_2144_mbit_each(model, tmp_path):
    big = {"problem_rank": 40, "rounds": 100, "log_every": 50}  # d = 8960
    found = tuned(model, tmp_path, method={"q": 8192, "eta": 1e-3}, **big)
    assert found.after["bits"] == 26_214_400 == 100 * 8192 * 32
    assert found.after["value_bits"] == 4 * 26_214_400


# Stopped and resumed


def test_a_run_that_was_killed_between_snapshots_goes_on_to_the_same_bytes(model, straight, tmp_path):
    places = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    line = [sys.executable, finetune_driver.__file__, str(model), str(tmp_path)]
    killed = subprocess.run(line, env={**os.environ, "PYTHONPATH": places}, capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [path.name for path in numbered(tmp_path)][-1] == "adapter-8"
    seen = []
    tuned(model, tmp_path, resume=True, see=lambda now: seen.append(now.round))
    assert seen == [6, 8, 10, 12]  # on from the snapshot of round 5: not from the start, and not from 8
    assert files(tmp_path, *RESULT, "config.yaml") == files(straight, *RESULT, "config.yaml")


def test_a_run_that_was_killed_before_any_snapshot_begins_again(model, straight, tmp_path):
    def die(now):
        if now.round == 4:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tuned(model, tmp_path, see=die)
    with pytest.raises(InputError, match="--resume"):
        tuned(model, tmp_path)
    tuned(model, tmp_path, resume=True)
    assert files(tmp_path, *RESULT) == files(straight, *RESULT)
    assert [path.name for path in numbered(tmp_path)] == [path.name for path in numbered(straight)]


def test_resume_takes_the_config_of_the_folder(run, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr("zocosmo.cli.finetune.Show.see", lambda self, now: 1 / (now.round != 2))
        with pytest.raises(ZeroDivisionError):
            run(f"finetune --model tiny {LINE} --out a")
    code, out, err = run("finetune --out a --resume")
    assert (code, "4 rounds" in out) == (0, True), err


# What goes wrong


def test_divergence_is_one_line_with_the_last_good_adapter(run, tmp_path, monkeypatch):
    start, finish = LanguageModel.start, LanguageModel.finish
    wild = lambda self, begun: finish(self, begun[1]) * (np.inf if begun[0] >= 5 else 1)  # noqa: E731
    monkeypatch.setattr(LanguageModel, "start", lambda self, query, t: (t, start(self, query, t)))
    monkeypatch.setattr(LanguageModel, "finish", wild)
    code, out, err = run(f"finetune --model tiny {LINE} --rounds 8 --out a")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("zocosmo: diverged by round 6: the loss is not finite, from 0.69")
    assert "the last good adapter is a/adapter-4; lower eta (now 20), and start over with --replace" in err
    assert sorted(path.name for path in (tmp_path / "a").glob("adapter*")) == ["adapter-2", "adapter-4"]
    assert run("finetune --out a --resume")[::2] == (2, err.splitlines()[-1] + "\n")  # it stays so


def test_a_loss_that_is_no_number_at_the_start_is_said_before_any_round(tmp_path):
    folder = tiny_folder(tmp_path / "broken")
    broken = tiny_model()
    broken.model.norm.weight.data[:] = torch.nan
    broken.save_pretrained(folder)
    with pytest.raises(OracleError, match="the loss is nan before any round, in float32; check the model"):
        tuned(folder, tmp_path / "a")
    assert read_log(tmp_path / "a" / "log.parquet").rows["round"].tolist() == [0]


def test_too_little_memory_is_said_before_a_folder_is_made(model, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device="cpu": 1000)
    subject.open_subject.cache_clear()
    with pytest.raises(InputError, match=r"needs 0\.12 MB, but cpu has 0\.00 MB free; use"):
        tuned(model, tmp_path / "a")
    subject.open_subject.cache_clear()
    assert not (tmp_path / "a").exists()


def test_memory_that_runs_out_on_the_way_is_one_line(model, tmp_path, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr("zocosmo.llm.backbone.Backbone._losses", full)
    with pytest.raises(InputError, match="too little memory for the queries of 4 nodes; lower batch"):
        tuned(model, tmp_path / "a")


MISTAKES = {
    "--q 64000": "q = 64000 coordinates of d = 1792 cannot be drawn; q must lie between 1 and d",
    "--model ./nowhere": "model folder './nowhere' does not exist; give a folder, smollm2",
    "--task nothing": "task 'nothing' is not known; choose from sst2, qnli",
    "--nodes 65": "65 nodes cannot share 64 rows; use 64 nodes or fewer",
    "--set problem.split=dirichlet --set problem.skew=0.01 --nodes 30": "all left one of 30 nodes with fewer",
    "--task long.yaml": "the word ' unbelievable' is",
    "--task empty.yaml": "empty.jsonl",
    "--set problem.rnak=3": "unknown key 'rnak' in problem, did you mean 'rank'?",
    "--every 3": "4 rounds are not a multiple of 3, and the last 1 would not be run; take 3 or 6 rounds",
    "--dtype float8": "dtype 'float8' is not known; choose from float32",
    "--set rank": "--set rank: expected KEY=VALUE with dots in the key",
    "--set problem=3": "--set problem=3: problem must be a mapping, got 3",
    "--graph erdos_renyi": "graphs[0] lacks 'p'; give it: --set graphs.0.p=…",
    "--nodes 1": "a ring graph needs at least 2 nodes, got 1; use graph complete for a single node",
    "--set methods.1.q=3": "--set methods.1.q=3: methods has no entry '1'",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_no_folder(run, tmp_path, mistake):
    (tmp_path / "rows.jsonl").write_text(GOOD * 2)
    (tmp_path / "empty.jsonl").write_text("")
    for name, word, train in (("long", " unbelievable", "rows"), ("empty", " great", "empty")):
        about = {"template": "{text} It was", "words": [" terrible", word], "validation": "rows.jsonl"}
        (tmp_path / f"{name}.yaml").write_text(json.dumps({**about, "train": f"{train}.jsonl"}))
    code, out, err = run(f"finetune --model tiny {LINE} {mistake} --out a")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("zocosmo: ")
    assert MISTAKES[mistake] in err
    assert not (tmp_path / "a").exists()


def test_only_one_of_eta_and_mu_is_refused(run):
    code, _, err = run("finetune --model tiny --q 64 --eta 0.5")
    assert (code, err) == (2, "zocosmo: eta is given and mu is not; give both or neither\n")


def test_a_mistake_in_a_file_has_its_line(run, tmp_path):
    (tmp_path / "mine.yaml").write_text("problem: {kind: llm, model: tiny}\nrounds: 4\nmethod: []\n")
    code, _, err = run("finetune mine.yaml")
    assert (code, err.startswith("zocosmo: mine.yaml:3: unknown key 'method'")) == (2, True)


def test_a_config_of_several_trials_is_for_zocosmo_run(run, tmp_path):
    (tmp_path / "mine.yaml").write_text("problem: {kind: llm, model: tiny}\nseeds: [1, 2]\n")
    code, _, err = run("finetune mine.yaml --q 64 --eta 1 --mu 0.1 --set problem.train_rows=32")
    assert (code, err) == (
        2,
        "zocosmo: mine.yaml:1: finetune runs one trial, and the config has 2; use zocosmo run\n",
    )


# The model that everybody can have


def test_a_missing_model_is_one_line_with_the_command_that_gets_it(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ZOCOSMO_CACHE", str(tmp_path / "cache"))
    code, out, err = run("finetune")
    assert (code, out) == (2, "")
    assert err == "zocosmo: model 'smollm2' is not in the cache; fetch it with: zocosmo model get smollm2\n"


@pytest.mark.parametrize(("answer", "fetched"), [("y", ["smollm2"]), ("n", [])])
def test_a_missing_model_is_fetched_if_the_user_says_so(run, monkeypatch, tmp_path, answer, fetched):
    monkeypatch.setenv("ZOCOSMO_CACHE", str(tmp_path / "cache"))
    asked = []
    monkeypatch.setattr("zocosmo.cli.finetune.is_terminal", lambda: True)
    monkeypatch.setattr("zocosmo.cli.finetune.fetch_model", asked.append)
    monkeypatch.setattr("sys.stdin", type("Typed", (), {"readline": lambda self: f"{answer}\n"})())
    monkeypatch.setattr("builtins.input", lambda *_: answer)
    assert run("finetune")[0] == 2  # nothing was really fetched
    assert asked == fetched


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "mbit"),
    [
        ("", "0.000144"),  # 4 rounds, 6 messages of the tree for 4 nodes, 8 + 4 · 4 bits each
        ("--momentum 0.9", "1.04858"),  # 4 · 8192 · 32 bits
    ],
)
def test_smollm2_runs_a_few_rounds_at_the_price_of_the_formula(run, more, mbit):
    if cache.kept_folder("smollm2") is None:
        pytest.skip("smollm2 is not in the cache; zocosmo model get smollm2")
    code, out, err = run(f"finetune --rounds 4 --every 2 {more}")
    assert code == 0, err
    assert f"{mbit} Mbit per node" in out
