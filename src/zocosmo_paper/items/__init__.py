"""The items, in the order of the paper. Each module has `ITEMS`; add a module here and nowhere else."""

from zocosmo_paper.item import Item

MODULES: tuple[str, ...] = (
    "rosenbrock",
    "sweep",
    "stress",
    "locality",
    "constants",
    "wire",
    "schedules",
    "moments",
    "mechanism",
    "certificates",
    "extension",
    "residual",
    "models",
)


def all_items() -> dict[str, Item]:
    """By name; modules are imported when they are asked for, since they bring in pandas."""
    from importlib import import_module

    found: dict[str, Item] = {}
    for module in MODULES:
        for item in import_module(f"zocosmo_paper.items.{module}").ITEMS:
            found[item.name] = item
    return found
