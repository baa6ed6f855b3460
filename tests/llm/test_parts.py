"""Subjects share weights and examples; forwards round as their model was asked to; headers name libraries."""

import copy
from dataclasses import replace
from importlib.metadata import version

import pytest

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from llm.tuning import tuned  # noqa: E402
from zocosmo import log  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.llm import backbone, recipe, subject  # noqa: E402
from zocosmo.llm.probe import setting_of  # noqa: E402
from zocosmo.llm.recipe import open_recipe, settle  # noqa: E402
from zocosmo.llm.subject import KEEP, Shelf, Subject, open_subject  # noqa: E402
from zocosmo.log import make_header  # noqa: E402
from zocosmo_paper.audit import copied  # noqa: E402

LIGHT = {"noise": 0.5, "clip": 0.9, "together": 2, "queries": "one_by_one", "eval_batch": 8, "batch": 2}
LIGHT |= {"split": "iid", "skew": 2.0, "start": 7}
ROWS = {"max_tokens": 24, "train_tokens": 20, "train_rows": 20}
WEIGHTS = {"rank": 3, "alpha": 8.0, "targets": "q_proj", "loss": "vocabulary", "dtype": "bfloat16"}


@pytest.fixture(autouse=True)
def _clean():
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    open_subject.cache_clear()
    yield
    open_subject.cache_clear()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


@pytest.fixture
def setting(model):
    return setting_of(model=str(model), device="cpu", rank=2, train_rows=40, validation_rows=8, max_tokens=32)


@pytest.fixture
def loads(monkeypatch):
    """How often weights were read."""
    seen, load = [], subject.load_model
    monkeypatch.setattr(subject, "load_model", lambda *a, **k: seen.append(k["dtype"]) or load(*a, **k))
    return seen


def parts(one):
    return one.backbone, one.tokenizer, one.train, one.validation


@pytest.mark.parametrize("name", LIGHT)
def test_what_changes_neither_weights_nor_examples_loads_nothing(setting, loads, name):
    first, second = open_subject(setting), open_subject(replace(setting, **{name: LIGHT[name]}))
    assert second.setting != first.setting
    assert all(a is b for a, b in zip(parts(first), parts(second), strict=True))
    assert loads == ["float32"]


@pytest.mark.parametrize("name", ROWS)
def test_other_training_examples_have_the_same_weights(setting, loads, name):
    first, second = open_subject(setting), open_subject(replace(setting, **{name: ROWS[name]}))
    assert first.backbone is second.backbone
    assert first.train is not second.train
    assert loads == ["float32"]


def test_examples_follow_the_fields_they_depend_on(setting):
    plain = open_subject(setting)
    short = open_subject(replace(setting, max_tokens=24, train_tokens=20, train_rows=20))
    few = open_subject(replace(setting, validation_rows=4))
    assert (len(short.train), int(short.train.lengths.max())) == (20, 20)
    assert (int(short.validation.lengths.max()), int(plain.validation.lengths.max())) == (24, 32)
    assert (len(few.validation), few.train is plain.train) == (4, True)


@pytest.mark.parametrize("name", WEIGHTS)
def test_other_weights_or_adapters_are_not_mistaken_for_those_here(setting, name):
    first, second = open_subject(setting), open_subject(replace(setting, **{name: WEIGHTS[name]}))
    assert first.backbone is not second.backbone
    assert (second.backbone.layout.d, second.backbone.loss) == (second.d, second.setting.loss)
    assert first.train is second.train


def test_labels_with_other_words_get_a_backbone_of_their_own(setting, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a great film", "label": 1}\n{"text": "so", "label": 0}\n')
    rows = "train: rows.jsonl\nvalidation: rows.jsonl\n"
    (tmp_path / "mine.yaml").write_text('template: "{text}. It was"\nwords: [" no", " yes"]\n' + rows)
    first, second = open_subject(setting), open_subject(replace(setting, task=str(tmp_path / "mine.yaml")))
    assert first.backbone.words.tolist() != second.backbone.words.tolist()


def test_a_subject_that_is_not_opened_has_parts_of_its_own(setting):
    assert Subject(setting).backbone is not open_subject(setting).backbone


def test_a_copy_that_lacks_its_weights_loads_its_own(setting):
    """An audit compares copies: were they one, it would compare nothing."""
    one = open_subject(setting)
    assert copied(one).backbone is not one.backbone
    assert copy.copy(one).backbone is one.backbone


def test_a_shelf_forgets_what_nobody_asked_for_longest():
    shelf, made = Shelf(), []
    ask = lambda key: shelf.get("kind", key, lambda: made.append(key) or key)  # noqa: E731
    for key in [*range(KEEP), 0, KEEP, 0, 1]:
        assert ask(key) == key
    assert made == [*range(KEEP), KEEP, 1]
    assert shelf.get("other", 0, lambda: "new") == "new"


def test_a_probed_run_reads_its_weights_once(model, loads):
    line = ["rounds=2", "log_every=1", "methods.0.q=64", "problem.train_rows=64", "problem.validation_rows=8"]
    config = open_recipe(None, {("problem", "model"): str(model)}, [*line, "problem.device=cpu"])
    plan = settle(config, "probed")
    assert dict(plan.trials[0].problem)["noise"] > 0
    _ = plan.trials[0].run().problem.subject.backbone
    assert loads == ["float32"]


@pytest.mark.parametrize("rounds", [4, 9])
def test_the_probe_of_a_run_is_told_how_long_it_will_be(model, monkeypatch, rounds):
    def stop(*_, planned, **__):
        raise ZeroDivisionError(planned)

    monkeypatch.setattr(recipe, "suggest_for", stop)
    places = {("problem", "model"): str(model), ("rounds",): rounds, ("methods", 0, "q"): 64}
    with pytest.raises(ZeroDivisionError, match=f"^{rounds}$"):
        settle(open_recipe(None, places), "told")


def asked(one):
    """The precision that is set while the model computes."""
    seen, rows = [], one.train.batch(one.train.labels[:1], one.backbone.device)
    hook = one.backbone.model.register_forward_pre_hook(
        lambda *_: seen.append(torch.get_float32_matmul_precision())
    )
    one.backbone.losses(torch.from_numpy(one.x0[None].copy()), rows)
    hook.remove()
    return seen


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("before", ["high", "medium"])
def test_what_others_left_set_does_not_reach_a_forward(setting, dtype, before):
    """In bfloat16 adapters are float32, too."""
    one = open_subject(replace(setting, dtype=dtype))
    _ = one.backbone
    torch.set_float32_matmul_precision(before)
    assert asked(one) == ["highest"]


def test_two_models_take_turns_and_each_keeps_its_precision(setting, monkeypatch):
    monkeypatch.setattr(backbone, "check_tf32", lambda device: None)  # as if there were a GPU
    fine, rough = open_subject(setting), open_subject(replace(setting, dtype="tf32"))
    assert fine.backbone is not rough.backbone
    assert [asked(one)[0] for one in (fine, rough, fine, rough)] == ["highest", "high"] * 2


def test_tf32_on_a_cpu_is_refused_before_weights_are_read(setting, loads):
    with pytest.raises(InputError, match=r"^tf32 needs a GPU and the device is cpu; use float32$"):
        _ = open_subject(replace(setting, dtype="tf32")).backbone
    assert loads == []


def test_a_backbone_refuses_tf32_on_a_cpu(setting):
    one = open_subject(setting)
    with pytest.raises(InputError, match="tf32 needs a GPU"):
        backbone.Backbone(one.backbone.model, one.layout, one.words, tf32=True)


def test_headers_name_torch_and_its_company_for_language_models_alone():
    plain, about = (make_header({"problem": {"kind": kind}}, "f")["versions"] for kind in ("sphere", "llm"))
    assert {name: about[name] for name in about.keys() - plain.keys()} == {
        name: version(name) for name in ("torch", "transformers", "peft", "tokenizers")
    }
    assert list(plain) == ["zocosmo", "python", *(n for n in log.LIBRARIES if n in plain)]


def test_a_run_is_not_resumed_under_another_torch(model, tmp_path, monkeypatch):
    with pytest.raises(ZeroDivisionError):
        tuned(model, tmp_path / "a", see=lambda now: 1 / (now.round != 4))
    monkeypatch.setattr(log, "version", lambda name: "0" if name == "torch" else version(name))
    with pytest.raises(InputError, match="holds a study of other libraries"):
        tuned(model, tmp_path / "a", resume=True)
