import json
import os
import subprocess
import sys

import pytest

from zocosmo import Tape, draw_support


def zocosmo(*args, **environment):
    return subprocess.run(
        [sys.executable, "-m", "zocosmo", *args],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.fixture
def run(call_main):
    """The command in this process: exit code, stdout, stderr."""
    return lambda line: call_main(*line.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("support --seed 0 --d 20 --q 4 --ids 7", {"support": [3, 9, 15, 17]}),
        ("support --d 32 --q 4 --ids 3,1,2", {"support": [9, 20, 27, 31], "ids": [3, 1, 2]}),
        ("support --d 10 --q 3 --ids 3 --balanced", {"support": [6], "q": 1}),
        ("signs --q 5 --ids 3,1,2", {"signs": [1, -1, -1, 1, 1]}),
        (
            "matching --graph ring --n 6 --round 3 --schedule iid",
            {"pairs": [[0, 5], [1, 2], [3, 4]], "idle": []},
        ),
        ("matching --graph ring --n 6 --round 3 --schedule alternating", {"pairs": [[0, 5], [1, 2], [3, 4]]}),
        (
            "matching --graph complete --n 7 --schedule complete",
            {"pairs": [[0, 2], [1, 4], [5, 6]], "idle": [3]},
        ),
        (
            "matching --graph 0-1,1-2,2-3,3-4,4-5,0-5,1-4 --round 2 --schedule maximal",
            {"pairs": [[1, 2], [4, 5]]},
        ),
        ("matching --graph star --n 4 --round 1 --schedule round_robin", {"pairs": [[0, 2]], "idle": [1, 3]}),
    ],
)
def test_tape_commands_print_json(run, line, expected):
    code, out, err = run(f"tape {line}")
    assert (code, err) == (0, "")
    assert json.loads(out).items() >= expected.items()


@pytest.mark.parametrize("graph", ["erdos_renyi", "random_regular", "small_world"])
def test_random_graphs_can_be_asked_for(run, graph):
    code, out, _ = run(f"tape matching --graph {graph} --n 12 --schedule maximal")
    assert code == 0
    assert json.loads(out)["n"] == 12


def test_seeds_are_numbers_text_or_raw_keys(run):
    key = "e367d085e4017d7837c26ca89060db8be83bf26f687aa0096e664c25edf92445"
    outputs = {run(f"tape support --d 999 --q 4 --seed {seed}")[1] for seed in ("0", f"hex:{key}")}
    assert len(outputs) == 1
    assert run("tape support --d 999 --q 4 --seed zero")[1] not in outputs


def test_any_text_is_a_seed_of_its_own(run):
    """007 is not 7, a thousand digits are fine, and so are bytes that are no text."""
    outputs = [run(f"tape support --d 999 --q 4 --seed {seed}")[1] for seed in ("7", "007", "9" * 5000)]
    assert len(set(outputs)) == 3
    assert json.loads(outputs[1])["support"] == draw_support(Tape("007"), 0, d=999, q=4).index.tolist()
    assert run("tape support --d 999 --q 4 --seed \udcff")[0] == 2


def test_payload_prints_the_bill(run):
    code, out, _ = run("payload --d 6525621760 --q 8192")
    assert code == 0
    for words in (
        "262,144",
        "532,480",
        "438,432",
        "≥ 434,546.3",
        "50.8 % at 32",
        "1.10× for 10",
        "0.45 bits a round",
    ):
        assert words in out


def test_payload_as_json(run):
    report = json.loads(run("payload --d 2523136 --q 8192 --json --value f16 --reuse 4")[1])
    assert {row["codec"]: row["total"] for row in report["codecs"]}["indexed"] == 8192 * (16 + 22)
    assert report["list_reuse"] == {"4": 1 + 22 / 64}
    assert set(report["index_share"]) == {"32", "16", "8", "1"}


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_payload_draws_a_figure(run, tmp_path, suffix):
    figure = tmp_path / f"bill.{suffix}"
    assert run(f"payload --d 1000 --q 10 --figure {figure}")[0] == 0
    assert figure.stat().st_size > 1000
    assert [file.name for file in tmp_path.iterdir()] == [figure.name]


BAD = {
    "tape support --d 20 --q 0": "q = 0 coordinates of d = 20",
    "tape support --d 20 --q 21": "q = 21 coordinates of d = 20",
    "tape support --d 0 --q 1": "d = 0",
    "tape support --d 20 --q 4 --ids -1": "got -1",
    "tape support --d 20 --q 4 --ids 1,x": "'1,x'",
    "tape support --d 20 --q 4 --seed hex:00": "32",
    "tape support --d 20 --q 4 --seed hex:zz": "'hex:zz'",
    "tape support --d twenty --q 4": "--d",
    "tape support --d 20": "--q",
    "tape signs --q 0": "got 0",
    "tape signs --q 1000000000000000": "between 1 and 10000000",
    "tape support --d 9223372036854775808 --q 9223372036854775808": "between 1 and 10000000",
    "tape support --d 20 --q 4 --ids 1_0": "'1_0'",
    "tape support --d 20 --q 4 --ids 99999999999999999999": "from 0 to 2^64 − 1",
    "tape matching --graph path --n 99999999999999999999 --schedule maximal": "between 1 and 2000",
    "tape matching --graph 0-999999999 --schedule maximal": "not connected",
    "tape matching --graph 0-1 --n -5 --schedule maximal": "got -5",
    "payload --d 10 --q 1 --figure /proc/x.svg": "cannot be written",
    "tape matching --graph ring --n 7 --schedule alternating": "even number of nodes",
    "tape matching --graph ring --n 7 --schedule iid": "even number of nodes",
    "tape matching --graph ring --n 6 --schedule complete": "complete graph",
    "tape matching --graph 0-1,2-3 --schedule maximal": "not connected",
    "tape matching --graph 0-1,2 --schedule maximal": "'0-1,2'",
    "tape matching --graph web --n 4 --schedule maximal": "choose from ring",
    "tape matching --graph ring --n 6 --schedule often": "choose from alternating",
    "tape matching --graph ring --schedule maximal": "needs --n",
    "tape matching --graph ring --n 6 --schedule maximal --round -1": "got -1",
    "payload --d 10 --q 11": "q = 11",
    "payload --d 10 --q 1 --value f8": "choose from f64",
    "payload --d 10 --q 1 --reuse 0": "1 or more",
    "payload --d 10 --q 1 --rounds 0": "1 or more",
    "payload --d 10 --q 1 --figure bill.gif": "'bill.gif'",
    "payload --d 10 --q 1 --figure nowhere/bill.png": "nowhere does not exist",
    "paylod --d 10 --q 1": "paylod",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_line_and_exit_code_2(run, line):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("zocosmo: ")
    assert err.count("\n") == 1
    assert BAD[line] in err


@pytest.mark.parametrize(
    "args", [[], ["tape"], ["--help"], ["tape", "matching", "--help"], ["payload", "--help"]]
)
def test_help_is_printed_and_is_no_error(args):
    result = zocosmo(*args)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Usage: zocosmo" in result.stdout or "Usage: python -m zocosmo" in result.stdout


@pytest.mark.parametrize("command", ["tape support", "tape signs", "tape matching", "payload"])
def test_the_example_in_each_help_can_be_pasted(command):
    text = zocosmo(*command.split(), "--help", COLUMNS="200").stdout
    (example,) = [line.split("Example: zocosmo ")[1] for line in text.splitlines() if "Example: " in line]
    assert example.startswith(command)
    assert zocosmo(*example.split()).returncode == 0


def test_the_version_is_the_package_s(run):
    assert run("--version") == (0, "zocosmo 0.2.0\n", "")


def test_the_bill_fits_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setattr("zocosmo.cli.common.WIDTH", 80)
    out = run("payload --d 2523136 --q 8192")[1]
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m zocosmo tape support --d 1000000 --q 200000 | head -c 10"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ('{"d": 1000', "")


def test_a_full_disk_and_a_poor_terminal_are_no_tracebacks():
    command = [sys.executable, "-m", "zocosmo", "payload", "--d", "20", "--q", "2"]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (2, "zocosmo: [Errno 28] No space left on device\n")
    assert zocosmo("payload", "--d", "20", "--q", "2", PYTHONIOENCODING="ascii").returncode == 0
