"""An oracle over an external program: one process for each query."""

import errno
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Unpack

from zocosmo.blackbox.asked import Asked
from zocosmo.blackbox.calls import brief
from zocosmo.blackbox.functions import Calls, OneByOne
from zocosmo.errors import InputError, OracleError
from zocosmo.oracle import Mask, Values

PLACE = re.compile(r"\{(x|file|node|round)\}")
LAST_LINE = "print the loss on the last line of stdout"

Process = subprocess.Popen[bytes]


class Command(OneByOne):
    """An external program for each query, started without a shell.

    In the template {x} becomes the values separated by commas (exact: they read back to the same floats),
    {file} the path of a text file with one value a line, {node} and {round} their numbers. The last line that
    the program prints is the loss. On a timeout or an interrupt the program's process group is killed.
    """

    def __init__(self, template: str, n: int, **how: Unpack[Calls]) -> None:
        super().__init__(n, **how)
        try:
            self.words = shlex.split(template)
        except ValueError as error:
            raise InputError(f"the command cannot be split into words: {error}; got {template!r}") from None
        self.places = {place for word in self.words for place in PLACE.findall(word)}
        if not self.places & {"x", "file"}:
            raise InputError(f"the command must say where x goes, with {{x}} or {{file}}; got {template!r}")
        self._lock, self._running, self._stopped = threading.Lock(), set[Process](), False

    def names(self) -> str:
        return shlex.join(self.words)

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        self._stopped = False
        return super().ask(x, t, where, active=active)

    def _one(self, x: Values, query: Asked) -> float:
        with tempfile.TemporaryDirectory(prefix="zocosmo-") as name:
            folder = Path(name)
            parts = self._parts(x, query, folder / "x.txt")
            words = [PLACE.sub(lambda match: parts[match[1]], word) for word in self.words]
            lines = [line.strip() for line in self._run(words, query, folder).splitlines() if line.strip()]
        if not lines:
            raise query.error("the program printed nothing", LAST_LINE)
        try:
            return float(lines[-1])
        except ValueError:
            found = f"the program's last line is {brief(lines[-1])!r}, not a number"
            raise query.error(found, LAST_LINE) from None

    def _parts(self, x: Values, query: Asked, file: Path) -> dict[str, str]:
        """The text for each place that the template uses."""
        texts = [repr(value) for value in x.tolist()]
        parts = {"node": str(query.node), "round": str(query.t)}
        if "x" in self.places:
            parts["x"] = ",".join(texts)
        if "file" in self.places:
            file.write_text("\n".join(texts) + "\n")
            parts["file"] = str(file)
        return parts

    def _run(self, words: list[str], query: Asked, folder: Path) -> str:
        """The program's output, by way of files: a child that outlives it would hold a pipe open."""
        out, err = folder / "stdout", folder / "stderr"
        process = self._start(words, query, out, err)
        try:
            code = process.wait(self.timeout)
        except BaseException as error:
            kill(process)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            found = f"the program did not end within {self.timeout:g} s and was killed"
            raise query.error(found, "raise timeout, or make it faster") from None
        finally:
            with self._lock:
                self._running.discard(process)
        if code:
            said = brief((err.read_text(errors="replace").strip().splitlines() or ["nothing on stderr"])[-1])
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise query.error(f"the program {how}: {said}", "make it end with exit code 0")
        return out.read_text(errors="replace")

    def _start(self, words: list[str], query: Asked, out: Path, err: Path) -> Process:
        """Start the program under the lock, so that `_abandon` cannot miss it."""
        with self._lock, out.open("wb") as to_out, err.open("wb") as to_err:
            if self._stopped:
                raise query.error("the run was interrupted", "start it again")
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err, start_new_session=True
                )
            except OSError as error:
                raise self._unstarted(words[0], error, query) from error
            self._running.add(process)
        return process

    def _abandon(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                kill(process)

    @staticmethod
    def _unstarted(program: str, error: OSError, query: Asked) -> OracleError:
        if error.errno == errno.E2BIG:
            return query.error("x is too long for a command line", "use {file} instead of {x}")
        found = f"{program!r} cannot be started: {error.strerror}"
        return query.error(found, "check its path and permissions; no shell is used")


def kill(process: Process) -> None:
    """Kill the program and what is left of its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
