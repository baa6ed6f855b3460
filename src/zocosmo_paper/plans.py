"""The configs of the reproduction, read into plans."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from zocosmo.errors import InputError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import Plan, read_plan
from zocosmo.experiments.starters import configs_folder

MODEL_CONFIGS = "model/"  # configs with this prefix are starters of zocosmo, not in this package


def config_text(name: str) -> str:
    """The text of a config; for a study of a model from ./configs, then from what comes with zocosmo."""
    if not name.startswith(MODEL_CONFIGS):
        return files("zocosmo_paper").joinpath("configs", f"{name}.yaml").read_text(encoding="utf-8")
    for folder in (Path("configs"), configs_folder()):
        if (path := folder / f"{name}.yaml").is_file():
            return path.read_text(encoding="utf-8")
    raise InputError(f"configs/{name}.yaml was not found; run this in a clone of the repository")


def load_config(name: str, seeds: int | None, given: Sequence[str] = ()) -> Plan:
    """A config of the reproduction; `seeds` replaces its seeds by that many, from its first one on."""
    config = Config(config_text(name), f"{name}.yaml")
    for text in given if name.startswith(MODEL_CONFIGS) else ():
        config.override(text)
    plan = read_plan(config, name)
    if seeds is None:
        return plan
    first = int(plan.config["seeds"][0])
    return read_plan(config, name, list(range(first, first + seeds)))
