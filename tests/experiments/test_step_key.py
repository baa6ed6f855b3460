"""The key `step` of a config is the field `step_rule`; defaults leave labels and manifests as they were."""

import pytest

from zocosmo.dist.study import Options, manifest
from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan

TEXT = """
problem: {{kind: quadratic, d: 12}}
graphs: [{{kind: ring, n: 4}}]
methods: [{methods}]
seeds: [1]
rounds: 4
"""
PLAIN = "{kind: cosmo, q: 4, eta: 0.1, mu: 0.1}"


def plan(*methods):
    return read_plan(Config(TEXT.format(methods=", ".join(methods)), "case.yaml"), "case")


def more(text):
    return PLAIN.replace("}", f", {text}}}")


def test_step_is_read_and_shown_by_its_key():
    found = plan(PLAIN, more("step: normalised, directions: 4, signs: orthogonal, sides: 1"))
    assert [trial.method.step_rule for trial in found.trials] == ["plain", "normalised"]
    shown = "cosmo directions=4 signs=orthogonal sides=1 step=normalised"
    assert [trial.labels[2] for trial in found.trials][1] == shown


def test_a_label_without_the_new_keys_is_what_it_was():
    found = plan(PLAIN, more("passes: 2"))
    assert [trial.labels[2] for trial in found.trials] == ["cosmo passes=1", "cosmo passes=2"]


def test_a_manifest_states_only_what_is_not_the_default():
    names = ("directions", "signs", "sides", "step_rule")
    stated = []
    for text in (PLAIN, more("directions: 2, step: normalised_local")):
        one = plan(text)
        parameters = manifest(one, one.trials[0], Options()).parameters
        stated.append([name for name in names if name in parameters])
    assert stated == [[], ["directions", "step_rule"]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("step: long", "step"),
        ("sides: 3", "sides"),
        ("directions: 0", "directions must be 1 or more, got 0"),
        ("directions: 5, signs: orthogonal", "5 orthogonal directions do not fit on q = 4"),
        ("step_rule: normalised", "unknown key 'step_rule'"),
    ],
)
def test_a_bad_value_is_refused_with_its_line(text, says):
    with pytest.raises(ConfigError, match=says) as refused:
        plan(more(text))
    assert str(refused.value).startswith("case.yaml:4")
