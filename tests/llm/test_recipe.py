"""What a fine-tuning run is where little is said: one set of defaults, a q that fits, a known step."""

import json

import pytest
import yaml

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from zocosmo.errors import InputError  # noqa: E402
from zocosmo.experiments.plan import load_plan  # noqa: E402
from zocosmo.llm import recipe  # noqa: E402
from zocosmo.llm.recipe import TRIED, open_recipe, settle  # noqa: E402
from zocosmo.llm.subject import open_subject  # noqa: E402

D = 1792  # of the tiny model's adapter
FEW = ("problem.train_rows=32", "problem.validation_rows=8", "problem.threads=1")
STEP = {("methods", 0, "eta"): 0.5, ("methods", 0, "mu"): 0.01}


@pytest.fixture
def smollm2(monkeypatch, tmp_path, model):
    """The tiny model under the name that everybody can have, and as if its q were the house's."""
    (tmp_path / "cache" / "models").mkdir(parents=True)
    (tmp_path / "cache" / "models" / "smollm2").symlink_to(model)
    monkeypatch.setenv("ZOCOSMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(recipe, "Q", D // 8)
    monkeypatch.setattr(recipe, "suggest_for", lambda *_, **__: 1 / 0)
    open_subject.cache_clear()
    yield
    open_subject.cache_clear()


# One set of defaults


def test_naming_the_default_model_and_task_changes_nothing():
    named = {("problem", "model"): "smollm2", ("problem", "task"): "toy"}
    assert open_recipe(None, named).data == open_recipe(None, {}).data


@pytest.mark.parametrize(("task", "rounds", "every"), [("toy", 60, 20), ("sst2", 400, 40)])
@pytest.mark.parametrize("by_set", [True, False])
def test_the_toy_task_has_fewer_rounds_than_others(task, rounds, every, by_set):
    changes = {} if by_set else {("problem", "task"): task}
    data = open_recipe(None, changes, [f"problem.task={task}"] * by_set).data
    assert (data["rounds"], data["log_every"], data["methods"][0]["decay"]["rounds"]) == (
        rounds,
        every,
        rounds,
    )


def test_rounds_that_are_given_are_those_of_the_decay_too():
    data = open_recipe(None, {("rounds",): 30}).data
    assert (data["rounds"], data["log_every"], data["methods"][0]["decay"]["rounds"]) == (30, 15, 30)


def test_what_another_method_lacks_is_left_out_however_it_is_named():
    given = {("methods", 0, "kind"): "mezo"}
    assert open_recipe(None, given).data == open_recipe(None, {}, ["methods.0.kind=mezo"]).data
    assert "beta" not in open_recipe(None, given).data["methods"][0]


@pytest.mark.parametrize("whole", ["methods=[{%s}]", "methods.0={%s}"])
@pytest.mark.parametrize("part", ["kind: cosmo, decay: {kind: cosine, rounds: 100}", "kind: mezo, beta: 0"])
def test_what_is_given_within_a_whole_is_given(whole, part):
    assert open_recipe(None, {}, [whole % part]).data["methods"] == [yaml.safe_load(f"{{{part}}}")]


def test_a_problem_that_is_given_as_a_whole_is_toy_unless_it_says_so():
    data = open_recipe(None, {}, ["problem={kind: llm, validation_rows: 50}"]).data
    assert (data["problem"]["validation_rows"], data["rounds"], data["log_every"]) == (50, 60, 20)


@pytest.mark.parametrize("methods", ["[]", "[a]", "a"])
def test_methods_that_are_none_are_refused_in_a_line(methods):
    with pytest.raises(InputError, match="method"):
        settle(open_recipe(None, {}, [f"methods={methods}"]), "demo")


# q


def test_a_q_that_is_not_given_fits_the_model_and_is_said_before_the_run(model):
    said = []
    places = {("problem", "model"): str(model), ("rounds",): 2, **STEP}
    plan = settle(open_recipe(None, places, FEW), "small", said.append)
    assert plan.trials[0].method.q == D // 8
    line = f"{model} on toy: edge_local, n = 4 (ring), q = 224 of d = 1792, eta = 0.5, mu = 0.01, 2 rounds"
    assert said == [line]


@pytest.mark.parametrize("q", [{}, {"q": D}])
def test_a_q_that_a_config_names_is_left_as_it_is(model, tmp_path, q):
    path = tmp_path / "mine.yaml"
    step = {"kind": "cosmo", "eta": 0.5, "mu": 0.01, **q}
    about = {"problem": {"kind": "llm", "model": str(model), "train_rows": 32}, "rounds": 4, "log_every": 2}
    path.write_text(
        json.dumps({**about, "graphs": [{"kind": "path", "n": 2}], "methods": [step], "seeds": [3]})
    )
    assert settle(open_recipe(path, {}), "mine").trials[0].method.q == q.get("q", D // 8)


# The step that is known

PAIRS = "methods.0.kind=edge_local"


@pytest.mark.parametrize("line", [(), ("seeds.0=3",), ("graphs.0.n=6",), ("rounds=10",), (PAIRS,)])
def test_eta_and_mu_are_known_for_smollm2_on_toy(smollm2, line):
    said = []
    plan = settle(open_recipe(None, {}, ["problem.threads=1", *line]), "demo", said.append)
    method, problem = plan.trials[0].method, dict(plan.trials[0].problem)
    assert {"eta": method.eta, "mu": method.mu, "noise": problem["noise"]} == TRIED[method.kind]
    assert method.kind == ("edge_local" if PAIRS in line else "tree_mean")
    assert said[0].endswith("other choices are probed first; tasks other than toy have 400 rounds")


@pytest.mark.parametrize(
    "line",
    [
        *("rounds=80", "problem.batch=2", "methods.0.beta=0.5", "methods.0.coupling=G", "problem.clip=0.0"),
        "methods.0.kind=cosmo",
    ],
)
def test_whatever_eta_and_mu_depend_on_is_probed_where_it_is_another(smollm2, line):
    with pytest.raises(ZeroDivisionError):
        settle(open_recipe(None, {}, ["problem.threads=1", line]), "demo")


def test_noise_that_is_given_stays(smollm2):
    plan = settle(open_recipe(None, {}, ["problem.threads=1", "problem.noise=0.5"]), "demo")
    assert (plan.trials[0].method.eta, dict(plan.trials[0].problem)["noise"]) == (
        TRIED["tree_mean"]["eta"],
        0.5,
    )


# A run that is finished

SMALL = "--rounds 2 --set problem.train_rows=64 --set problem.validation_rows=8 --set problem.threads=1"
FINISHED = "is finished, so nothing was run; its results follow. To run it again, start over with --replace"


def test_a_finished_run_says_so_and_shows_its_results_again(run):
    line = f"finetune --model tiny {SMALL} --eta 1 --mu 0.01 --out a"
    first, again = run(line), run(line)
    assert again[:2] == first[:2]
    assert again[2] == f"zocosmo: a {FINISHED}, or choose another --out\n"
    assert run("finetune --out a --resume") == again


def test_a_finished_run_that_was_probed_is_known_by_its_numbers(run, monkeypatch):
    line = f"finetune --model tiny {SMALL} --out a"
    first = run(line)
    monkeypatch.setattr(recipe, "suggest_for", lambda *_, **__: 1 / 0)
    code, out, err = run(line)
    assert (code, out) == (0, first[1])
    assert FINISHED in err
    assert run(f"{line} --seed 5")[2].startswith("zocosmo: a holds a study of another plan; choose another")


def test_a_run_with_numbers_of_its_user_is_not_taken_for_one_that_finds_them(run):
    line = f"finetune --model tiny {SMALL} --out a"
    assert run(f"{line} --eta 1 --mu 0.01")[0] == 0
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert "a holds a run whose eta and mu were given; give them again (--eta 1.0 --mu 0.01)" in err


def test_a_folder_without_numbers_is_refused_before_the_probe(run, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "suggest_for", lambda *_, **__: 1 / 0)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "plan.json").write_text("{}")
    code, _, err = run(f"finetune --model tiny {SMALL} --out a")
    assert (code, err.startswith("zocosmo: a holds a run but no config with its eta")) == (2, True)


def test_a_file_in_place_of_the_folder_is_refused(run, tmp_path):
    (tmp_path / "a").write_text("")
    code, _, err = run(f"finetune --model tiny {SMALL} --out a")
    assert (code, err) == (2, "zocosmo: a is a file, and a run needs a folder; choose another --out\n")


def test_the_config_of_a_run_names_q_eta_and_mu(run, tmp_path):
    assert run(f"finetune --model tiny {SMALL} --eta 1 --mu 0.01 --out a")[0] == 0
    method = load_plan(tmp_path / "a" / "config.yaml").config["methods"][0]
    assert (method["q"], method["eta"], method["mu"]) == (D // 8, 1.0, 0.01)
