"""CosmoConfig: the arguments of Trainer, plus those of a node."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from transformers import TrainingArguments
from transformers.utils import logging

from zocosmo.core.coupling import COUPLINGS
from zocosmo.core.signs import SIGNS
from zocosmo.core.tape import Seed, Tape
from zocosmo.core.wires import WIRES
from zocosmo.dist.deadline import Deadline
from zocosmo.dist.rendezvous import check_address, is_launched
from zocosmo.dist.seal import read_key
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.graph import GRAPHS, Graph
from zocosmo.graphs.matching import SCHEDULES
from zocosmo.methods.base import RULES, World, check_number
from zocosmo.methods.several import StepRule

NAMED = ("ring", "path", "star", "complete", "grid", "torus", "hypercube")  # graphs described by n alone
HIDDEN = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"),  # accelerate reads these too
)
WHOLE = "a node holds its whole model on one device; leave it out"
TYPED = "the loss is computed in the type of the weights; load the model with dtype='{}' instead"
NO_GRADIENT = "there are no gradients; leave it out"

# Options of Trainer that have no meaning here or would break a round: the value allowed, and the remedy.
REFUSED: dict[str, tuple[Any, str]] = {
    "gradient_accumulation_steps": (1, "a round has one batch; raise per_device_train_batch_size"),
    "fp16": (False, TYPED.format("float16")),
    "bf16": (False, TYPED.format("bfloat16")),
    "fp16_full_eval": (False, TYPED.format("float16")),
    "bf16_full_eval": (False, TYPED.format("bfloat16")),
    "deepspeed": (None, WHOLE),
    "fsdp": (None, WHOLE),
    "parallelism_config": (None, WHOLE),
    "max_grad_norm": (0.0, NO_GRADIENT),
    "gradient_checkpointing": (False, NO_GRADIENT),
    "weight_decay": (0.0, "Cosmo has no weight decay; leave it out"),
    "auto_find_batch_size": (False, "one node cannot repeat a round by itself; set the batch size"),
    "optim": (TrainingArguments.optim, "the optimizer is zocosmo.torch.Cosmo; leave it out"),
}
ACCELERATE = {  # set by `accelerate launch`; the values allowed
    "ACCELERATE_USE_DEEPSPEED": ("false", "0", ""),
    "ACCELERATE_USE_FSDP": ("false", "0", ""),
    "ACCELERATE_MIXED_PRECISION": ("no", ""),
}


def _option(default: Any, about: str) -> Any:
    return field(default=default, metadata={"help": about})


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hide the other processes from accelerate, which would split the data and average gradients."""
    kept = {name: os.environ.pop(name) for name in HIDDEN if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


@dataclass
class CosmoConfig(TrainingArguments):
    """TrainingArguments of a node that needs only losses. All options are checked before work starts.

    Launched as one of several processes, this is node `node` of `nodes`; Trainer sees a single process. Files
    go to output_dir/rank-`node`; only node 0 writes to the console and to logging integrations.
    `dataset.shard(args.nodes, args.node)` is this node's part of the data.
    """

    q: int | None = _option(None, "Parameters touched in a round; 8192, or an eighth if that is less.")
    mu: float = _option(3e-3, "Distance of the two queries from the parameters.")
    momentum: float = _option(0.9, "Momentum of the step, between 0 and 1.")
    tape_seed: str | None = _option(None, "Seed of the tape, the same at all nodes; default: seed.")
    graph: str = _option("ring", f"The graph of nodes: {', '.join(NAMED)}.")
    schedule: str | None = _option(None, "Mix in pairs of a matching, not with all neighbours: auto, ….")
    coupling: str = _option("I", "What the pairs of a matching share: G, S or I.")
    wire: str = _option("f32", "How values cross links: f32, f16, bf16, f64, mod2 … mod8, or grid2 … grid8.")
    subspace: int | None = _option(None, "Dimensions of a public subspace in which parameters move.")
    directions: int = _option(1, "Sign vectors on the support of a round.")
    signs: str = _option("independent", "Their signs: independent or orthogonal.")
    rows: str | None = _option(None, "split: each direction has its own rows of the batch.")
    step: str = _option("plain", "normalised: learning_rate is the length of a step.")
    rule: str = _option("uniform", "Supports: uniform or balanced.")
    correction: float = _option(0.0, "Share of what mixing changed that later steps make up for, 0 to 1.")
    tree: bool = _option(False, "Nodes step by the mean of their slopes, over a spanning tree.")
    key_file: str | None = _option(None, "File with the key that seals messages; see zocosmo.dist.seal.")
    deadline: float = _option(1800.0, "Seconds to wait for a peer, its evaluations and saves included.")
    listen: str | None = _option(None, "Address of this machine, if processes run on several.")
    learning_rate: float = _option(2e-3, "The initial step size.")
    log_level_replica: str = _option("error", "Log level at nodes other than 0.")
    max_grad_norm: float = _option(0.0, "There are no gradients to clip.")

    def __post_init__(self) -> None:
        env = os.environ
        self.node, self.nodes = (int(env["RANK"]), int(env["WORLD_SIZE"])) if is_launched() else (0, 1)
        self._check_options()
        self._check_numbers()
        self._check_session()
        with alone():
            super().__post_init__()  # type: ignore[no-untyped-call]
        self._take_one_device()
        if self.node > 0:
            logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        assert self.output_dir is not None
        if self.nodes > 1 and Path(self.output_dir).name != f"rank-{self.node}":
            self.output_dir = str(Path(self.output_dir, f"rank-{self.node}"))

    @property
    def process_index(self) -> int:
        """Trainer writes logs in process 0."""
        return self.node

    @property
    def local_process_index(self) -> int:
        """As `process_index`: all nodes share one console."""
        return self.node

    @property
    def should_save(self) -> bool:
        """Every node saves, as their parameters differ."""
        return True

    @property
    def tape(self) -> Seed:
        """The seed of the tape."""
        return self.seed if self.tape_seed is None else self.tape_seed

    def build_graph(self) -> Graph | None:
        """The graph over all processes; None for one."""
        return GRAPHS[self.graph](self.nodes) if self.nodes > 1 else None

    def _check_options(self) -> None:
        for name, (allowed, instead) in REFUSED.items():
            given = getattr(self, name)
            if given and given != allowed:
                raise InputError(f"{name} = {given} was given; {instead}")
        for name, allowed in ACCELERATE.items():
            if os.environ.get(name, "").lower() not in allowed:
                raise InputError(f"{name} is {os.environ[name]!r}; start with torchrun or zocosmo launch")

    def _check_numbers(self) -> None:
        if self.q is not None:
            check_whole("q", self.q, 1)
        check_number("mu", self.mu, 0, open_below=True)
        check_number("momentum", self.momentum, 0, 1, open_above=True)
        check_number("learning_rate", self.learning_rate, 0)
        Tape(self.tape)
        self._check_second()

    def _check_second(self) -> None:
        """Several directions and a subspace; the optimizer checks what depends on the model."""
        check_whole("directions", self.directions, 1)
        check_known("signs", self.signs, SIGNS)
        check_known("step", self.step, get_args(StepRule))
        check_known("rule", self.rule, RULES)
        check_number("correction", self.correction, 0, 1)
        if self.subspace is not None:
            check_whole("subspace", self.subspace, 1)
        if self.rows is None:
            return
        check_known("rows", self.rows, ("split",))
        self.dataloader_drop_last = True  # a last, shorter batch may have fewer rows than directions
        if self.directions > (size := self.per_device_train_batch_size):
            raise InputError(
                f"{self.directions} directions cannot split a batch of {size}; "
                "lower directions, or raise per_device_train_batch_size"
            )

    def _check_session(self) -> None:
        check_known("graph", self.graph, NAMED)
        check_known("schedule", self.schedule or "auto", ("auto", *SCHEDULES))
        check_known("coupling", self.coupling, COUPLINGS)
        check_known("wire", self.wire, WIRES)
        if self.tree:
            self._check_tree()
        if self.schedule is None and self.coupling != "I":
            raise InputError(f"coupling {self.coupling!r} needs pairs; give a schedule, or leave it out")
        Deadline(self.deadline)
        if self.key_file is not None:
            read_key(self.key_file)
        if self.listen is not None:
            check_address(self.listen)
        graph = self.build_graph()
        if graph is not None and self.schedule is not None:
            _ = World(graph, 1, self.schedule).schedule

    def _check_tree(self) -> None:
        """What a mean over a tree has no use for."""
        if self.schedule is not None:
            raise InputError(
                f"schedule {self.schedule!r} pairs nodes, and a tree has no pairs; leave one out"
            )
        for name in ("momentum", "correction"):
            if given := getattr(self, name):
                raise InputError(f"a mean over a tree has no {name}, got {given}; set {name} to 0")
        if self.step == "normalised_local":
            raise InputError("over a tree all know the scale of a step; set step to normalised")
        if WIRES[self.wire].linked:
            raise InputError(f"a mean over a tree cannot use wire {self.wire}; use f32, or grid3 … grid8")

    def _take_one_device(self) -> None:
        """Give each process of a machine one GPU in turn; Trainer would use all of them in each."""
        if self.device.type == "cuda":
            place = int(os.environ.get("LOCAL_RANK", self.node)) if self.nodes > 1 else 0
            device = torch.device("cuda", place % torch.cuda.device_count())
            torch.cuda.set_device(device)
            self.__dict__["_setup_devices"], self._n_gpu = device, 1
