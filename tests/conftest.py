"""What a terminal or a CI system sets must not change what the tests see."""

import os
import signal
import sys

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)  # a busy machine is no failure
settings.load_profile("house")

for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TERMINAL_WIDTH"):
    os.environ.pop(name, None)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell starts jobs in the background so, and tests
    signal.signal(signal.SIGINT, signal.default_int_handler)  # interrupt children, which would inherit it


@pytest.fixture
def call_main(capsys, monkeypatch):
    """zocosmo with some words, in this process: exit code, stdout, stderr."""

    def call(*words):
        from zocosmo import cli

        monkeypatch.setattr(sys, "argv", ["zocosmo", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, *capsys.readouterr()

    return call
