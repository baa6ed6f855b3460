"""`codec: all`: one run, and a bill for every way to charge it."""

import pytest

from zocosmo.core.price import PRICES
from zocosmo.core.values import F32
from zocosmo.errors import ConfigError
from zocosmo.experiments import run as running
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import make_batches, run_plan
from zocosmo.methods import METHODS
from zocosmo.sim.engine import Simulation

STUDY = """\
problem: {kind: quadratic, d: 40, zeta: 1.0}
graphs: [{kind: complete, n: 4}]
methods:
  - {kind: KIND, q: 3, eta: 0.001, mu: 0.001, codec: all}
seeds: [1, 2]
rounds: 10
"""
ONE_SIZE = ["cosmo", "edge_local", "rand_k", "com_dszo", "choco"]  # of message: all pairs meet in edge_local


def plan(kind, text=STUDY):
    return read_plan(Config(text.replace("KIND", kind), "study.yaml"), "study")


@pytest.mark.parametrize("kind", ONE_SIZE)
def test_every_codec_of_a_method_is_a_trial_and_all_are_one_trajectory(kind, monkeypatch):
    simulated = []

    class Counting(Simulation):
        def __init__(self, runs, **options):
            simulated.append(len(runs))
            super().__init__(runs, **options)

    monkeypatch.setattr(running, "Simulation", Counting)
    trials = plan(kind).trials
    assert sorted({trial.method.codec for trial in trials}) == sorted(trials[0].method.codecs)
    rows = run_plan(plan(kind)).rows
    assert simulated == [2]  # runs: one for each seed
    assert (rows.groupby(["seed", "round"])["objective"].nunique() == 1).all()


@pytest.mark.parametrize("kind", ONE_SIZE)
def test_every_bill_is_a_price_times_the_messages(kind):
    study = plan(kind)
    rows = run_plan(study).rows
    last = rows[rows["round"] == 10].set_index("trial")
    messages = 10 * (4 if kind == "edge_local" else 12)
    for trial in study.trials:
        price = PRICES[trial.method.codec](40, 3, F32).times(messages)
        paid = last.loc[trial.number]
        assert (paid["value_bits"], paid["index_bits"]) == (price.values, price.indices)


def test_the_two_ways_of_a_server_are_charged_by_each_trials_codec():
    """marina refreshes in round 0 at least, and what goes up and down is all there is."""
    rows = run_plan(plan("marina")).rows
    assert (rows["up_bits"] + rows["down_bits"] == rows["bits"] * rows["n"]).all()
    last = rows[(rows["round"] == 10) & (rows["seed"] == "1")]
    assert last["up_bits"].nunique() == len(last) == 5


def test_names_tell_the_codecs_apart():
    names = [trial.labels[2] for trial in plan("cosmo").trials[::2]]
    assert names == ["cosmo", "cosmo indexed", "cosmo plain", "cosmo delta", "cosmo entropy"]


def test_what_a_compressor_can_be_charged_under_is_its_own():
    text = STUDY.replace("codec: all", "compressor: [rand_k, sign], codec: all")
    codecs = [trial.method.codec for trial in plan("choco", text).trials[::2]]
    assert codecs == ["values", "indexed", "plain", "delta", "entropy", "scaled_signs"]


def test_all_beside_one_of_them_is_one_too_many():
    text = STUDY.replace("codec: all", "codec: [all, delta]")
    with pytest.raises(ConfigError, match=r"study\.yaml:4: two entries are called 'cosmo delta'"):
        plan("cosmo", text)


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_has_a_price_for_every_codec_it_names(kind):
    assert set(METHODS[kind].codecs) <= set(PRICES)
    assert len(set(METHODS[kind].codecs)) == len(METHODS[kind].codecs)


def test_batches_hold_all_codecs_of_a_run():
    assert [len(batch) for batch in make_batches(plan("cosmo"))] == [10]
