"""zocosmo screen, and the evaluation behind it."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from llm.tiny import tiny_folder, tiny_model, tiny_tokenizer  # noqa: E402
from zocosmo.llm.adapters import Layout  # noqa: E402
from zocosmo.llm.backbone import Backbone  # noqa: E402
from zocosmo.llm.batches import Examples  # noqa: E402
from zocosmo.llm.evaluate import NOWHERE, evaluate  # noqa: E402
from zocosmo.llm.tasks import encode, load_task  # noqa: E402


@pytest.fixture
def run(call_main, capsys, monkeypatch, tmp_path):
    """The command in a folder with a tiny model and tasks of three sizes: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    tiny_folder(tmp_path / "tiny")
    for name, rows, words in (
        ("few", 10, WORDS),
        ("many", 20, WORDS),
        ("long", 30, [" no", " unbelievable"]),
    ):
        write_task(tmp_path, name, rows, words)
    capsys.readouterr()  # transformers shows a bar when it saves
    return lambda line: call_main(*line.split())


WORDS = [" terrible", " great"]


def write_task(folder, name, rows, words, share=0.7):
    """All rows alike, so that the model gives one answer, which is right for a `share` of them."""
    right = answer() if words == WORDS else 0
    labels = [right if k < share * rows else 1 - right for k in range(rows)]
    lines = [json.dumps({"text": "a good film", "label": label}) for label in labels]
    (folder / f"{name}.jsonl").write_text("\n".join(lines))
    about = {
        "template": "{text} It was",
        "words": words,
        "train": f"{name}.jsonl",
        "validation": f"{name}.jsonl",
    }
    (folder / f"{name}.yaml").write_text(json.dumps(about))


def answer():
    """What the tiny model says after the prompt of `write_task`."""
    tokenizer, model = tiny_tokenizer(), tiny_model()
    with torch.inference_mode():
        logits = model(torch.tensor([tokenizer("a good film It was")["input_ids"]])).logits[0, -1]
    return int(logits[[tokenizer(word)["input_ids"][0] for word in WORDS]].argmax())


def test_the_rule_chooses_among_measured_accuracies(run):
    code, out, err = run("screen --model tiny --tasks few.yaml,many.yaml,long.yaml")
    few, many, long = [line.split() for line in out.splitlines()[1:4]]
    assert (code, err, out.splitlines()[-1]) == (0, "", "selected: many")
    assert (few[:3], many[:3]) == (["few", "10", "70.00%"], ["many", "20", "70.00%"])
    assert long[:3] == ["long", "30", "–"]


def test_the_same_as_json(run):
    code, out, _ = run("screen --model tiny --tasks few.yaml,long.yaml --json")
    report = json.loads(out)
    assert (code, report["selected"], report["tasks"][0]["accuracy"]) == (0, "few", 0.7)
    assert report["tasks"][1]["reason"] == "a label word is several tokens in this model"
    assert report["tasks"][1]["accuracy"] is None


def test_no_task_may_be_eligible(run, tmp_path):
    write_task(tmp_path, "easy", 10, WORDS, share=1.0)
    code, out, _ = run("screen --model tiny --tasks easy.yaml")
    assert (code, out.splitlines()[-1]) == (0, "no task is eligible; try other tasks or another model")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--model ./nowhere --tasks few.yaml", "model folder './nowhere' does not exist"),
        ("--model tiny --tasks ,", "--tasks is empty; give names such as qnli,boolq,mrpc,rte"),
        ("--model tiny --tasks nothing", "task 'nothing' is not known"),
        ("--model tiny --tasks few.yaml --batch 0", "rows in a batch must be 1 or more, got 0"),
        ("--model tiny --tasks few.yaml --dtype half", "dtype 'half' is not known"),
    ],
)
def test_a_mistake_is_one_line(run, line, said):
    code, out, err = run(f"screen {line}")
    assert (code, out, err.count("\n"), err.startswith("zocosmo: ")) == (2, "", 1, True)
    assert said in err


def toy(rows):
    found = encode(load_task("toy"), "validation", tiny_tokenizer(), max_tokens=64, limit=rows)
    return Examples(found.tokens, found.labels), np.asarray(found.words)


def test_a_model_without_adapters_scores_as_one_whose_adapter_is_zero():
    examples, words = toy(30)
    layout = Layout(tiny_model(), rank=2, alpha=4.0, targets="q_proj,v_proj")
    bare = evaluate(Backbone(tiny_model(), NOWHERE, words), examples, each=7)
    zero = evaluate(Backbone(tiny_model(), layout, words), examples, each=7)
    assert bare == zero
    assert evaluate(Backbone(tiny_model(), layout, words), examples, np.ones(layout.d, np.float32)) != zero


def test_batches_are_of_similar_length_and_hold_every_row():
    examples, words = toy(30)
    seen, take = [], examples.batch
    examples.batch = lambda rows, device: seen.append(rows) or take(rows, device)
    done = []
    evaluate(Backbone(tiny_model(), NOWHERE, words), examples, each=8, done=done.append)
    order = np.concatenate(seen)
    assert sorted(order) == list(range(30))
    assert (np.diff(examples.lengths[order]) >= 0).all()
    assert done == [8, 16, 24, 30]
