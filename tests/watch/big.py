"""A log of a million rows, and what a browser needs to show it."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd

from zocosmo.log import Log, write_log


def write_rows(folder, trials, rows):
    """The log of a finished study: noisy curves of `trials` trials."""
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({"config": {}}))
    rng = np.random.default_rng(0)
    trial, t = np.repeat(np.arange(trials), rows), np.tile(np.arange(rows), trials)
    frame = pd.DataFrame(
        {
            "trial": trial,
            "problem": "bowl",
            "graph": "ring",
            "method": [f"method {k % 20}" for k in trial],
            "seed": [str(k // 20) for k in trial],
            "n": 8,
            "round": 10 * t,
            "bits": 640.0 * t,
            "queries": 160 * t,
            "objective": np.exp(rng.normal(size=len(t)) / 10) * (1 + trial % 20) / (1 + t) ** 0.7,
            "disagreement": 1.0 / (1 + t),
            "diverged": False,
        }
    )
    write_log(folder / "log.parquet", Log(frame, {"config": {}}))


def memory_of(chromium):
    """Bytes of the page's process: its private part, and its share of what it shares (PSS)."""
    session = chromium.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    pages = [each["id"] for each in found if each["type"] == "renderer"]
    return max(pss(pid) for pid in pages if os.path.exists(f"/proc/{pid}"))  # noqa: PTH110


def pss(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    raise AssertionError(pid)
