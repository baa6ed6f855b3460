"""Run a notebook's cells in order, without Jupyter: Python in one process, `!` lines in a shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

DRIVER = r"""
import contextlib, io, json, subprocess, sys

names, printed = {"__name__": "__main__"}, []
for source in json.load(sys.stdin):
    if source.startswith("!"):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(source[1:], shell=True, text=True, **streams)
        printed.append(done.stdout)
        continue
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, "<cell>", "exec"), names)
    printed.append(out.getvalue())
print("\n" + json.dumps(printed))
"""


def run_cells(notebook, folder):
    """(source, output in the notebook, output now) of each code cell, run in `folder` by one process."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(sources),
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    shown = ["".join(line for out in cell["outputs"] for line in out["text"]) for cell in cells]
    return list(zip(sources, shown, json.loads(done.stdout.splitlines()[-1]), strict=True))
