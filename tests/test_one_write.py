"""Lines of several processes on one stderr stay whole."""

import io
import subprocess
import sys

from zocosmo.cli.common import refuse, say


def test_a_line_is_one_write(monkeypatch):
    class Counted(io.StringIO):
        writes = 0

        def write(self, text):
            Counted.writes += 1
            return super().write(text)

    monkeypatch.setattr(sys, "stderr", Counted())
    say("rank 1 waits")
    refuse("two\nlines", "rank 0: ")
    assert sys.stderr.getvalue() == "zocosmo: rank 1 waits\nzocosmo: rank 0: two lines\n"
    assert Counted.writes == 2


def test_lines_of_two_processes_do_not_merge(tmp_path):
    """Unbuffered, as in containers, where `print` writes the end of a line by itself."""
    code = "from zocosmo.cli.common import say\ninput(chr(10))\nfor _ in range(20_000): say('x' * 40)"
    with (tmp_path / "said").open("wb") as said:
        line, pipes = (
            [sys.executable, "-u", "-c", code],
            {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE},
        )
        both = [subprocess.Popen(line, stderr=said, **pipes) for _ in range(2)]
        for each in both:
            each.stdout.readline()  # it is ready
        for each in both:
            each.stdin.write(b"\n")
            each.stdin.flush()
        for each in both:
            each.communicate(timeout=60)
    assert set((tmp_path / "said").read_text().splitlines()) == {"zocosmo: " + "x" * 40}
