import sys

import pytest

from zocosmo.errors import InputError
from zocosmo.files import replace_file
from zocosmo.report.figures import payload_figure
from zocosmo.report.payload import payload_report

REPORT = payload_report(1000, 10, value="f32", reuse=(1,), rounds=10)


def test_the_same_numbers_give_the_same_file(tmp_path):
    for name in ("a.svg", "b.svg"):
        payload_figure(REPORT, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_without_matplotlib_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r'pip install "zocosmo\[plot\]"'):
        payload_figure(REPORT, tmp_path / "a.png")


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path):
    target = tmp_path / "result.txt"
    target.write_text("old")

    def fail(path):
        path.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        replace_file(target, fail)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
