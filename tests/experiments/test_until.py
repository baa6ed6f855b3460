import pytest
from pandas.testing import assert_frame_equal

from zocosmo.dist.study import Options, Study
from zocosmo.errors import ConfigError, InputError
from zocosmo.experiments import run as runner
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan

TEXT = """\
problem: {kind: quadratic, d: 8}
graphs: [{kind: ring, n: 4}]
methods:
  - {kind: cosmo, q: 2, eta: [0.01, 0.02], mu: 0.1, codec: [values, indexed]}
  - {kind: feedsign, eta: 0.01, mu: 0.1}
seeds: [1, 2]
rounds: 40
log_every: 2
"""
UNTIL = "until: {bits: 1_950, queries: 20, most: 60}\n"


def plan(text=TEXT + UNTIL):
    return read_plan(Config(text, "here.yaml"), "here")


def ends(rows):
    return {method: set(part.groupby("trial")["round"].max()) for method, part in rows.groupby("method")}


def test_a_run_ends_at_the_first_checkpoint_that_has_spent_and_asked_enough_or_asked_the_most():
    """128 bits a round, or 140 with indices; feedsign spends 2, and has asked 60 queries after 30 rounds."""
    found = ends(run_plan(plan()).rows)
    assert {k: v for k, v in found.items() if "values" in k or "indexed" not in k} == {
        "cosmo eta=0.01": {16}, "cosmo eta=0.02": {16}, "feedsign": {30}
    }  # fmt: skip
    assert {k: v for k, v in found.items() if "indexed" in k} == {
        "cosmo eta=0.01 indexed": {14}, "cosmo eta=0.02 indexed": {14}
    }  # fmt: skip


def test_bits_alone_do_not_end_a_run_that_has_asked_too_little():
    found = ends(run_plan(plan(TEXT + "until: {bits: 1, queries: 20}\n")).rows)
    assert set.union(*found.values()) == {10}


def test_rows_are_those_of_a_run_that_goes_on():
    short, long = run_plan(plan()).rows, run_plan(plan(TEXT)).rows
    kept = long.merge(short[["trial", "round"]], on=["trial", "round"])
    assert_frame_equal(short, kept, check_exact=True)


def test_the_log_does_not_depend_on_batches(monkeypatch):
    together = run_plan(plan()).rows
    monkeypatch.setattr(runner, "BATCH_VALUES", 1)
    assert_frame_equal(together, run_plan(plan()).rows, check_exact=True)


def test_a_stopped_study_goes_on_to_the_same_log(tmp_path, monkeypatch):
    """A snapshot after each round; the third checkpoint after one run of the batch is over stops it."""
    monkeypatch.setattr(runner, "SNAPSHOT_EVERY", 0.0)
    seen = []

    def stop(sim, now):
        seen.append(now.round)
        if now.round == 14 and len(seen) < 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(plan(), tmp_path, watch=stop)
    seen += [0] * 20
    rows = run_plan(plan(), tmp_path, resume=True, watch=stop).rows
    assert_frame_equal(rows, run_plan(plan()).rows, check_exact=True)


def test_a_log_without_it_keeps_its_fingerprint():
    assert "until" not in plan(TEXT).config
    assert plan().config["until"] == {"bits": 1950, "queries": 20, "most": 60}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{bits: 0}", "until.bits must be 1 or more, got 0"),
        ("{queries: 3}", "until lacks 'bits'"),
        ("{bits: 5, queries: 9, most: 8}", "until.most = 8 is below until.queries = 9; raise it"),
        ("{bit: 5}", "unknown key 'bit' in until, did you mean 'bits'?"),
    ],
)
def test_mistakes_have_their_line(given, said):
    with pytest.raises(ConfigError) as error:
        plan(f"{TEXT}until: {given}\n")
    assert str(error.value).startswith("here.yaml:9: ")
    assert said in str(error.value)


def test_last_states_and_processes_refuse_it(tmp_path):
    with pytest.raises(InputError, match="leave one out"):
        run_plan(plan(), tmp_path, states=True)
    with pytest.raises(InputError, match="until is for the simulator"):
        Study(plan(), None, tmp_path, Options(), lambda progress: None)
