"""The probe: rounding is measured rightly, and what it proposes follows from what it measured."""

import copy
import itertools
import json
import math

import numpy as np
import pytest

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from llm.tiny import tiny_folder  # noqa: E402
from zocosmo.errors import InputError, OracleError  # noqa: E402
from zocosmo.experiments.plan import load_plan  # noqa: E402
from zocosmo.llm.backbone import Backbone  # noqa: E402
from zocosmo.llm.models import load_model  # noqa: E402
from zocosmo.llm.pilot import applied  # noqa: E402
from zocosmo.llm.probe import (  # noqa: E402
    Probe,
    analytic_eta,
    named_graph,
    probe,
    recommend,
    setting_of,
    size_for,
    suggest,
    suggest_for,
)
from zocosmo.llm.probe_config import checkpoint_every  # noqa: E402
from zocosmo.llm.probe_report import as_report  # noqa: E402
from zocosmo.llm.subject import Subject  # noqa: E402
from zocosmo.llm.survey import Level, Survey, pick_level, read_levels  # noqa: E402

TINY = {"device": "cpu", "threads": 1, "rank": 2, "train_rows": 120, "max_tokens": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return tiny_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def subjects(folder):
    return {
        dtype: Subject(setting_of(model=str(folder), dtype=dtype, **TINY))
        for dtype in ("float32", "bfloat16")
    }


@pytest.fixture(scope="module")
def found(subjects):
    return {dtype: probe(subject) for dtype, subject in subjects.items()}


def exact(subject):
    """The same subject, computed in float64 with the same weights."""
    twin = copy.copy(subject)
    model = load_model(subject.model, dtype=subject.setting.dtype, device="cpu").double()
    twin.__dict__["backbone"] = Backbone(model, subject.layout, subject.words)
    return twin


class Exact(Survey):
    """Asks in float64 at the very points that the other asks at."""

    def ask(self, adapters, sample):
        return super().ask(adapters.double(), sample)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_is_what_float64_says_it_is(subjects, found, dtype):
    """Of 64 differences the deviation is known to 1/√128 = 9 %, that of the probe's 16 spreads to 18 %; it
    is the largest of several, and rounding itself varies with μ by a few tenths: within a factor of 2."""
    subject = subjects[dtype]
    q = found[dtype].q
    rough, fine = (
        kind(each, q, 64, 1).sides(1e-3) for kind, each in ((Survey, subject), (Exact, exact(subject)))
    )
    error = np.diff(rough - fine, axis=1).std() / math.sqrt(2)
    assert error / 2 < found[dtype].noise < 2 * error


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_noise_is_the_largest_of_its_sources(found, dtype):
    one = found[dtype]
    assert one.noise == max(sigma for _, sigma in one.sources) > 0
    assert [name for name, _ in one.sources] == ["reordered", "padded", "nudged"]


def test_float32_is_fine_at_the_smallest_mu_and_bfloat16_is_not(found):
    assert suggest(found["float32"]).mu == 1e-3
    assert found["bfloat16"].levels[0].snr < 20 < found["float32"].levels[0].snr
    assert suggest(found["bfloat16"]).mu > 1e-3


def test_bfloat16_is_hopeless_where_mu_must_be_small(subjects, found):
    wanted = probe(subjects["bfloat16"], mus=(1e-3, 3e-3))
    assert suggest(wanted).hopeless
    assert wanted.levels[0][:4] == found["bfloat16"].levels[0][:4]  # noise does not hang on the mus asked for
    assert not suggest(probe(subjects["float32"], mus=(1e-3, 3e-3))).hopeless


def test_slopes_do_not_depend_on_the_dtype_where_they_clear_its_noise(found):
    """At μ = 0.03, 60 times above rounding: 2 % of noise in each of 16 slopes."""
    exact, rough = (found[dtype].levels[3].slope for dtype in ("float32", "bfloat16"))
    assert rough == pytest.approx(exact, rel=0.05)


def test_a_probe_is_repeatable_to_the_bit(found, folder):
    again = Subject(setting_of(model=str(folder), **TINY))
    assert probe(again) == found["float32"]
    assert probe(again, seed=1) != found["float32"]


def test_only_training_examples_are_read(folder, tmp_path):
    rows = [{"sentence": f"a {word} film {k}", "label": k % 2} for k in range(20) for word in ("good", "bad")]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    setting = setting_of(model=str(folder), task="sst2", data=str(tmp_path), **TINY)
    chosen = suggest_for(setting, nodes=2, graph="path", planned=9, rounds=1, beta=0.9, coupling="G")
    assert chosen.pilots
    with pytest.raises(InputError, match=r"validation\.jsonl"):
        _ = Subject(setting).validation


def test_a_loss_that_is_no_number_is_said_at_once(subjects, monkeypatch):
    monkeypatch.setattr(Survey, "ask", lambda self, adapters, sample: np.full(sample.shape, np.nan))
    with pytest.raises(OracleError, match="the loss is nan at the start, in float32"):
        probe(subjects["float32"])


def test_methods_without_q_are_probed_along_all_coordinates():
    assert [size_for(name, None, 800) for name in ("edge_local", "dense")] == [100, 800]
    assert size_for("cosmo", 7, 800) == 7


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: setting_of(ranc=3), "problem key 'ranc' is not known"),
        (lambda: size_for("sgd", None, 8), "method 'sgd' is not known"),
        (lambda: size_for("cosmo", 9, 8), "q must be between 1 and 8"),
        (lambda: named_graph("erdos_renyi", 4), "build it and pass the Graph"),
    ],
)
def test_mistakes_are_one_line(call, text):
    with pytest.raises(InputError, match=text):
        call()


# What an H200 said about SmolLM2 on SST-2: d = 460,800, q = 8192, batches of 4; slopes by μ.
STRAIGHT = (0.097, 0.097, 0.097, 0.097, 0.097, 0.09)
TF32 = (0.22, 0.13, 0.1, 0.0972, 0.097, 0.09)
BF16 = (4.66, 1.6, 0.5, 0.22, 0.122, 0.11)
MUS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)


def measured(dtype, noise, slopes, **changes):
    """A probe with these numbers; slopes differ from those at the next μ by what their sizes say."""
    apart = [abs(a - b) / b for a, b in itertools.pairwise(slopes)] + [math.nan]
    levels = [
        Level(mu, 2 * mu * s, s, 2 * mu * s / (math.sqrt(2) * noise), off, 0.1, 1.1)
        for mu, s, off in zip(MUS, slopes, apart, strict=True)
    ]
    share = 0.043**2 / (0.043**2 + 0.3**2 / 4)
    known = {"d": 460_800, "q": 8192, "batch": 4, "loss": 0.7, "sources": (), "slope": 0.043, "spread": 0.3}
    rest = {
        "share": share,
        "curvature": 0.1,
        "bend": 1.1,
        "dtype": dtype,
        "noise": noise,
        "levels": tuple(levels),
    }
    return Probe(**{**known, **rest, **changes})


@pytest.mark.parametrize(
    ("dtype", "noise", "slopes", "mu"), [("float32", 9e-7, STRAIGHT, 1e-3), ("tf32", 2.5e-4, TF32, 0.1)]
)
def test_mu_on_an_h200(dtype, noise, slopes, mu):
    """tf32 is right at 0.03, but only 16 times above its rounding."""
    chosen = suggest(measured(dtype, noise, slopes))
    assert (chosen.mu, chosen.dtype, chosen.noise, chosen.hopeless) == (mu, dtype, noise, False)


def test_bfloat16_on_an_h200_is_hopeless_and_says_what_is_not():
    chosen = suggest(measured("bfloat16", 9e-3 / math.sqrt(2), BF16))
    assert chosen.hopeless
    assert "hopeless in bfloat16: even at mu = 0.1" in " ".join(chosen.why)
    assert "float32" in " ".join(chosen.why)


def test_the_first_step_on_an_h200():
    """½ · 8192/460800 · 0.0759/0.11, near the 5e-3 that trained well there."""
    assert analytic_eta(measured("float32", 9e-7, STRAIGHT)) == 0.00614
    assert analytic_eta(measured("float32", 9e-7, STRAIGHT, curvature=0.22)) == 0.00307
    assert analytic_eta(measured("float32", 9e-7, STRAIGHT, curvature=-0.1, bend=0.0)) == 0.00889


def test_a_mu_whose_slopes_bend_is_passed_over():
    levels = measured("float32", 9e-7, (0.097, 0.12, 0.14, 0.141, 0.141, 0.1)).levels
    assert pick_level(levels).mu == 1e-2
    assert pick_level([level._replace(apart=0.2) for level in levels]) is None


def test_the_largest_mu_is_never_chosen():
    levels = measured("tf32", 2.5e-4, STRAIGHT).levels
    assert pick_level([level._replace(snr=0.0, apart=0.0) for level in levels[:-1]] + [levels[-1]]) is None


def test_where_all_slopes_bend_smaller_mus_are_asked_for():
    """From 20 · √2 · 9e-7 / (2 · 0.1) = 1.3e-4 on they clear the noise."""
    bent = suggest(measured("float32", 9e-7, (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)))
    assert bent.hopeless
    assert bent.why[-1] == "use smaller mus: down to about 0.00013 they would clear the noise"
    assert "use float32" not in " ".join(bent.why)


BENT = (0.22, 0.13, 0.1, 0.0972, 0.097, 0.06)  # tf32 where the loss bends beyond μ = 0.1


def test_where_tf32_clears_its_noise_only_where_the_loss_bends_float32_is_proposed():
    """float32 at 280 × less noise clears it at 1e-3; said is what 100 × gives:
    20 · √2 · 2.5e-6 / (2 · 0.097) = 3.6e-4."""
    verdict = suggest(measured("tf32", 2.5e-4, BENT))
    assert verdict.hopeless
    assert "differences clear the noise from mu = 0.1 on, but slopes there differ by 62%" in verdict.why[2]
    assert verdict.why[3].startswith("use float32: its rounding is at least 100 × finer; mu = 0.001 should")


def test_a_mu_between_two_of_the_grid_is_proposed_where_slopes_agree_around_it():
    """20 · √2 · 2.5e-4 / (2 · 0.097) = 0.036, between 0.03 and 0.1, whose slopes agree."""
    assert "or use --mu 0.036: it would clear" in suggest(measured("tf32", 2.5e-4, BENT)).why[-1]
    curved = (*BENT[:3], 0.08, *BENT[4:])
    assert "--mu" not in " ".join(suggest(measured("tf32", 2.5e-4, curved)).why)


def test_float32_between_rounding_and_bends_wants_a_larger_batch():
    verdict = suggest(measured("float32", 2.5e-4, (*BENT[:3], 0.08, *BENT[4:])))
    assert "a batch larger than 4" in verdict.why[-1]


@pytest.mark.parametrize(("noise", "mu"), [(6e-3, "mu = 0.01"), (6e-2, "mu = 0.1"), (0.6, None)])
def test_the_mu_proposed_for_float32_is_the_least_that_would_do(noise, mu):
    """20 · √2 · σ/100 / (2 · 0.122): 7e-3 for σ = 6e-3."""
    (words,) = [w for w in suggest(measured("bfloat16", noise, BF16)).why if w.startswith("use float32")]
    assert words.split("; ")[1:] == ([f"{mu} should then do, if the loss is linear there"] if mu else [])


def test_the_batch_that_is_proposed_would_do():
    """With b examples, slopes have s² + v/b and rounding σ²·4/b: 2μ√(b s² + v)/(√2 σ · 2) = 20."""
    noise = 2.5e-3
    words = suggest(measured("tf32", noise, STRAIGHT)).why[-1]
    batch = int(words.split("batch of about ")[1].split()[0])
    ratio = 2 * 0.1 * math.sqrt(batch * 0.043**2 + 0.3**2) / (math.sqrt(2) * noise * 2)
    assert 20 <= ratio < 20.1


def test_levels_are_read_as_they_are_defined():
    """f = 3t + 5t² along one direction, −3t + 5t² along the other; f(0) = 1."""
    sides = {
        mu: np.array([[1 + s * 3 * mu + 5 * mu**2, 1 - s * 3 * mu + 5 * mu**2] for s in (1, -1)])
        for mu in (0.5, 0.25)
    }
    small, large = read_levels(sides, np.ones(2), 0.125)
    assert small[:3] == (0.25, 1.5, 3.0)
    assert (small.snr, small.apart) == (1.5 / (math.sqrt(2) * 0.125), 0.0)
    assert (large.curvature, large.bend) == (10.0, 0.0)
    assert math.isnan(large.apart)


def test_float32_is_recommended_unless_another_is_much_faster():
    fine = measured("float32", 9e-7, STRAIGHT, seconds=1.0)
    quick = measured("tf32", 2.5e-4, TF32, seconds=0.7)
    drowned = measured("bfloat16", 6e-3, BF16, seconds=0.1)
    found = [(each, suggest(each)) for each in (drowned, quick, fine)]
    assert recommend(found) == 2
    found[1] = (measured("tf32", 2.5e-4, TF32, seconds=0.6), found[1][1])
    assert recommend(found) == 1
    assert recommend(found[:1]) is None


@pytest.fixture
def run(call_main, monkeypatch, tmp_path, folder):
    """The command in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    more = [word for key, value in TINY.items() if key != "device" for word in ("--set", f"{key}={value}")]
    return lambda line: call_main("probe", "--model", str(folder), "--device", "cpu", *more, *line.split())


def test_the_command_prints_tables_and_reasons_and_writes_a_config(run, tmp_path, folder):
    code, out, err = run("--rounds 1 --to ready.yaml --figure seen.png --exact")
    assert (code, err) == (0, "")
    assert "chosen" in out
    assert (tmp_path / "seen.png").stat().st_size > 1000
    trial = load_plan(tmp_path / "ready.yaml").trials[0]
    assert (trial.method.kind, trial.method.mu, trial.method.beta) == ("edge_local", 1e-3, 0.9)
    assert dict(trial.problem)["noise"] > 0
    assert (trial.method.decay.rounds, load_plan(tmp_path / "ready.yaml").last) == (1540, 1540)
    assert dict(trial.problem)["model"] == str(folder)


def test_eta_is_for_the_rounds_of_the_config_that_is_written(run, tmp_path):
    """q is an eighth of d, so 8 rounds are one visit, 80 are ten; momentum is 0.9."""
    found = []
    for rounds in (8, 80):
        assert run(f"--rounds 1 --for-rounds {rounds} --directions 4 --to ready.yaml --exact")[0] == 0
        plan = load_plan(tmp_path / "ready.yaml")
        assert (plan.rounds, plan.last, plan.trials[0].method.decay.rounds) == (rounds, rounds, rounds)
        assert plan.guard is not None
        found.append(plan.trials[0].method.eta)
    assert found[0] / found[1] == pytest.approx(applied(0.9, 10) / applied(0.9, 1), rel=1e-12)


@pytest.mark.parametrize(("rounds", "every"), [(1540, 77), (1, 1), (8, 1), (770, 35), (1543, 1543)])
def test_checkpoints_of_a_config_end_with_its_rounds(rounds, every):
    """About 20 of them; a prime number of rounds has only its end."""
    assert checkpoint_every(rounds) == every


def test_a_hopeless_choice_ends_with_exit_code_1_and_writes_no_config(run, tmp_path):
    code, out, _ = run("--dtype bfloat16 --mu 0.001 --to ready.yaml")
    assert code == 1
    assert "hopeless in bfloat16" in out
    assert not (tmp_path / "ready.yaml").exists()


def test_dtypes_are_compared_as_json(run):
    code, out, _ = run("--dtype all --no-pilots --json")
    report = json.loads(out)
    assert (code, [row["probe"]["dtype"] for row in report["dtypes"]]) == (0, ["float32", "bfloat16"])
    assert report["recommended"] in ("float32", "bfloat16")
    assert report["dtypes"][0]["probe"]["levels"][-1]["apart"] is None


def test_a_report_of_pilots_leaves_single_examples_out(found, subjects):
    one = found["float32"]
    chosen = suggest_for(subjects["float32"].setting, planned=9, rounds=1)
    (row,) = as_report([(one, chosen)], 0)["dtypes"]
    assert set(row["suggestion"]["pilots"][0]) == {"eta", "before", "after", "norm", "error"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--set dtype=bfloat16", "--set takes a further key"),
        ("--dtype float8", "dtype 'float8' is not known"),
        ("--graph web", "graph 'web' is not known"),
        ("--figure seen.gif", "a figure ends in"),
        ("--for-rounds 0", "--for-rounds must be 1 or more, got 0"),
        ("--dtype tf32", "tf32 needs a GPU and the device is cpu; use float32"),
        ("--mu 0", "--mu must be above 0, got 0.0"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line_and_exit_code_2(run, line, text):
    code, out, err = run(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert text in err
