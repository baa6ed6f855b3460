"""All queries of a round in one forward, against one forward each; and what a round costs beside its forward.

    python benchmarks/fused.py --shape smollm2            # on a GPU, or --shape tiny anywhere
    python benchmarks/fused.py --shape 7b --dtype bfloat16
    python benchmarks/fused.py --shape smollm2 --dtype tf32 --nodes 4 --batch 16 --tokens 32 \
        --subspace 4096 --directions 8 16

Random weights of the given shape: time does not depend on them. Eight nodes on a ring, edge_local, q = 8192,
β = 0.9, batches of 4 × 64 tokens. On a GPU a short forward is recorded and replayed; "started one by one" are
its kernels without that. The ways alternate within one run; medians are shown, and the median
of how much longer a fused round takes than the forward right before it.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from zocosmo.graphs import GRAPHS
from zocosmo.llm.adapters import Layout
from zocosmo.llm.backbone import Backbone
from zocosmo.llm.batches import Examples
from zocosmo.llm.problem import LanguageModel
from zocosmo.methods import METHODS
from zocosmo.problems.subspace import in_subspace
from zocosmo.sim.engine import Run, Simulation

SHAPES = {
    "tiny": LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
    ),
    "smollm2": LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49152,
        tie_word_embeddings=True,
    ),
    "7b": Qwen2Config(
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        vocab_size=152064,
        tie_word_embeddings=False,
    ),
}


class Made:
    """A subject made up on the spot: random weights, random tokens, all examples equally long."""

    shapes = ()  # methods here need no matrices

    def __init__(self, options: argparse.Namespace, queries: str, backbone: Backbone | None) -> None:
        config = SHAPES[options.shape]
        with torch.device("meta"):
            skeleton = AutoModelForCausalLM.from_config(config)
        self.layout = Layout(skeleton, rank=8, alpha=16.0, targets="q_proj,v_proj")
        self.d, self.x0 = self.layout.d, self.layout.start(0)
        rng = np.random.default_rng(0)
        tokens = list(rng.integers(0, config.vocab_size, (512, options.tokens), dtype=np.int32))
        self.train = self.validation = Examples(tokens, rng.integers(0, 2, 512))
        self.backbone = backbone or self._backbone(config, options)
        self.setting = Settings(batch=options.batch, queries=queries, device=options.device)

    def _backbone(self, config, options):
        kind = {"bfloat16": torch.bfloat16}.get(options.dtype, torch.float32)
        with torch.device(options.device):
            model = AutoModelForCausalLM.from_config(config, dtype=kind).eval().requires_grad_(False)
        return Backbone(model, self.layout, np.array([1, 2]), tf32=options.dtype == "tf32")

    def check_points(self, rows, directions):
        """There is room."""

    def shards(self, n, tape):
        return np.array_split(np.arange(len(self.train)), n)


class Settings(SimpleNamespace):
    __hash__ = object.__hash__
    clip, noise, eval_batch, together, rows = 0.9, 0.0, 64, 1, "split"


def timed(call, device: str) -> float:
    """Seconds of one call, the device's work included."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)
    wait()
    began = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - began


def simulation(made: Made, nodes: int, subspace: int = 0, directions: int = 1) -> Simulation:
    problem = LanguageModel.build(made, nodes, 0)
    if not subspace:
        method = METHODS["edge_local"](q=min(8192, made.d // 2), eta=1e-4, mu=1e-2, beta=0.9)
        return Simulation([Run(method, GRAPHS["ring"](nodes), problem, 0)], wire="f32", dtype="float32")
    several = {"directions": directions, "signs": "orthogonal", "step_rule": "normalised", "coupling": "G"}
    method = METHODS["edge_local"](q=subspace // 16, eta=1e-3, mu=1e-2, wire="mod4", **several)
    run = Run(method, GRAPHS["ring"](nodes), in_subspace(problem, subspace, 0), 0)
    return Simulation([run], dtype="float32")


def by_directions(made: Made, options: argparse.Namespace, forward) -> None:
    """Rounds in a subspace with several directions on the rows of one batch, beside one direction."""
    several = (1, *options.directions)
    rounds = {k: simulation(made, options.nodes, options.subspace, k).round for k in several}
    for warm in (*rounds.values(), forward) * 3:
        warm()
    each: dict[int, list[float]] = {k: [] for k in (0, *several)}
    for _ in range(options.repeats):
        for k, call in {0: forward, **rounds}.items():
            each[k].append(timed(call, options.device))
    for k in several:
        beside = statistics.median(1 - alone / whole for alone, whole in zip(each[0], each[k], strict=True))
        longer = statistics.median(whole / one for one, whole in zip(each[1], each[k], strict=True))
        median = 1e3 * statistics.median(each[k])
        print(f"  K = {k:2}  {median:9.2f} ms   {longer:.3f} × K = 1; {beside:.1%} of it is not the forward")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--dtype", choices=("float32", "tf32", "bfloat16"), default="float32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--subspace", type=int, default=0, help="rounds of the second generation in one")
    parser.add_argument("--directions", type=int, nargs="*", default=[], help="K, each dividing the batch")
    parser.add_argument("--to", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args()

    made = Made(options, "fused", None)
    fused = simulation(made, options.nodes)
    single = simulation(Made(options, "one_by_one", made.backbone), options.nodes)
    rows = torch.from_numpy(np.tile(made.x0, (2 * options.nodes, 1))).to(options.device)
    batch = fused.problem.sampler.batch(0, np.arange(options.nodes), 2)

    def forward() -> None:
        made.backbone.losses(rows, batch)[0].cpu()

    def started() -> None:
        made.backbone.replay_both.fails = True
        fused.round()
        made.backbone.replay_both.fails = False

    if options.subspace:
        return by_directions(made, options, forward)
    calls = {"one by one": single.round, "started one by one": started, "forward alone": forward}
    calls["fused"] = fused.round
    for warm in (*calls.values(), *calls.values()):
        warm()
    each: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(options.repeats):
        for name, call in calls.items():
            if name in ("forward alone", "fused") or repeat % 3 == 0:
                each[name].append(timed(call, options.device))
    found = {name: 1e3 * statistics.median(times) for name, times in each.items()}
    found["means"] = {name: 1e3 * statistics.fmean(times) for name, times in each.items()}
    speedup = found["one by one"] / found["fused"]
    pairs = zip(each["forward alone"], each["fused"], strict=True)
    beside = statistics.median(1 - alone / whole for alone, whole in pairs)
    about = f"{options.shape} {options.dtype} on {options.device}, {options.nodes} nodes, d = {made.d:,}"
    print(f"{about}, {options.batch} × {options.tokens} tokens")
    for name in each:
        print(f"  {name:18} {found[name]:9.2f} ms   (mean {found['means'][name]:.2f})")
    print(f"  fused is {speedup:.1f} times as fast; {beside:.1%} of a fused round is not its forward")
    if options.to:
        found |= {"about": about, "speedup": speedup, "beside": beside}
        options.to.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
