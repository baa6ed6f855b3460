"""Which job to watch: by the name of a folder, config, log or journal, or the newest one."""

from pathlib import Path

from zocosmo.blackbox.traces import SUFFIX, trace_of
from zocosmo.errors import InputError
from zocosmo.log import FORMATS
from zocosmo.trace import FOLDER
from zocosmo.watch.journal import Minimize
from zocosmo.watch.several import Several, studies_under
from zocosmo.watch.source import Source
from zocosmo.watch.study import Study, is_study

JOURNAL = ".journal"
HOW = "name the folder of a run, its config, or the journal of minimize"


def find_source(run: Path | None, runs: Path) -> Source:
    """The source of a run; of the newest one if none is named."""
    return source_of(newest(runs) if run is None else run, runs)


def source_of(run: Path, runs: Path) -> Source:
    if run.suffix in (".yaml", ".yml"):
        run = runs / run.stem
    elif run.suffix in FORMATS and run.is_file():
        run = run.parent
    if run.name.endswith((JOURNAL, SUFFIX)):
        if not run.exists() and not trace_of(run).exists():
            raise InputError(f"{run} does not exist; {HOW}")
        return Minimize(run)
    if not run.is_dir():
        raise InputError(f"{run} is no folder of a run; {HOW}")
    if is_study(run):
        return Study(run)
    if studies_under(run):
        return Several(run)
    raise InputError(f"{run} holds no run; {HOW}")


def newest(runs: Path) -> Path:
    """The run here whose trace was written last."""
    found = [(path, path.parent.parent) for path in runs.glob(f"**/{FOLDER}/*.jsonl")]
    found += [(path, path) for path in Path().glob(f"*{SUFFIX}")]
    if not found:
        raise InputError(f"nothing in {runs}/ or here was run in this version; {HOW}")
    _, run = max(found, key=lambda each: each[0].stat().st_mtime)
    above = next((p for p in run.parents if p.parent == runs and p != run), None)
    return run if above is None or is_study(above) else above  # a comparison is watched as a whole
