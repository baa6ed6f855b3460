import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.blackbox.commands import Command
from zocosmo.errors import OracleError

X = np.arange(12.0).reshape(4, 3)
SUM = """python3 -c "import sys; print('hello'); print(sum(map(float, sys.argv[1].split(','))))" {x}"""


def python(code):
    """A template for a line of Python; `code` must not hold double quotes."""
    return f'python3 -c "import sys, time; {code}" {{x}}'


def test_a_command_prints_its_loss_on_the_last_line():
    assert Command(SUM, 4, workers=2)(X, 0).tolist() == [3.0, 12.0, 21.0, 30.0]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4))
def test_values_reach_a_command_exactly(values):
    """What is printed is put together as the command would be, without starting one for each example."""
    seen = []

    class Recorder(Command):
        def _run(self, words, query, folder):
            seen.append((words, Path(words[2]).read_text()))
            return "1"

    Recorder("rig {x} {file} {node}-{round} {other}", 1)(np.array([values]), 8)
    (words, text) = seen[0]
    assert [float(word) for word in words[1].split(",")] == [float(line) for line in text.split()] == values
    assert words[3:] == ["0-8", "{other}"]


def test_a_command_reads_a_file_when_x_is_too_long():
    long = np.ones((1, 100_000)) / 3
    assert Command("awk '{n += 1} END {print n}' {file}", 1)(long, 0).tolist() == [100_000.0]
    with pytest.raises(OracleError, match=r"x is too long for a command line; use \{file\}"):
        Command("echo {x}", 1)(long, 0)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (python("sys.exit('bad\\ngain')"), "the program ended with exit code 1: gain; make it end"),
        (
            python("import os; os.kill(os.getpid(), 9)"),
            "the program was ended by signal 9: nothing on stderr",
        ),
        (python("print('volts')"), "the program's last line is 'volts', not a number; print the loss"),
        (python("pass"), "the program printed nothing; print the loss on the last line"),
        (python("print('nan')"), "the loss is nan;"),
        ("./no-such-rig {x}", "'./no-such-rig' cannot be started: No such file or directory; check"),
        ("/ {x}", "'/' cannot be started: Permission denied"),
    ],
)
def test_a_command_that_fails_says_how(template, words):
    with pytest.raises(OracleError) as caught:
        Command(template, 1)(X[:1], 2)
    assert str(caught.value).startswith(f"node 0, round 2, query x + μu: {words}")
    assert "\n" not in str(caught.value)


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path):
    """The child would write after 1 s; nobody is left to do so."""
    mark = tmp_path / "alive"
    oracle = Command(f"sh -c 'sh -c \"sleep 1; touch {mark}\" & wait' {{x}}", 1, timeout=0.2)
    with pytest.raises(OracleError, match=r"did not end within 0.2 s and was killed"):
        oracle(X[:1], 0)
    time.sleep(1.3)
    assert not mark.exists()


def test_a_child_that_holds_stdout_open_is_not_waited_for(tmp_path):
    began = time.monotonic()
    oracle = Command("sh -c 'sleep 20 & echo 3.5' {x}", 1)
    assert oracle(X[:1], 0).tolist() == [3.5]
    assert time.monotonic() - began < 10


def test_only_what_the_template_uses_is_made():
    seen = []

    class Recorder(Command):
        def _run(self, words, query, folder):
            seen.append((words, sorted(path.name for path in folder.iterdir())))
            return "1"

    Recorder("rig {x}", 1)(X[:1], 0)
    Recorder("rig {file}", 1)(X[:1], 0)
    assert seen[0] == (["rig", "0.0,1.0,2.0"], [])
    assert seen[1][1] == ["x.txt"]


INTERRUPTED = """
import sys, numpy as np
from zocosmo.blackbox.commands import Command
oracle = Command("sh -c 'echo $$ >> pids; sleep 30' {x}", 4, workers=int(sys.argv[1]))
try:
    oracle(np.zeros((4, 2)), 0)
except KeyboardInterrupt:
    print("interrupted")
"""


def gone(pid):
    """Whether a process has ended; one that nobody waits for is a zombie."""
    try:
        os.kill(pid, 0)
        return Path("/proc").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


@pytest.mark.parametrize("workers", [1, 4])
def test_an_interrupt_ends_at_once_and_kills_what_runs(tmp_path, workers):
    """Programs sleep for 30 s; whoever waits for one of them would miss the limit of 10 s."""
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(workers)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    pids, until = tmp_path / "pids", time.monotonic() + 20
    while time.monotonic() < until and (not pids.exists() or len(pids.read_text().split()) < workers):
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=10)
    assert out == "interrupted\n"
    until = time.monotonic() + 5  # a killed process still has to be scheduled once
    while not all(gone(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_failing_node_ends_the_programs_of_others():
    """Node 0 fails at once; the others would sleep for 20 s."""
    oracle = Command("sh -c 'test {node} != 0 && sleep 20' {x}", 4, workers=4)
    timer = threading.Timer(10, oracle._abandon)
    timer.start()
    with pytest.raises(OracleError, match="node 0"):
        oracle(X, 0)
    assert timer.is_alive()
    timer.cancel()
