"""The menu and manners of the command line: groups, help that fits, completion, suggestions, closed pipes."""

import os
import re
import subprocess
import sys

import pytest
import typer

from zocosmo.cli import app
from zocosmo.cli.menu import MENU, OTHERS, grouped

COMMAND = typer.main.get_command(app)
NAMES = COMMAND.list_commands(typer.Context(COMMAND))


def every_command(command=COMMAND, words=()):
    """All commands as they are typed, with their objects."""
    for name, below in command.commands.items():
        yield from (
            every_command(below, (*words, name)) if "commands" in vars(below) else [((*words, name), below)]
        )


@pytest.fixture
def run(call_main):
    return lambda line: call_main(*line.split())


def test_every_command_has_its_place_in_the_menu():
    """A new command without a line? Give it one in zocosmo.cli.menu.MENU."""
    listed = [name for group in MENU.values() for name in group]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == set(NAMES)
    assert list(MENU) == [
        "Use it",
        "Compare",
        "Run on machines",
        "Language models",
        "Theory and paper",
        "Tools",
    ]
    assert dict(grouped(["run", "mine"]))[OTHERS] == {"mine": ""}


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_fits_eighty_columns_and_cuts_nothing(run, flag, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(flag)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "..." not in out.replace("[ARGS]...", "")
    for title, group in MENU.items():
        assert f"\n{title}:\n" in out
        for name, line in group.items():
            assert re.search(rf"^  {name} +{re.escape(line)}$", out, re.M)


@pytest.mark.parametrize(("words", "command"), list(every_command()), ids=lambda each: str(each)[:40])
def test_options_have_types_that_people_read(words, command, run):
    code, out, err = run(f"{' '.join(words)} -h")
    assert (code, err) == (0, "")
    assert not re.search(r"<(int|float|str|path|list)", out)
    if "--graph " in out:
        assert "--graph GRAPH" in out


@pytest.mark.parametrize("line", ["--help", "methods"])
def test_a_reader_that_closes_the_pipe_is_no_failure(line):
    """`head` ends early: exit code 0 and nothing on stderr, for text of typer and of rich."""
    child = subprocess.Popen(
        [sys.executable, "-c", "from zocosmo.cli import main; main()", *line.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    child.stdout.close()  # before anything is written
    assert (child.stderr.read(), child.wait(60)) == (b"", 0)
    child.stderr.close()


SUGGESTED = {
    "rnu": "No such command 'rnu'. Did you mean 'run'?",
    "model lsit": "No such command 'lsit'. Did you mean 'list'?",
    "plan --d 9 --budget 1M --nodes 4 --graph rign": "graph 'rign' is not known; .* Did you mean 'ring'?",
    "minimize --command {x} --d 2 --rounds 1 --method edge-locl": "method .* Did you mean 'edge_local'?",
    "example feild": "there is no example 'feild'; zocosmo example --list lists them. Did you mean 'field'?",
    "reproduce paylod": "item 'paylod' is not known; choose from all, .* Did you mean 'payload'?",
    "model path smolm2": "Did you mean 'smollm2'?",
    "run --resmue x.yaml": "No such option: --resmue .*--resume",
    "run field.yaml": "field.yaml: there is no such file; write it with: zocosmo example field > field.yaml",
}


@pytest.mark.parametrize("line", SUGGESTED)
def test_a_mistyped_name_is_suggested_in_one_line(run, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOCOSMO_CACHE", str(tmp_path))
    code, out, err = run(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(SUGGESTED[line].replace("?", r"\?"), err)


def test_a_config_with_a_mistyped_kind_is_told_what_was_meant(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(run("example")[1].replace("kind: edge_local", "kind: edgelocal"))
    code, _, err = run("run a.yaml")
    assert (code, err.endswith("Did you mean 'edge_local'?\n")) == (2, True)


def test_shells_complete_names_of_methods():
    def completed(words):
        asked = {
            "_ZOCOSMO_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        line = [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'zocosmo'; from zocosmo.cli import main; main()",
        ]
        found = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **asked}, check=False)
        return found.stdout.split()

    assert completed("zocosmo minimize --method edge_") == ["edge_local"]


def test_a_missing_extra_is_one_line_with_the_command_that_adds_it():
    without = "import sys; sys.modules['torch'] = None; sys.argv[1:] = ['probe', '--no-pilots']"
    line = [sys.executable, "-c", f"{without}; from zocosmo.cli import main; main()"]
    found = subprocess.run(line, capture_output=True, text=True, check=False)
    said = 'zocosmo: probe needs torch; run: pip install "zocosmo[llm]"\n'
    assert (found.returncode, found.stdout, found.stderr) == (2, "", said)


def test_one_trial_is_not_one_trials(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(
        "problem: {kind: quadratic, d: 4}\ngraphs: [{kind: ring, n: 4}]\n"
        "methods: [{kind: cosmo, q: 2, eta: 0.01, mu: 0.01}]\nseeds: [1]\nrounds: 2\nlog_every: 2\n"
    )
    assert run("run one.yaml")[1] == "runs/one/log.parquet: 1 trial, 0 diverged, 2 rows\n"
    assert run("diff runs/one runs/one")[1] == "identical: 1 trial, 2 rows\n"


ENTRIES = """[zocosmo.methods]
slow_cosmo = ownparts:SlowCosmo
broken = ownparts:Nothing
cosmo = ownparts:SlowCosmo
[zocosmo.graphs]
chords = ownparts:chords
[zocosmo.wires]
thirds = ownparts:Thirds
"""
PARTS = '''
from dataclasses import dataclass
from zocosmo.core.wires import WIRES
from zocosmo.core.values import F32
from zocosmo.core.wires import FloatWire
from zocosmo.graphs import GRAPHS
from zocosmo.methods import Cosmo

@dataclass(frozen=True, kw_only=True)
class SlowCosmo(Cosmo):
    """Takes its time."""

def chords(n: int, hop: int = 2):
    """A ring with chords."""
    return GRAPHS["ring"](n)

class Thirds(FloatWire):
    """Values in thirds."""
    def __init__(self):
        super().__init__(F32, F32)
'''


def test_methods_lists_wires_graphs_and_the_parts_of_installed_packages(run, tmp_path, monkeypatch):
    (tmp_path / "ownparts.py").write_text(PARTS)
    about = tmp_path / "ownparts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ownparts\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, out, err = run("methods")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for words in (
        r"^edge_local  ",
        r"^slow_cosmo +Takes its time \(of ownparts\) +eta, mu",
        r"^mod4 +Values modulo 2\^b Δ, with public dither +mod4 +4 +27",
        r"^nominal_f32 .* f64 +32",
        r"^thirds +Values in thirds \(of ownparts\) +f32 +32",
        r"^chords +A ring with chords \(of ownparts\) +n, hop=2",
        r"^broken +broken of ownparts",
    ):
        assert any(re.search(words, line) for line in lines), words
    assert sum(line.startswith("cosmo ") for line in lines) == 1  # a built-in name cannot be replaced
