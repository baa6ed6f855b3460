"""The items, in the order of the paper. Each module has `ITEMS`; register a new module here."""

from zocosmo_paper.item import Item

MODULES: tuple[str, ...] = (
    "rosenbrock",
    "pilot",
    "sweep",
    "stress",
    "locality",
    "constants",
    "counts",
    "wire",
    "schedules",
    "moments",
    "mechanism",
    "certificates",
    "extension",
    "residual",
    "statements",
    "models",
)


def all_items() -> dict[str, Item]:
    """All items by name; modules are imported here, on demand, since they import pandas."""
    from importlib import import_module

    found: dict[str, Item] = {}
    for module in MODULES:
        for item in import_module(f"zocosmo_paper.items.{module}").ITEMS:
            found[item.name] = item
    return found
