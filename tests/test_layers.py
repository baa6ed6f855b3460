"""The import order of the house: what each module may import of ours. Imports point up this list only."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "zocosmo"

ALLOWED = {
    "_version": [],
    "errors": [],
    "core.tape": ["errors"],
    "core.distinct": ["core.tape"],
    "core.support": ["core.distinct", "core.tape", "errors"],
    "core.balanced": ["core.support", "core.tape", "errors"],
    "core.coupling": ["core.support", "core.tape"],
    "core.values": ["errors"],
    "core.payload": ["core.support", "errors"],
    "core.fields": ["core.payload", "core.support", "errors"],
    "core.message": ["core.fields", "core.payload", "core.support", "core.values", "errors"],
    "core.frame": ["core.fields", "core.message", "core.payload", "core.support", "core.values", "errors"],
    "core.manifest": ["core.message", "core.support", "core.values", "errors"],
    "core.cover": ["core.support", "errors"],
    "core.ledger": ["core.payload", "errors"],
    "core": ["core."],
    "graphs.graph": ["core.tape", "errors"],
    "graphs.weights": ["graphs.graph"],
    "graphs.matching": ["graphs.graph", "core.tape", "errors"],
    "graphs.colouring": [],
    "graphs": ["graphs."],
    "oracle": ["core.support"],
    "traffic": ["graphs."],
    "channel": ["core.", "graphs.", "traffic", "errors"],
    "blackbox": [],
    "blackbox.functions": ["oracle", "errors"],
    "blackbox.commands": ["blackbox.functions", "oracle", "errors"],
    "problems.nodes": ["errors"],
    "problems.draws": ["core.tape", "errors"],
    "problems.split": ["core.tape", "problems.draws", "errors"],
    "problems.data": ["core.tape", "problems.draws", "problems.nodes", "errors"],
    "problems.logistic": ["core.tape", "problems.data", "problems.draws", "problems.split"],
    "problems.network": ["core.tape", "problems.data", "problems.draws", "problems.split", "errors"],
    "problems.quadratic": ["core.tape", "oracle", "problems.draws", "problems.nodes", "errors"],
    "problems.rosenbrock": ["core.tape", "oracle", "problems.draws", "problems.nodes", "errors"],
    "problems.external": ["blackbox.", "core.tape", "oracle", "problems.draws", "problems.nodes", "errors"],
    "problems.entry": ["blackbox.functions", "core.tape", "oracle", "problems.external", "errors"],
    "problems": ["problems."],
    "methods.decay": ["errors"],
    "methods.base": ["channel", "core.", "graphs.", "methods.decay", "oracle", "errors"],
    "methods.cosmo": ["channel", "core.", "methods.base", "oracle", "errors"],
    "methods.edge_local": ["channel", "core.", "methods.base", "oracle", "errors"],
    "methods.rand_k": ["channel", "core.", "methods.base", "oracle"],
    "methods.dense": ["channel", "core.", "methods.base", "oracle"],
    "methods.com_dszo": ["channel", "core.", "methods.base", "oracle", "errors"],
    "methods.marina_type": ["channel", "core.", "methods.base", "oracle", "errors"],
    "methods.flood": ["channel", "core.", "graphs.", "methods.base", "oracle"],
    "methods": ["methods."],
    "files": ["errors"],
    "log": ["_version", "files", "errors"],
    "sim.draws": ["core.", "methods.base"],
    "sim.engine": ["channel", "core.", "graphs.", "methods.base", "oracle", "sim.draws", "errors"],
    "sim": ["sim.engine"],
    "blackbox.probes": ["blackbox.functions", "core.", "oracle", "errors"],
    "blackbox.suggest": ["blackbox.functions", "blackbox.probes", "channel", "core.", "oracle", "errors"],
    "blackbox.optimizer": [
        "blackbox.functions",
        "channel",
        "core.",
        "graphs.",
        "methods.",
        "oracle",
        "sim.draws",
        "errors",
    ],
    "blackbox.minimize": ["blackbox.", "core.", "graphs.", "methods", "methods.", "oracle", "errors"],
    "experiments": [],
    "experiments.config": ["errors"],
    "experiments.plan": [
        "channel",
        "core.",
        "experiments.config",
        "graphs.",
        "log",
        "methods",
        "oracle",
        "problems",
        "sim.",
        "errors",
    ],
    "experiments.folder": ["files", "log", "errors"],
    "experiments.processes": ["errors"],
    "experiments.states": ["files", "errors"],
    "experiments.run": ["experiments.", "log", "sim.", "errors"],
    "dist.deadline": ["errors"],
    "dist.rendezvous": ["errors"],
    "dist.seal": ["core.payload", "errors"],
    "dist.place": ["graphs.graph", "errors"],
    "dist.tree": ["graphs.graph"],
    "dist.links": ["dist.deadline", "dist.rendezvous", "dist.seal", "graphs.colouring", "errors"],
    "dist.channel": ["channel", "core.", "dist.", "graphs.matching", "errors"],
    "dist.handshake": ["core.", "dist.rendezvous", "dist.seal", "errors"],
    "dist.engine": ["dist.channel", "methods.base", "oracle", "sim."],
    "dist.checkpoints": ["files"],
    "dist.ranklog": ["dist.channel", "dist.links", "dist.rendezvous", "files", "errors"],
    "dist.peer": ["_version", "channel", "core.", "dist.", "graphs.graph", "log", "methods.base", "errors"],
    "dist": ["dist.peer", "errors"],
    "dist.company": ["dist.channel", "dist.rendezvous", "errors"],
    "dist.study": [
        "_version",
        "channel",
        "core.manifest",
        "dist.",
        "experiments.",
        "files",
        "log",
        "sim.engine",
        "errors",
    ],
    "dist.idle": ["dist.", "experiments.", "log", "methods.edge_local", "oracle", "sim.engine", "errors"],
    "dist.run": ["dist.", "experiments.", "log", "errors"],
    "dist.launch": [],
    "dist.bench": ["core.", "dist.", "graphs.graph", "errors"],
    "torch.coordinates": ["core.support", "errors"],
    "torch.optimizer": [
        "channel",
        "core.",
        "dist.",
        "graphs.graph",
        "methods",
        "methods.base",
        "oracle",
        "sim.draws",
        "torch.coordinates",
        "errors",
    ],
    "torch": ["torch.", "errors"],
    "report": [],
    "report.payload": ["core."],
    "report.figures": ["files", "errors"],
    "report.budget": ["errors"],
    "report.stats": ["core.tape", "report.budget", "errors"],
    "report.tables": ["report.budget", "report.stats", "errors"],
    "report.diff": ["errors"],
    "report.link": [],
    "report.curves": ["report.budget", "report.figures", "errors"],
    "": ["_version", "blackbox.", "core", "graphs", "methods", "problems", "errors"],
    "cli.common": ["core.", "graphs.", "errors"],
    "cli.tape": ["cli.common", "core.", "graphs.", "errors"],
    "cli.payload": ["cli.common", "core.", "report.", "errors"],
    "cli.options": [],
    "cli.study": [
        "cli.common",
        "cli.options",
        "experiments.",
        "files",
        "graphs",
        "log",
        "methods",
        "problems",
        "report.",
        "errors",
    ],
    "cli.minimize": ["blackbox.", "cli.common", "files", "graphs.", "errors"],
    "dist.__main__": ["cli.options", "cli.study", "dist.", "experiments.plan", "errors"],
    "cli.dist": [
        "cli.common",
        "cli.options",
        "cli.study",
        "dist.",
        "experiments.",
        "log",
        "report.",
        "errors",
    ],
    "cli": ["_version", "cli.", "errors"],
    "__main__": ["cli"],
}
OUTSIDE = {
    "core": {"numpy", "google_crc32c"},
    "graphs": {"numpy", "networkx"},
    "oracle": {"numpy"},
    "traffic": {"numpy"},
    "channel": {"numpy"},
    "problems": {"numpy", "scipy", "sklearn"},
    "methods": {"numpy", "networkx"},
    "log": {"pandas", "pyarrow"},
    "sim": {"numpy"},
    "blackbox": {"numpy", "pandas", "scipy"},
    "experiments": {"numpy", "pandas", "pydantic", "yaml"},
    "dist": {"numpy", "torch", "cryptography", "google_crc32c", "safetensors", "typer"},
    "torch": {"numpy", "torch"},
    "report": {"numpy", "pandas", "scipy", "rich", "matplotlib"},
    "cli": {"numpy", "rich", "typer"},
}
ONLY_HERE = {
    "matplotlib": ("report.figures",),
    "torch": ("dist", "torch", "llm"),
    "cryptography": ("dist.seal",),
    "safetensors": ("dist.checkpoints",),
}


def modules():
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), file


def imported(file):
    """Every module named in an import statement, at the top or inside a function."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize(
    ("name", "file"), list(modules()), ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_a_module_imports_only_what_stands_above_it(name, file):
    ours = {
        m.removeprefix("zocosmo").removeprefix(".") for m in imported(file) if m.split(".")[0] == "zocosmo"
    }
    assert {
        m for m in ours if not any(m == a or (a.endswith(".") and m.startswith(a)) for a in ALLOWED[name])
    } == set()


@pytest.mark.parametrize(
    ("name", "file"), list(modules()), ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_a_module_imports_only_the_libraries_of_its_layer(name, file):
    outside = {m.split(".")[0] for m in imported(file)} - {"zocosmo", *sys.stdlib_module_names}
    assert outside <= OUTSIDE.get(name.split(".")[0], set())
    for library in outside & set(ONLY_HERE):
        assert any(f"{name}.".startswith(f"{place}.") for place in ONLY_HERE[library])


def test_the_list_names_every_module_and_no_other():
    assert set(ALLOWED) == {name for name, _ in modules()}


def test_the_list_itself_points_upwards():
    seen = []
    for name, allowed in ALLOWED.items():
        for above in allowed:
            assert above in seen or any(s.startswith(above) for s in seen if above.endswith("."))
        seen.append(name)
