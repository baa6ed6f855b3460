import pytest

from compare.tiny import changed, read
from zocosmo.compare import compare
from zocosmo.compare import run as comparing
from zocosmo.errors import InputError
from zocosmo.experiments import run as runner

OLD = changed("  bowl:", "  cup: {kind: quadratic, d: 4}\n  bowl:")
NEW = OLD.replace("rounds: 30", "rounds: 20")


@pytest.fixture
def old(tmp_path, monkeypatch):
    """The folder of a comparison of two problems."""
    monkeypatch.setattr(comparing, "draw_field", lambda results, to: None)
    compare(read(OLD), tmp_path)
    return tmp_path


def stop(*given):
    raise KeyboardInterrupt


def test_what_was_started_anew_and_stopped_goes_on_by_itself(old, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_advance", stop)
        with pytest.raises(KeyboardInterrupt):
            compare(read(NEW), old, replace_old=True)
    found = compare(read(NEW), old)
    assert [result.rows["round"].max() for result in found] == [20, 20]


def test_the_folder_of_another_config_is_refused_before_any_problem_is_worked_on(old, monkeypatch):
    """The first problem is as it was, and not done; the second is another."""
    monkeypatch.setattr(runner, "_advance", stop)
    for path in (old / "cup").rglob("*.*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(InputError, match="bowl/pilot holds a study of another plan"):
        compare(read(OLD.replace("d: 8", "d: 7")), old)
