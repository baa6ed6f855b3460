"""Commands of other packages: found, listed, suggested, and harmless where they are broken."""

import os
import subprocess
import sys

import pytest

ENTRIES = """[zocosmo.commands]
hello = helloworld:hello
gone = helloworld:nothing
missing = nosuchmodule:run
payload = helloworld:hello
"""


@pytest.fixture(scope="module")
def zocosmo(tmp_path_factory):
    """`zocosmo` where a package with a good command and three bad ones is installed."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "helloworld.py").write_text(
        'def hello(name: str) -> None:\n    """Greet."""\n    print(f"hi {name}")\n'
    )
    about = folder / "helloworld-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: helloworld\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))

    def run(*words):
        line = [sys.executable, "-m", "zocosmo", *words]
        found = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        return found.returncode, found.stdout, found.stderr

    return run


def test_a_command_of_another_package_runs_and_is_listed(zocosmo):
    assert zocosmo("hello", "you") == (0, "hi you\n", "")
    code, out, err = zocosmo("--help")
    assert (code, err) == (0, "")
    assert "  hello " in out
    assert "  reproduce " in out
    assert "Cannot be loaded: ModuleNotFoundError" in out


@pytest.mark.parametrize(
    ("name", "why"),
    [("missing", "ModuleNotFoundError: No module named 'nosuchmodule'"), ("gone", "AttributeError: ")],
)
@pytest.mark.parametrize("words", [(), ("--help",), ("some", "--option", "3")])
def test_a_broken_command_is_one_line(zocosmo, name, why, words):
    code, out, err = zocosmo(name, *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"zocosmo: {name} of helloworld cannot be loaded ({why}")


def test_a_built_in_command_cannot_be_replaced(zocosmo):
    code, out, _ = zocosmo("payload", "--d", "100", "--q", "4")
    assert (code, "hi" in out) == (0, False)


def test_a_mistyped_name_is_corrected(zocosmo):
    assert zocosmo("helo") == (2, "", "zocosmo: No such command 'helo'. Did you mean 'hello'?\n")


def test_built_in_commands_load_no_other_package():
    code = "import sys, zocosmo.cli; print([m for m in sys.modules if m.startswith('zocosmo_paper')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
