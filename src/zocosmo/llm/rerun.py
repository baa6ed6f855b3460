"""The recipe of a fine-tuning run and its folder, which may hold an earlier run of the same recipe."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zocosmo.errors import InputError
from zocosmo.experiments.config import Config
from zocosmo.llm.recipe import Changes, first_method, open_recipe


def find_recipe(
    config: Path | None, changes: Changes, sets: Sequence[str], out: Path | None, *, resume: bool, exact: bool
) -> tuple[Config, Path]:
    """What to run and in which folder; to resume without a config, it is read from the folder."""
    recipe = open_recipe(config, changes, sets, exact=exact)
    if out is None:
        out = Path("runs") / (_name(recipe) if config is None else config.stem)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, and a run needs a folder; choose another --out")
    if resume and config is None and (out / "config.yaml").exists():
        recipe = open_recipe(out / "config.yaml", changes, sets, exact=exact)
    elif resume and config is None and not changes and not sets:
        raise InputError(f"there is no run to resume in {out}; give its options, or its folder with --out")
    return recipe, out


def _name(recipe: Config) -> str:
    """smollm2-toy"""
    about: Any = recipe.data
    return "-".join(Path(str(about["problem"].get(key, ""))).stem for key in ("model", "task"))


def recall(recipe: Config, folder: Path) -> None:
    """Give the recipe the η and μ of an earlier run in this folder, so that they are not probed again."""
    about: Any = recipe.data
    method = first_method(about)
    if "eta" in method or "mu" in method or not (folder / "plan.json").exists():
        return
    try:
        kept: Any = Config.load(folder / "config.yaml").data
        found, noise = {key: kept["methods"][0][key] for key in ("eta", "mu")}, kept["problem"]["noise"]
    except (InputError, LookupError, TypeError):
        raise InputError(
            f"{folder} holds a run but no config with its eta and mu; choose another --out, "
            "or start over with --replace"
        ) from None
    if not noise:  # it is stored with every eta that was not given
        numbers = " ".join(f"--{key} {value}" for key, value in found.items())
        raise InputError(
            f"{folder} holds a run whose eta and mu were given; give them again ({numbers}), choose another "
            "--out, or start over with --replace"
        )
    method |= found
    about["problem"].setdefault("noise", noise)
