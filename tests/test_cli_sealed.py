"""Seeds of sealed jobs: not on a command line, not in a file that others can read, not to be guessed."""

import hashlib
import re
import sys

import pytest

from zocosmo import cli
from zocosmo.core import Tape
from zocosmo.errors import InputError

pytest.importorskip("torch")

from zocosmo.cli.options import ProcessOptions, read_seeds
from zocosmo.dist import launch as launching
from zocosmo.dist.seal import make_key

SMALL = """\
problem: {kind: quadratic, d: 8}
graphs: [{kind: ring, n: 3}]
methods: [{kind: cosmo, q: 2, eta: 0.01, mu: 0.001}]
seeds: [314159]
rounds: 4
"""


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """The command in this process, which starts nothing; exit code, stderr, and the line of a child."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "small.yaml").chmod(0o644)
    (tmp_path / "seeds").write_text("271828\nsome text\n")
    (tmp_path / "seeds").chmod(0o600)
    make_key(tmp_path / "key")
    started = []
    monkeypatch.setattr(launching, "launch", lambda line, world, **_: started.append(line) or 0)

    def call(*line):
        monkeypatch.setattr(sys, "argv", ["zocosmo", "launch", *line])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, capfd.readouterr().err, started

    return call


@pytest.mark.parametrize("given", [["--seeds", "314159"], ["--set", "seeds=[314159]"]])
def test_seeds_of_a_sealed_job_are_refused_on_a_command_line(run, given, tmp_path):
    (tmp_path / "small.yaml").chmod(0o600)
    code, err, started = run("small.yaml", "--key-file", "key", *given)
    assert (code, started, err.count("\n")) == (2, [], 1)
    assert "others can read a command line; put them into a file of mode 600, and give --seeds-file" in err
    assert "314159" not in err


def test_a_config_with_the_seeds_of_a_sealed_job_must_be_closed_to_others(run, tmp_path):
    code, err, started = run("small.yaml", "--key-file", "key")
    assert (code, started, err.count("\n")) == (2, [], 1)
    assert "others can read it; chmod 600 small.yaml, or give --seeds-file FILE" in err
    (tmp_path / "small.yaml").chmod(0o600)
    assert run("small.yaml", "--key-file", "key")[0] == 0


def test_seeds_from_a_file_are_in_no_command_line(run):
    code, err, started = run("small.yaml", "--key-file", "key", "--seeds-file", "seeds")
    assert (code, err) == (0, "")
    assert "--seeds-file" in started[0]
    assert not [word for word in started[0] if re.search("271828|some text|314159", word)]


def test_an_open_job_may_have_its_seeds_anywhere(run):
    assert run("small.yaml", "--seeds", "1-3")[0] == 0


def test_a_file_of_seeds_is_read_in_place_of_the_configs(tmp_path, run):
    options = ProcessOptions(tmp_path / "small.yaml", seeds_file=tmp_path / "seeds")
    assert options.plan().config["seeds"] == [271828, "some text"]


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("1\n", 0o644, "can be read by others; chmod 600"),
        (" \n", 0o600, "is empty"),
        (None, 0, "cannot be read"),
    ],
)
def test_a_file_of_seeds_that_cannot_be_used_is_refused(tmp_path, text, mode, why):
    path = tmp_path / "seeds"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(InputError, match=why):
        read_seeds(path)


def test_a_salted_commitment_is_scrypt_of_the_key():
    salt, key = bytes(range(32)), Tape(7).keys.tobytes()
    expected = hashlib.scrypt(key, salt=salt, n=16384, r=8, p=1, dklen=32).hex()
    assert Tape(7).commitment(salt) == expected
    assert len({Tape(7).commitment(salt), Tape(7).commitment(bytes(32)), Tape(7).commitment()}) == 3
    assert Tape(8).commitment(salt) != expected
