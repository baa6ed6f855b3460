"""Fine-tuning runs small enough for a test: a tiny model, a few rows, one thread."""

from zocosmo.llm.finetune import finetune
from zocosmo.llm.recipe import open_recipe, settle

SMALL = {
    ("problem", "train_rows"): 64,
    ("problem", "validation_rows"): 24,
    ("problem", "threads"): 1,
    ("problem", "noise"): 1e-7,
    ("methods", 0, "q"): 64,
    ("methods", 0, "eta"): 20.0,  # of a random model slopes are near 1e-3
    ("methods", 0, "mu"): 0.01,
    ("rounds",): 12,
    ("log_every",): 2,
}


def changes(model, **more):
    """Of SMALL, with more entries: problem_batch=2, methods_beta=0.5, rounds=4."""
    named = {
        tuple(name.split("_", 1)) if name.startswith("problem_") else name: v for name, v in more.items()
    }
    places = {k if isinstance(k, tuple) else (k,): v for k, v in named.items()}
    return {**SMALL, ("problem", "model"): str(model), **places}


def small_plan(model, *, exact=False, method=None, **more):
    given = {**changes(model, **more), **{("methods", 0, k): v for k, v in (method or {}).items()}}
    return settle(open_recipe(None, given, exact=exact), "small")


def tuned(model, out, *, resume=False, see=None, **more):
    return finetune(small_plan(model, **more), out, resume=resume, see=see)
