import pytest

from compare.tiny import changed, line_of, read
from zocosmo.compare import compare
from zocosmo.errors import ConfigError

BAD = {  # what is changed: to what, and what is said; the line is that of the change
    "mu: 1.0e-3": ("mu: -1.0", "mu of bowl must be a finite number above 0, got -1.0"),
    "eta: [1.0e-3, 0.1]": ("eta: [0.1, 0.1]", "tune.eta = [0.1, 0.1] has no room for 4 step sizes; widen it"),
    "d: 8,": ("d: 8, metric: accuracy,", "metric 'accuracy' is not known"),
    "settings: 4,": ("settings: 4, by: accuracy,", "metric 'accuracy' is not known"),
}


@pytest.mark.parametrize("old", BAD)
def test_a_mistake_has_the_line_it_was_made_on(tmp_path, old):
    new, said = BAD[old]
    text = changed(old, new)
    with pytest.raises(ConfigError) as error:
        compare(read(text), tmp_path / "out")
    assert str(error.value).startswith(f"tiny.yaml:{line_of(text, new)}: {said}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("key", "good", "bad"), [("budgets", "[9]", "[0]"), ("log_every", "5", "31")])
def test_a_mistake_in_a_mapping_by_problem_has_the_line_of_the_problem(key, good, bad):
    old = {"budgets": "budgets: [1_000, 3_000]", "log_every": "log_every: 5"}[key]
    text = changed("  bowl:", "  cup: {kind: quadratic, d: 4}\n  bowl:")
    text = text.replace(old, f"{key}:\n  cup: {good}\n  bowl: {bad}")
    with pytest.raises(ConfigError) as error:
        read(text)
    assert str(error.value).startswith(f"tiny.yaml:{line_of(text, f'bowl: {bad}')}: ")
