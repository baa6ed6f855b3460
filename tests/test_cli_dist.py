"""zocosmo launch, diff, bench-link."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zocosmo import cli
from zocosmo.cli import options
from zocosmo.experiments.states import read_states

torch = pytest.importorskip("torch")

from zocosmo.cli import rank as child  # noqa: E402
from zocosmo.dist import launch as launching  # noqa: E402
from zocosmo.dist import rendezvous  # noqa: E402

SMALL = """\
problem: {kind: quadratic, d: 8}
graphs: [{kind: ring, n: 4}, {kind: ring, n: 3}]
methods: [{kind: cosmo, q: 2, eta: 0.01, mu: 0.001}]
seeds: [1]
rounds: 20
"""


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """The command in this process, in an empty folder: exit code, stdout, stderr; children included."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "server.yaml").write_text(SMALL.replace("cosmo, q: 2", "feedsign"))

    def call(*line):
        monkeypatch.setattr(sys, "argv", ["zocosmo", *line])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, *capfd.readouterr()

    return call


@pytest.fixture
def started(monkeypatch):
    """Calls of `launch`, which starts nothing and gives the code that was put in."""
    calls = {"code": 0}

    def pretend(line, world, *, restarts=0):
        calls.update(line=line, world=world, restarts=restarts)
        return calls["code"]

    monkeypatch.setattr(launching, "launch", pretend)
    return calls


def options_of(command):
    return {p.name: (p.opts, p.secondary_opts, p.default) for p in command.params if p.name != "help"}


def command(app, name=None):
    import typer

    found = typer.main.get_command(app)
    return found if name is None else found.commands[name]


def test_help_does_not_import_torch():
    code = "import sys; from zocosmo.cli import app; app(['launch', '--help'], standalone_mode=False)"
    check = f"{code}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, timeout=60).returncode == 0


# launch


def test_launch_has_every_option_of_the_processes_it_starts():
    theirs, ours = options_of(command(child.app)), options_of(command(cli.app, "launch"))
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) == {"nodes", "restarts"}
    assert options.JOIN == rendezvous.JOIN


def test_a_launched_study_is_the_simulated_one_to_the_bit(run):
    run("run", "small.yaml", "--states", "--out", "a")
    code, out, err = run("launch", "small.yaml", "--nodes", "2", "--out", "b")
    assert (code, out) == (0, "b/log.parquet: 2 trials, 0 diverged, 6 rows\n")
    assert err == (
        "zocosmo: wire nominal_f32: values cross in the type of the states (float64) "
        "and are charged at 32 bits\n"
    )
    assert run("diff", "a", "b") == (0, "identical: 2 trials, 6 rows, states of 2 trials\n", "")


def test_options_are_handed_on_as_they_were_given(run, started):
    given = ["--seeds", "1-3", "--no-states", "--csv", "--deadline", "2.5", "--checkpoint-every", "5"]
    assert run("launch", "small.yaml", *given, "--nodes", "2", "--restarts", "3")[0] == 0
    head, handed = started["line"][:3], started["line"][3:]
    assert head == [sys.executable, "-m", "zocosmo.dist"]
    assert sorted(handed) == sorted(["small.yaml", *given])
    assert (started["world"], started["restarts"]) == (2, 3)


def test_without_a_number_there_is_a_process_for_each_node_of_the_smallest_graph(run, started):
    run("launch", "small.yaml")
    assert started["world"] == 3


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["nowhere.yaml"], "nowhere.yaml: there is no such file"),
        (["small.yaml", "--nodes", "4"], "4 processes for 3 nodes"),
        (["small.yaml", "--nodes", "0"], "--nodes must be 1 or more, got 0"),
        (["small.yaml", "--key-file", "nokey"], "key file nokey cannot be read"),
        (["small.yaml", "--backend", "smoke"], "backend 'smoke' is not known"),
        (["small.yaml", "--deadline", "0"], "a deadline must be a number of seconds above 0, got 0"),
        (["small.yaml", "--listen", "203.0.113.7"], "'203.0.113.7' is not an address of this machine"),
        (["server.yaml"], "feedsign needs a server and processes are peers"),
        (["small.yaml", "--out", "other"], "other holds a study of another plan"),
    ],
)
def test_mistakes_are_refused_before_any_process_starts(run, started, line, says):
    run("run", "small.yaml", "--seeds", "9", "--out", "other")
    code, out, err = run("launch", *line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"zocosmo: {says}")
    assert "line" not in started


def test_a_finished_study_starts_no_process(run, started):
    run("run", "small.yaml", "--out", "a")
    assert run("launch", "small.yaml", "--out", "a") == (
        0,
        "a/log.parquet: 2 trials, 0 diverged, 6 rows\n",
        "",
    )
    assert "line" not in started


def test_after_a_failure_the_hint_can_be_pasted(run, started, tmp_path):
    (tmp_path / "a b").mkdir()
    started["code"] = 5
    code, out, err = run("launch", "small.yaml", "--out", "a b", "--replace", "--csv")
    assert (code, out, err) == (5, "", "")  # nothing was begun
    (tmp_path / "a b" / "plan.json").write_text("{}")
    assert run("launch", "small.yaml", "--out", "a b", "--replace", "--csv")[2] == (
        "zocosmo: finished work is kept. "
        "Continue with: zocosmo launch small.yaml --out 'a b' --csv --nodes 3 --resume\n"
    )


LONG = SMALL.replace("rounds: 20", "rounds: 200000")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_processes_and_the_study_can_go_on(tmp_path, number, code):
    (tmp_path / "long.yaml").write_text(LONG)
    line = [sys.executable, "-m", "zocosmo", "launch", "long.yaml", "--nodes", "2", "--out", "a"]
    launched = subprocess.Popen(
        line, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("a/ranks/*/*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    launched.send_signal(number)
    _, err = launched.communicate(timeout=60)
    assert launched.returncode == code
    assert "Continue with: zocosmo launch long.yaml --out a --nodes 2 --resume\n" in err
    assert not running_in(tmp_path)


def heed_interrupts():
    """Tests that run in the background may have been told not to."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def running_in(folder):
    """Processes whose working folder this is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += [process.name] * ((process / "cwd").readlink() == folder)
    return found


# run --states


def test_states_are_the_same_however_a_study_is_run(run, tmp_path):
    run("run", "small.yaml", "--states", "--out", "a")
    run("run", "small.yaml", "--states", "--out", "b", "--processes", "2")
    assert (tmp_path / "a/states.npz").read_bytes() == (tmp_path / "b/states.npz").read_bytes()
    shapes = {name: x.shape for name, x in read_states(tmp_path / "a/states.npz").items()}
    assert shapes == {"trial-0": (4, 8), "trial-1": (3, 8)}


def test_batches_that_were_done_without_states_are_run_again(run, tmp_path, monkeypatch):
    from zocosmo.experiments import run as running

    with monkeypatch.context() as patch:
        patch.setattr(running, "make_frame", None)  # all batches are done, and then it ends
        with pytest.raises(TypeError):
            run("run", "small.yaml", "--out", "a")
    assert run("run", "small.yaml", "--out", "a", "--states", "--resume")[0] == 0
    run("run", "small.yaml", "--out", "b", "--states")
    assert run("diff", "a", "b")[1] == "identical: 2 trials, 6 rows, states of 2 trials\n"


def test_a_log_without_states_does_not_pass_for_one_with_them(run):
    run("run", "small.yaml", "--out", "a")
    code, _, err = run("run", "small.yaml", "--out", "a", "--states")
    assert (code, err) == (
        2,
        "zocosmo: a holds a log without states.npz; start anew with --replace --states\n",
    )


def test_states_of_an_older_study_do_not_stay(run, tmp_path):
    run("run", "small.yaml", "--out", "a", "--states")
    run("run", "small.yaml", "--out", "a", "--replace", "--seeds", "2")
    assert not (tmp_path / "a/states.npz").exists()


# diff


def test_runs_that_differ_end_with_code_1(run):
    for seed in "12":
        run("run", "small.yaml", "--out", seed, "--seeds", seed, "--states")
    code, out, err = run("diff", "1/log.parquet", "2", "--ignore", "seed")
    assert (code, err) == (1, "")
    assert "log differs first at trial 0, round 10, objective: " in out
    assert "states differ first at trial 0, node 0, coordinate 0: " in out
    assert json.loads(run("diff", "1", "2", "--json")[1])["log"]["first"]["column"] == "seed"


@pytest.mark.parametrize("name", ["log.parquet", "states.npz"])
def test_what_cannot_be_read_ends_with_code_2(run, tmp_path, name):
    run("run", "small.yaml", "--out", "a", "--states")
    (tmp_path / "a" / name).write_bytes(b"PK\x03\x04 nothing")
    code, out, err = run("diff", "a", "a")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"a/{name}" in err


def test_a_text_log_is_identical_to_its_parquet(run):
    run("run", "small.yaml", "--out", "a")
    run("run", "small.yaml", "--out", "b", "--csv")
    assert run("diff", "a", "b/log.csv")[:2] == (0, "identical: 2 trials, 6 rows\n")


# bench-link


def test_bench_link_prints_a_table_or_json(run):
    short = "--trials", "1", "--repeats", "1"
    code, out, err = run("bench-link", *short)
    assert (code, err) == (0, "")
    assert "the same, sealed" in out
    assert len(json.loads(run("bench-link", *short, "--json")[1])["rows"]) == 12


def test_bench_link_without_pyzmq_leaves_members_out(run, monkeypatch):
    monkeypatch.setattr("zocosmo.cli.dist.find_spec", lambda name: None)
    code, out, _ = run("bench-link", "--trials", "1", "--repeats", "1", "--json")
    names = [row["name"] for row in json.loads(out)["rows"]]
    assert (code, len(names), "members" in names) == (0, 11, False)
