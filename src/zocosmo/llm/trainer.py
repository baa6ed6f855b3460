"""CosmoTrainer: Hugging Face's Trainer without gradients, on one node or several."""

import contextlib
import copy
import itertools
import json
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments, set_seed

from zocosmo.dist.seal import read_key
from zocosmo.errors import InputError
from zocosmo.llm.arguments import CosmoConfig, alone
from zocosmo.llm.sampling import blocks
from zocosmo.llm.select import suggest_q
from zocosmo.torch import Cosmo
from zocosmo.torch.coordinates import UNLIKE, fingerprint

DIFFERENT = (  # ways in which a rank differs from rank 0
    "resumes from round {}, rank 0 from {}; resume all ranks from checkpoints of one round",
    "would run {} rounds, rank 0 {}; give all ranks the same max_steps",
    UNLIKE,
)
# arguments of the second generation, as Cosmo calls them
SECOND = ("subspace", "directions", "signs", "rows", "step", "rule", "correction", "tree")


class TrainerCosmo(Cosmo):
    """Cosmo for Trainer and accelerate: `training_step` runs the round, and Trainer's step does nothing."""

    _is_accelerate_prepared = True  # or accelerate wraps it and moves its state to a device and back
    step_was_skipped = False

    def step(self, closure: Callable[[], Any] | None = None) -> float | None:  # type: ignore[override]
        return None if closure is None else super().step(closure)


class CosmoCallback(TrainerCallback):
    """Checks that nodes start alike, and adds the bits sent to the logs."""

    def __init__(self, optimizer: Cosmo) -> None:
        self.optimizer, self._starts = optimizer, itertools.count()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        t, left = self.optimizer.t, state.max_steps - state.global_step
        if state.global_step > 0 and t == 0:
            raise InputError(
                f"the checkpoint of round {state.global_step} has no optimizer.pt, so supports would repeat "
                "from round 0; save with save_only_model=False, or start a new run from its weights"
            )
        if self.optimizer.peer is None:
            return
        mine = json.dumps([t, left, "" if t else fingerprint(parameters(self.optimizer))])
        published = self.optimizer.peer.job.publish(f"train/{next(self._starts)}", mine.encode())
        first, *others = [json.loads(each) for each in published]
        for rank, other in enumerate(others, 1):
            for text, mine, theirs in zip(DIFFERENT, first, other, strict=True):
                if mine != theirs:
                    raise InputError(f"rank {rank} {text.format(theirs, mine)}")

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        if logs is None or "loss" not in logs:
            return
        for record in (logs, state.log_history[-1]):
            record.pop("grad_norm", None)
            record["bits_sent"] = self.optimizer.ledger.sent_by(self.optimizer.node).payload


class CosmoTrainer(Trainer):
    """Trainer whose training step is one round: two losses of a batch, no gradient, q values to neighbours.

        args = CosmoConfig("out", q=1000, graph="ring", max_steps=500)
        trainer = CosmoTrainer(model, args, train_dataset=data.shard(args.nodes, args.node))
        trainer.train()

    Takes Trainer's arguments, and `peft_config`, which adds an adapter, the same on all nodes. `compute_loss`
    may be overridden as usual. All processes must create their trainers in the same order.
    """

    optimizer: Cosmo

    def __init__(
        self, model: nn.Module, args: CosmoConfig, *rest: Any, peft_config: Any = None, **given: Any
    ) -> None:
        if not isinstance(args, CosmoConfig):
            raise InputError(f"args must be a CosmoConfig, got a {type(args).__name__}; build one")
        if not isinstance(model, nn.Module) or given.get("model_init") is not None:
            what = "a model_init" if isinstance(model, nn.Module) else f"a {type(model).__name__} as model"
            raise InputError(f"model must be a torch module, got {what}; load the model and pass it")
        if any(given.get("optimizers") or ()) or given.get("optimizer_cls_and_kwargs") is not None:
            raise InputError("CosmoTrainer creates its own optimizer; set lr_scheduler_type, not optimizers")
        if peft_config is not None:
            from peft import PeftConfig, PeftModel, get_peft_model

            if not isinstance(peft_config, PeftConfig):
                what = type(peft_config).__name__
                raise InputError(f"peft_config must be a PEFT config such as LoraConfig, got a {what}")
            if isinstance(model, PeftModel):
                raise InputError("the model already has an adapter, which is trained; omit peft_config")
            set_seed(args.seed)  # the same random adapter on all nodes
            model = get_peft_model(model, peft_config)
        with alone():
            super().__init__(model, args, *rest, **given)
        self.optimizer = self._build(model, args)
        ours = CosmoCallback(self.optimizer)
        self.callback_handler.callbacks.insert(0, ours)  # before callbacks that read logs
        self._last = torch.tensor(math.nan)
        weakref.finalize(self, self.optimizer.close)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """One round on a batch. Returns the loss, or the previous one if this node has no partner."""
        model.train()
        inputs = self._prepare_inputs(inputs)

        def closure(k: int = 0, of: int = 1) -> Any:
            batch, items = copy.copy(inputs), num_items_in_batch  # compute_loss may remove the labels
            if of > 1:
                batch = block_of(batch, k, of)
                items = self._get_num_items_in_batch([batch], self.args.device)
            with self.compute_loss_context_manager():
                return self.compute_loss(model, batch, num_items_in_batch=items)

        try:
            loss = self.optimizer.step(closure)
        except BaseException as error:
            if self.optimizer.peer is not None:  # report the cause to the other nodes
                self.optimizer.__exit__(type(error), error, error.__traceback__)
            raise
        if loss is not None:
            self._last = torch.tensor(loss)
        return self._last.to(self.args.device)

    @contextlib.contextmanager
    def consensus(self) -> Iterator[None]:
        """Hold the average of all nodes' weights inside the block, and restore this node's after it.

        All nodes must enter together. All parameters travel to node 0 and back; as a measurement, this is not
        charged to the ledger.
        """
        if self.optimizer.peer is None:
            yield
            return
        tensors, channel = parameters(self.optimizer), self.optimizer.peer.channel
        mine = [p.detach().clone() for p in tensors]
        row = torch.cat([p.reshape(-1).double().cpu() for p in mine]).numpy()
        rows = channel.collect(row[None])
        average = torch.tensor(channel.spread(row if rows is None else rows.mean(axis=0)))
        _write(tensors, torch.split(average, [p.numel() for p in tensors]))
        try:
            yield
        finally:
            _write(tensors, mine)

    def _build(self, model: nn.Module, args: CosmoConfig) -> Cosmo:
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            raise InputError("no parameter of the model has requires_grad set; set it for those to train")
        graph, d = args.build_graph(), sum(p.numel() for p in trained)
        return TrainerCosmo(
            trained,
            lr=args.learning_rate,
            q=suggest_q(args.subspace or d) if args.q is None else args.q,
            seed=args.tape,
            mu=args.mu,
            momentum=args.momentum,
            graph=graph,
            schedule=args.schedule if graph else None,
            coupling=args.coupling if graph else "I",
            wire=args.wire,
            **{name: vars(args)[name] for name in SECOND},
            key=None if args.key_file is None else read_key(args.key_file),
            deadline=args.deadline,
            listen=args.listen,
        )


def parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """An optimizer's parameters, in order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def block_of(inputs: dict[str, Any], k: int, of: int) -> dict[str, Any]:
    """Block k of `of` of a batch: some rows of each tensor that has one for each example."""
    sizes = {key: len(part) for key, part in inputs.items() if isinstance(part, torch.Tensor) and part.ndim}
    size = max(sizes.values(), default=0)
    if size < of:
        raise InputError(f"{of} directions cannot split a batch of {size} rows; lower directions")
    cut = blocks(size, of)[k]
    return {key: part[cut] if sizes.get(key) == size else part for key, part in inputs.items()}


@torch.no_grad()
def _write(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    for p, row in zip(tensors, values, strict=True):
        p.copy_(row.reshape(p.shape))
