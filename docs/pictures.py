"""One picture for each task page that has no other, each from a run made here or from committed results.

python docs/pictures.py            all of them, into docs/img
python docs/pictures.py graphs     some
"""

import csv
import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import networkx as nx
import numpy as np

from zocosmo import CODECS, GRAPHS, METHODS, PROBLEMS, SCHEDULES, VALUE_TYPES, Manifest, Tape
from zocosmo.experiments.starters import starter
from zocosmo.log import read_log
from zocosmo.report.figures import new_figure, new_panels, save_figure
from zocosmo.sim.engine import Run, Simulation

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
BLUE, RED, YELLOW, GREY, GREEN = "#1b6ca8", "#d1495b", "#edae49", "#9aa5b1", "#3a7d44"
SHADES = (BLUE, RED, YELLOW, GREEN, GREY)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [body for kind, body in FENCE.findall(text) if kind == language]


def minimize_picture(to: Path) -> None:
    """Every query of four furnaces, over the contours of their mean loss."""
    names: dict[str, Any] = {}
    for block in blocks("tutorials/rigs.md", "python")[:2]:
        exec(block, names)
    asked = np.array(names["asked"])
    figure, axes = new_figure(to, (6.2, 3.6))
    t, f = np.meshgrid(np.linspace(690, 1010, 120), np.linspace(0.08, 0.62, 120))
    mean = np.mean(
        [[rig(np.array(p)) for p in zip(t.flat, f.flat, strict=True)] for rig in names["rigs"]], axis=0
    )
    axes.contour(t, f, mean.reshape(t.shape), levels=12, colors=GREY, linewidths=0.6)
    axes.plot([700, 1000, 1000, 700, 700], [0.1, 0.1, 0.6, 0.6, 0.1], "k--", linewidth=1, label="bounds")
    axes.scatter(asked[:, 0], asked[:, 1], s=9, color=BLUE, label="queries of all rigs", zorder=3)
    axes.scatter(*np.array(names["BEST"]).T, marker="x", color=RED, label="best of each rig", zorder=4)
    axes.scatter(*names["result"].x, marker="*", s=110, color=YELLOW, label="result", zorder=5, edgecolor="k")
    axes.set(xlabel="temperature, K", ylabel="flow, l/s")
    axes.legend(frameon=True, fontsize=8, loc="lower left", bbox_to_anchor=(0.05, 0.08))
    save_figure(figure, to)


def queries_picture(to: Path) -> None:
    """The table of one node in minimize-results.md."""
    text = (DOCS / "minimize-results.md").read_text(encoding="utf-8").split("## Eight nodes")[0]
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("| ")
    ]
    head, body = rows[0], [row for row in rows[2:] if len(row) == 9][::-1]
    figure, axes = new_figure(to, (6.6, 4.6))
    for k, (name, shade) in enumerate(zip(head[1:6], SHADES, strict=True), start=1):
        there = [(int(row[k].replace(",", "")), at) for at, row in enumerate(body) if row[k] != "–"]
        axes.plot(*zip(*there, strict=True), "o", color=shade, label=name, markersize=5, alpha=0.85)
    axes.set_yticks(range(len(body)), [row[0] for row in body], fontsize=8)
    axes.set(xscale="log", xlabel="queries until within 1 %")
    axes.grid(axis="y", color="#eeeeee")
    axes.legend(frameon=False, fontsize=8, ncols=5, loc="upper center", bbox_to_anchor=(0.35, 1.1))
    save_figure(figure, to)


def compare_picture(to: Path) -> None:
    """The study of the tutorial."""
    study(blocks("tutorials/compare.md", "python")[0].split('"""')[1], to)


def study(config: str, to: Path) -> None:
    """Run a config with the command line, and draw it."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "study.yaml").write_text(config, encoding="utf-8")
        _zocosmo(folder, "run", "study.yaml")
        _zocosmo(folder, "figure", "study.yaml", "--to", str(to.resolve()))


def _zocosmo(folder: str, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "zocosmo", *words], cwd=folder, check=True, capture_output=True)


def methods_picture(to: Path) -> None:
    """Five methods on the first starter's problem."""
    study(
        """
problem: {kind: quadratic, d: 32, zeta: 1.0}
graphs: [{kind: ring, n: 8}]
methods:
  - {kind: cosmo, q: 4, eta: 0.004, mu: 1.0e-3}
  - {kind: edge_local, q: 4, eta: 0.004, mu: 1.0e-3, label: edge_local}
  - {kind: edge_local, q: 8, eta: 0.01, mu: 1.0e-3, directions: 8, signs: orthogonal, wire: mod4,
     label: "edge_local, 8 directions, 4 bits"}
  - {kind: dense, eta: 0.004, mu: 1.0e-3}
  - {kind: seedflood, eta: 0.004, mu: 1.0e-3}
seeds: [1, 2, 3]
rounds: 600
budgets: [100_000]
""",
        to,
    )


def runtime_picture(to: Path) -> None:
    """One seed of the starter study in the simulator and in processes."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "first.yaml").write_text(starter("first").text, encoding="utf-8")
        short = ("--seeds", "1", "--set", "rounds=300")
        _zocosmo(folder, "run", "first.yaml", *short, "--out", "simulated")
        _zocosmo(folder, "launch", "first.yaml", *short, "--nodes", "2", "--out", "launched")
        logs = [read_log(Path(folder, kind, "log.parquet")).rows for kind in ("simulated", "launched")]
    figure, axes = new_figure(to, (6.2, 3))
    for k, (method, rows) in enumerate(logs[0][logs[0]["graph"] == "ring"].groupby("method", observed=True)):
        there = logs[1][(logs[1]["graph"] == "ring") & (logs[1]["method"] == method)]
        axes.plot(rows["round"], rows["objective"], color=SHADES[k], label=f"{method}, simulator")
        axes.plot(
            there["round"][::3], there["objective"][::3], "o", color=SHADES[k], markersize=4, mfc="white"
        )
    axes.plot([], [], "o", color=GREY, mfc="white", label="the same in two processes")
    axes.set(yscale="log", xlabel="round", ylabel="objective")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, to)


def torch_picture(to: Path) -> None:
    """The losses of the page's first example."""
    names: dict[str, Any] = {}
    exec(blocks("torch.md", "python")[0], names)
    figure, axes = new_figure(to, (6.2, 2.6))
    axes.plot(names["losses"], color=BLUE, linewidth=1)
    axes.set(yscale="log", xlabel="round (two forward passes each)", ylabel="loss")
    save_figure(figure, to)


def trainer_picture(to: Path) -> None:
    """The losses that Trainer logs in the page's first example, of every round."""
    names: dict[str, Any] = {}
    exec(blocks("trainer.md", "python")[0].replace('"logging_steps": 20', '"logging_steps": 1'), names)
    rows = [(each["step"], each["loss"]) for each in names["trainer"].state.log_history if "loss" in each]
    rounds, losses = zip(*rows, strict=True)
    figure, axes = new_figure(to, (6.2, 2.6))
    axes.plot(rounds, losses, color=BLUE, linewidth=1)
    axes.set(xlabel="round (two forward passes each)", ylabel="loss that Trainer logs")
    save_figure(figure, to)


def tasks_picture(to: Path) -> None:
    """Labels of toy on four nodes under three splits."""
    from zocosmo.llm.rows import shards
    from zocosmo.llm.tasks import load_task

    labels = np.array([row.label for row in load_task("toy").rows("train")])
    splits = (("contiguous", {}), ("iid", {}), ("dirichlet", {"alpha": 0.3}))
    figure, panels = new_panels(to, (6.6, 2.3), 3, 3)
    for axes, (how, more) in zip(panels, splits, strict=True):
        parts = shards(labels, 4, how, tape=Tape(0), **more)
        ones = [int(labels[part].sum()) for part in parts]
        axes.bar(range(4), [len(part) - one for part, one in zip(parts, ones, strict=True)], color=RED)
        axes.bar(
            range(4), ones, bottom=[len(p) - one for p, one in zip(parts, ones, strict=True)], color=BLUE
        )
        axes.set_title(how + (", skew 0.3" if more else ""), fontsize=9)
        axes.set(xlabel="node", xticks=range(4))
    panels[0].set_ylabel("rows: terrible, great")
    save_figure(figure, to)


def budget_picture(to: Path) -> None:
    """Rounds that 26.214 Mbit per node buy at the paper's d and q, on a ring."""
    d, q, budget, f32 = 2_523_136, 8192, 26_214_400, VALUE_TYPES["f32"]
    rows = [
        (f"{name}, {codec}", budget // (links * CODECS[codec].bits(d, q, f32).payload))
        for name, links in (("one partner", 1), ("two neighbours", 2))
        for codec in ("values", "delta", "indexed")
    ][::-1]
    figure, axes = new_figure(to, (6.2, 2.4))
    axes.barh(
        [name for name, _ in rows], [count for _, count in rows], color=[RED] * 3 + [BLUE] * 3, height=0.6
    )
    for k, (_, count) in enumerate(rows):
        axes.text(count, k, f" {count}", va="center", fontsize=9)
    axes.set(xlabel="rounds for 26.214 Mbit per node", xlim=(0, 112))
    save_figure(figure, to)


def own_parts_picture(to: Path) -> None:
    """The page's method beside cosmo, on the page's graph."""
    names: dict[str, Any] = {"__name__": "mine"}
    sys.modules.setdefault("mine", type(sys)("mine"))  # dataclasses look their module up
    for block in blocks("own-parts.md", "python"):
        exec(block, names)
    graph = names["chords"](8, 3)
    figure, axes = new_figure(to, (6.2, 2.7))
    methods = {
        "SignStep of this page": names["SignStep"](q=4, eta=0.01, mu=0.01),
        "cosmo": METHODS["cosmo"](q=4, eta=0.001, mu=0.01),
    }
    for shade, (label, method) in zip(SHADES, methods.items(), strict=False):
        bits, objective = path(Run(method, graph, PROBLEMS["rosenbrock"](8, 1, d=20), 1), 300)
        axes.plot(bits, objective, color=shade, label=label)
    axes.set(yscale="log", xlabel="bits per node", ylabel="objective")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, to)


def path(run: Run, rounds: int, wire: str = "f32") -> tuple[list[float], list[float]]:
    """Bits per node and objective of a run, every ten rounds."""
    simulation, bits, objective = Simulation([run], wire=wire), [], []
    for t in range(rounds + 1):
        if t % 10 == 0:
            now = simulation.checkpoint()
            bits.append(float(sum(part[0, :3].sum() for part in now.bits.values())) / run.graph.n)
            objective.append(float(now.objective[0]))
        simulation.round()
    return bits, objective


def messages_picture(to: Path) -> None:
    """The page's comparison of wires, drawn."""
    problem = PROBLEMS["quadratic"](8, 1, d=128, omega=0.3, zeta=2.0)
    method = METHODS["edge_local"](eta=0.004, mu=1e-3, q=16, coupling="G")
    figure, axes = new_figure(to, (6.2, 2.7))
    for shade, wire in zip((GREY, YELLOW, RED, BLUE), ("f32", "f16", "mod4", "mod3"), strict=True):
        bits, objective = path(Run(method, GRAPHS["ring"](8), problem, 1), 400, wire)
        axes.plot(bits, objective, color=shade, label=wire)
    axes.set(xscale="log", yscale="log", xlabel="bits per node", ylabel="objective", xlim=(1000, None))
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, to)


def graphs_picture(to: Path) -> None:
    """Four graphs with the pairs of two rounds."""
    kinds = (("ring", {}), ("grid", {}), ("hypercube", {}), ("erdos_renyi", {"p": 0.4, "seed": 1}))
    figure, panels = new_panels(to, (6.6, 3.6), 8, 4)
    for column, (kind, more) in enumerate(kinds):
        graph = GRAPHS[kind](8, **more)
        schedule = SCHEDULES["maximal"](graph)
        whole = graph.to_networkx()
        at = nx.kamada_kawai_layout(whole) if kind == "hypercube" else nx.circular_layout(whole)
        at = {i: (i % 4, i // 4) for i in range(8)} if kind == "grid" else at
        for t in range(2):
            axes, partners = panels[column + 4 * t], schedule.partners(Tape(0), t)
            pairs = [(i, int(j)) for i, j in enumerate(partners) if i < j]
            nx.draw_networkx_edges(whole, at, ax=axes, edge_color="#d5dbe1")
            nx.draw_networkx_edges(whole, at, edgelist=pairs, ax=axes, edge_color=RED, width=3)
            nx.draw_networkx_nodes(whole, at, ax=axes, node_size=60, node_color=BLUE)
            axes.set_title(f"{kind}, round {t}", fontsize=8)
            axes.margins(0.15)
            axes.axis("off")
    save_figure(figure, to)


def sessions_picture(to: Path) -> None:
    """32 bytes of three manifests: equal, equal, and one setting different."""
    names: dict[str, Any] = {}
    exec(blocks("sessions.md", "python")[0], names)
    ours: Manifest = names["ours"]
    rows = {
        "node 0": ours,
        "node 1, same settings": Manifest.from_bytes(ours.to_bytes()),
        "node 2, q = 16": dataclasses.replace(ours, q=16),
    }
    figure, axes = new_figure(to, (6.6, 1.5))
    marks = np.array([list(manifest.fingerprint()) for manifest in rows.values()])
    axes.imshow(marks, cmap="viridis", aspect="auto", extent=(0, 32, 3, 0))
    axes.set_yticks([0.5, 1.5, 2.5], list(rows), fontsize=8)
    axes.set(xlabel="byte of the fingerprint")
    axes.hlines([1, 2], 0, 32, color="white", linewidth=4)
    save_figure(figure, to)


def finetune_picture(to: Path) -> None:
    """Accuracy on SST-2 against bits: the first generation's runs and the second's, from results/."""
    figure, axes = new_figure(to, (6.2, 2.9))
    first = read_log(RESULTS / "small-models" / "sst2-i-1540.csv").rows.groupby("round")
    axes.plot(
        first["bits"].mean()[1:] / 1e6,
        100 * first["accuracy"].mean()[1:],
        color=GREY,
        label="first generation",
    )
    studies = {"batch8": "pairs, 8 rows", "batch16": "pairs, 16 rows", "batch32": "pairs, 32 rows"}
    for shade, (name, words) in zip(SHADES, {**studies, "tree8": "a tree, 8 rows"}.items(), strict=False):
        lines = (RESULTS / "second-smollm2" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        at = [(float(row["bits"]) / 1e6, 100 * float(row["accuracy"])) for row in rows]
        axes.plot(*zip(*at, strict=True), "o", color=shade, markersize=4, label=f"second, {words}")
    axes.axhline(51.6, color="black", linestyle=":", linewidth=1)
    axes.set(xscale="log", xlabel="Mbit per node", ylabel="accuracy on SST-2, %")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, to)


def models_picture(to: Path) -> None:
    """SmolLM2 as `zocosmo model get smollm2` keeps it: weights, what is trained, what a round sends."""
    from zocosmo.llm.models import skeleton

    model = skeleton("smollm2")
    layers = [layer.self_attn for layer in model.model.layers]
    adapter = sum(8 * (p.in_features + p.out_features) for each in layers for p in (each.q_proj, each.v_proj))
    rows = {
        "values a round sends (q)": 8192,
        "adapter of rank 8 that is trained (d)": adapter,
        "weights of SmolLM2, frozen": sum(p.numel() for p in model.parameters()),
    }
    figure, axes = new_figure(to, (6.4, 1.7))
    axes.barh(list(rows), list(rows.values()), color=[RED, BLUE, GREY], height=0.6)
    for k, count in enumerate(rows.values()):
        axes.text(count, k, f" {count:,}", va="center", fontsize=9)
    axes.set(xscale="log", xlabel="numbers", xlim=(1e3, 4e9))
    save_figure(figure, to)


def living_picture(to: Path) -> None:
    """configs/network.yaml with a random record of events, and without."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "network.yaml").write_text(starter("network").text, encoding="utf-8")
        _zocosmo(folder, "churn", "network.yaml", "--term", "100", "--churn", "0.1", "--out", "events.jsonl")
        _zocosmo(folder, "run", "network.yaml", "--events", "events.jsonl", "--out", "lives")
        _zocosmo(folder, "run", "network.yaml", "--out", "quiet")
        quiet, lives = (read_log(Path(folder) / name / "log.parquet").rows for name in ("quiet", "lives"))
    figure, axes = new_figure(to, (6.2, 2.9))
    axes.plot(quiet["round"], quiet["objective"], color=GREY, label="without events")
    axes.plot(lives["round"], lives["objective"], color=BLUE, label="members come, go and lag")
    axes.set(yscale="log", xlabel="round", ylabel="objective")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, to)


def scale_picture(to: Path) -> None:
    """The table of rounds in network-scale.md."""
    text = (DOCS / "network-scale.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ([\d,]+) \| ([\d,.]+) s \| ([\d,.]+) s \| ([\d,.]+) s \|", text, re.M)
    members, *seconds = np.array([[float(each.replace(",", "")) for each in row] for row in cells]).T
    figure, axes = new_figure(to, (6.2, 2.7))
    for shade, label, each in zip(
        (GREY, YELLOW, BLUE), ("all wait for all", "pairs wait", "soft deadline"), seconds, strict=True
    ):
        axes.loglog(members, each, "o-", color=shade, label=label, markersize=4)
    axes.set(xlabel="members", ylabel="seconds a round")
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, to)


PICTURES: dict[str, Callable[[Path], None]] = {
    "minimize": minimize_picture,
    "queries": queries_picture,
    "tutorial-compare": compare_picture,
    "runtime": runtime_picture,
    "torch": torch_picture,
    "trainer": trainer_picture,
    "tasks": tasks_picture,
    "models": models_picture,
    "model-studies": budget_picture,
    "methods": methods_picture,
    "own-parts": own_parts_picture,
    "graphs": graphs_picture,
    "messages": messages_picture,
    "sessions": sessions_picture,
    "finetune": finetune_picture,
    "living": living_picture,
    "network-scale": scale_picture,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](DOCS / "img" / f"{name}.svg")
