"""What a user gets who has only the wheel: configs, links, install lines, and examples that can be pasted."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import typer
import yaml

from zocosmo import __version__
from zocosmo.cli import app
from zocosmo.errors import InputError
from zocosmo.experiments.starters import configs_folder, starter, starters
from zocosmo.extras import EXTRAS, extra_of, missing

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMAND = typer.main.get_command(app)
COMMAND.list_commands(typer.Context(COMMAND))  # adds the commands of other packages
VERBS = ("run", "compare", "check", "launch", "audit")


def every_command(command=COMMAND, words=()):
    for name, below in command.commands.items():
        inner = vars(below).get("commands")
        yield from every_command(below, (*words, name)) if inner else [((*words, name), below)]


EXAMPLES = {
    " ".join(words): re.findall(r"Example: (.*)", below.help or "") for words, below in every_command()
}


def test_the_table_of_extras_is_that_of_the_project():
    declared = PROJECT["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        names = {re.split(r"[>=;\[]", line)[0] for line in declared[extra]} - {"zocosmo"}
        assert names <= {*modules, "cryptography"}  # which is in torch too, but net is the smaller one
        assert all(extra_of(module) == extra for module in modules)
    assert set(declared) - set(EXTRAS) == {"dev"}
    assert (extra_of("numpy"), extra_of(None)) == ("", "")
    assert (
        str(missing("a figure", "matplotlib"))
        == 'a figure needs matplotlib; run: pip install "zocosmo[plot]"'
    )


def setup_module_of_the_project():
    spec = importlib.util.spec_from_file_location("project_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_readme_survive_on_a_package_index():
    made = setup_module_of_the_project()
    relative = re.compile(r"\]\((?!https?://)[^)]*\)")
    assert relative.search((ROOT / "README.md").read_text(encoding="utf-8"))
    plain, linked = made.readme(""), made.readme("https://host.example/zocosmo/blob/main/")
    for text in (plain, linked):
        assert not relative.search(text)
    assert "https://host.example/zocosmo/blob/main/docs/field.md)" in linked
    assert "(docs/field.md)" not in plain
    assert (made.urls(""), list(made.urls("https://h"))) == ({}, ["Repository", "Documentation", "Changelog"])


def test_version_changelog_and_citation_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert (citation["version"], changes[0]) == (__version__, __version__)
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_install_lines_work_for_whoever_has_the_repository_or_the_wheel():
    """`pip install "zocosmo[plot]"` adds an extra to what is installed; plain packages come from an index."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("configs/*")]
    pages = [page for page in pages if page.is_file()]
    line = re.compile(r"""pip install ["']?([\w.-]*)(?:\[([\w,]+)\])?""")
    found = [(page, *each) for page in pages for each in line.findall(page.read_text("utf-8"))]
    assert len(found) > 5
    for page, name, extras in found:
        known = ("", ".", "zocosmo") if extras else (".", "zocosmo", "scikit-learn", "mpich")
        assert name in known or name.endswith(".whl"), (page, name, extras)
        assert set(filter(None, extras.split(","))) <= set(PROJECT["optional-dependencies"]), (page, extras)


def test_every_config_of_the_repository_is_an_example():
    paths = {
        path.relative_to(configs_folder()).with_suffix("").as_posix()
        for path in configs_folder().rglob("*.yaml")
    }
    assert set(starters()) == paths | {"first"}
    for each in starters().values():
        assert each.title
        assert each.verb in VERBS
        assert isinstance(yaml.safe_load(each.text), dict)
    assert starter("configs/field.yaml") == starter("field")
    assert (starter("field").verb, starter("second").verb) == ("compare", "check")
    with pytest.raises(InputError, match="Did you mean 'rosenbrock'"):
        starter("rosenbrok")


def test_example_lists_and_prints(call_main):
    code, out, err = call_main("example", "--list")
    assert (code, err) == (0, "")
    assert re.search(r"^field +zocosmo compare +The field: ", out, re.M)
    assert "zocosmo example model --list" in out
    assert "model/placement_audit" in call_main("example", "model", "--list")[1]
    assert call_main("example", "field")[1] == (ROOT / "configs" / "field.yaml").read_text(encoding="utf-8")
    assert call_main("example")[1] == call_main("example", "first")[1]
    assert "folder 'modle' is not known" in call_main("example", "modle", "--list")[2]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_every_command_is_one_line_that_parses(name):
    """All words are known to the commands they are given to; the slow test below runs them."""
    assert len(EXAMPLES[name]) == 1
    lines = [shlex.split(part.split(" >")[0]) for part in re.split(r" && |; do |; done", EXAMPLES[name][0])]
    typed = [words[1:] for words in lines if words and words[0] == "zocosmo"]
    assert any(" ".join(words).startswith(name) for words in typed)
    for words in typed:
        command, rest = COMMAND, words
        while rest and rest[0] in vars(command).get("commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        with command.make_context(command.name, list(rest)) as parsed:
            assert parsed.params is not None


# The wheel alone

NEEDS = {  # what the example of a command says in an empty environment, where it cannot do its work
    **dict.fromkeys(("finetune", "probe", "model get"), 'needs torch; run: pip install "zocosmo[llm]"'),
    **dict.fromkeys(("launch", "bench-link"), "needs torch"),
    **dict.fromkeys(("screen", "audit"), "needs"),
    **dict.fromkeys(("host", "join", "leave", "members", "key new", "key show"), 'install "zocosmo[net]"'),
    "figure": "needs matplotlib",
    "model add": "my-model.gguf does not exist",
    "model path": "zocosmo model get smollm2",
    "model remove": "zocosmo model get smollm2",
}


def build(folder, out):
    """A source archive of the files that git has, and a wheel of what the archive has."""
    (folder / "src").mkdir(parents=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    tar = subprocess.run(
        ["tar", "c", "--null", "-T", "-"], cwd=ROOT, input=listed, capture_output=True, check=True
    )
    subprocess.run(["tar", "x"], cwd=folder / "src", input=tar.stdout, check=True)
    make = "import sys, setuptools.build_meta as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"

    def made(kind, where):
        line = [sys.executable, "-c", make, kind, str(out)]
        found = subprocess.run(line, cwd=where, capture_output=True, text=True, check=True)
        return out / found.stdout.split()[-1]

    archive = made("sdist", folder / "src")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    (inner,) = (folder / "unpacked").iterdir()
    return archive, made("wheel", inner)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """An empty environment with the wheel and nothing else: its programs' folder, the archive, the wheel."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "dist").mkdir()
    archive, wheel = build(folder / "built", folder / "dist")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    subprocess.run([programs / "pip", "install", "--quiet", wheel], check=True)
    return programs, archive, wheel


def in_shell(programs, line, folder):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "ZOCOSMO_CACHE": str(folder / "cache")}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=clean, capture_output=True, text=True, timeout=900
    )


@pytest.mark.slow
def test_the_archive_has_tests_docs_and_configs_and_the_wheel_configs(alone):
    _, archive, wheel = alone
    with tarfile.open(archive) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    wanted = {"tests/test_docs.py", "docs/index.md", "docs/img/field.svg", "configs/field.yaml", "Makefile"}
    wanted |= {"CHANGELOG.md", "CITATION.cff", "examples/rigs.py", "mkdocs.yml", "tests/golden"}
    assert wanted <= inside
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    assert {f"zocosmo/configs/{name}.yaml" for name in starters() if name != "first"} <= names
    assert not any(name.startswith("tests") for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_every_command_runs_with_the_wheel_alone(alone, name, tmp_path):
    found = in_shell(alone[0], EXAMPLES[name][0], tmp_path)
    if name in NEEDS:
        last = found.stderr.splitlines()
        assert (found.returncode, len(last)) == (2, 1), found
        assert NEEDS[name] in last[0]
    else:
        assert found.returncode == 0, found


@pytest.mark.slow
def test_an_extra_is_added_to_the_wheel_by_the_line_of_the_error(alone, tmp_path):
    line = in_shell(alone[0], EXAMPLES["figure"][0], tmp_path).stderr.partition("run: ")[2]
    assert in_shell(alone[0], line, tmp_path).returncode == 0
    assert in_shell(alone[0], EXAMPLES["figure"][0], tmp_path).returncode == 0
    assert (tmp_path / "f.png").stat().st_size > 1000
