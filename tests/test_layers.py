"""The order of packages: each may import those above it in the list, and nothing below."""

import ast
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

ORDER = (
    "_version",
    "errors",
    "extras",
    "words",
    "entries",
    "files",
    "trace",
    "theory",
    "core",
    "graphs",
    "state",
    "oracle",
    "subspace",
    "traffic",
    "bills",
    "exchanges",
    "meetings",
    "repairs",
    "coarse",
    "carriage",
    "channel",
    "methods",
    "rounds",
    "log",
    "terms",
    "sim",
    "blackbox",
    "problems",
    "experiments",
    "planner",
    "report",
    "dist",
    "net",
    "torch",
    "llm",
    "checks",
    "compare",
    "watch",
    "cli",
    "__main__",
    "zocosmo",  # the package itself, which re-exports names
    "zocosmo_paper",
)

EXCEPTIONS = {
    ("problems.language", "llm"): "the problem of kind llm is built there, imported when it is first used",
    ("dist.__main__", "cli"): "python -m zocosmo.dist is an entry point, as python -m zocosmo is",
}

OUTSIDE = {
    **{name: {"numpy"} for name in ("state", "oracle", "subspace", "traffic", "bills", "meetings", "coarse")},
    **{name: {"numpy"} for name in ("exchanges", "repairs", "carriage", "channel", "rounds", "terms", "sim")},
    "theory": {"numpy", "scipy", "networkx"},
    "core": {"numpy", "google_crc32c"},
    "graphs": {"numpy", "networkx"},
    "methods": {"numpy", "networkx"},
    "log": {"pandas", "pyarrow"},
    "blackbox": {"numpy", "pandas", "scipy", "rich"},
    "problems": {"numpy", "scipy", "sklearn"},
    "experiments": {"numpy", "pandas", "pydantic", "yaml", "distributed", "mpi4py"},
    "planner": {"numpy", "scipy"},
    "report": {"numpy", "pandas", "scipy", "rich", "matplotlib"},
    "dist": {"numpy", "torch", "cryptography", "google_crc32c", "safetensors"},
    "net": {"numpy", "zmq"},
    "torch": {"numpy", "torch"},
    "llm": {"numpy", "torch", "transformers", "tokenizers", "peft", "safetensors", "gguf", "datasets"}
    | {"huggingface_hub", "filelock", "psutil", "yaml", "rich"},
    "checks": {"numpy", "rich"},
    "compare": {"numpy", "pandas"},
    "watch": {"numpy", "pandas", "pyarrow", "rich", "starlette", "uvicorn"},
    "cli": {"rich", "typer"},
    "zocosmo_paper": {"numpy", "pandas", "scipy", "torch", "rich", "typer"},
}

ONLY_HERE = {  # libraries that one module imports for all others
    "matplotlib": ("report.figures",),
    "starlette": ("watch.server",),
    "uvicorn": ("watch.server",),
    "torch": ("dist", "torch", "llm", "zocosmo_paper.audit"),
    "cryptography": ("dist.seal",),
    "zmq": ("net",),
    "safetensors": ("dist.checkpoints", "llm"),
    "datasets": ("llm.rows",),
    "gguf": ("llm.convert",),
    "distributed": ("experiments.cluster",),
    "mpi4py": ("experiments.cluster",),
}


@cache
def modules():
    """Every module of both packages by name."""
    found = {}
    for file in sorted(SOURCE.glob("zocosmo*/**/*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def place(name):
    """A module's name as the tables above have it: core.tape."""
    return name.removeprefix("zocosmo.")


def package(name):
    return place(name).partition(".")[0]


def imported(nodes):
    """Modules that import statements name; `from package import module` names the module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (each if each in modules() else node.module for each in inner)


def at_import(tree):
    """Statements that run when a module is imported: not those in functions or for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from at_import(node)


def test_every_package_is_in_the_list():
    assert {package(name) for name in modules()} <= set(ORDER)


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_packages_above_its_own(name):
    ours = {package(each) for each in imported(ast.walk(modules()[name])) if each.startswith("zocosmo")}
    below = {each for each in ours if ORDER.index(each) > ORDER.index(package(name))}
    assert below == {each for importer, each in EXCEPTIONS if importer == place(name)}


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_the_libraries_of_its_package(name):
    found = {each.partition(".")[0] for each in imported(ast.walk(modules()[name]))}
    outside = found - {"zocosmo", "zocosmo_paper", *sys.stdlib_module_names}
    assert outside <= OUTSIDE.get(package(name), set())
    for library in outside & set(ONLY_HERE):
        assert any(f"{place(name)}.".startswith(f"{each}.") for each in ONLY_HERE[library])


def test_no_modules_import_each_other():
    graph = {name: set(imported(at_import(tree))) - {name} for name, tree in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))
