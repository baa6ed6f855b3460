"""One of two processes of the trainer's tests: run by `test_trainer`, never by pytest.

Goes through all cases with its peer, and writes what it found to found.RANK in the folder it is given.
"""

import contextlib
import json
import os
import runpy
import sys
import warnings
from pathlib import Path

import torch

from llm.tiny import tiny_model
from zocosmo.errors import ZocosmoError
from zocosmo.graphs import complete
from zocosmo.llm import CosmoConfig, CosmoTrainer
from zocosmo.torch import Cosmo

N, ROUNDS, BATCH = 2, 6, 4
STEP = {"mu": 2**-9, "q": 40, "momentum": 0.5}
RATE = 2**-6
SECOND = {"subspace": 300, "directions": 3, "signs": "orthogonal", "rows": "split", "step": "normalised"}
SECOND |= {"rule": "balanced", "correction": 0.125, "momentum": 0.0, "wire": "mod4"}
RANK = int(os.environ.get("RANK", 0))
QUIET = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "logging_steps": 2}
EXAMPLE = Path(__file__).parents[2] / "examples" / "trainer_cosmo.py"


def examples(part, size=ROUNDS * BATCH):
    """Rows of tokens, others for each part; the model is to say them again."""
    coins = torch.Generator().manual_seed(1 + part)
    rows = torch.randint(0, 100, (size, 5), generator=coins)
    return [{"input_ids": row, "labels": row.clone()} for row in rows]


def config(folder, **given):
    """Rounds on examples in order, with the numbers of STEP."""
    about = {
        "max_steps": ROUNDS,
        "per_device_train_batch_size": BATCH,
        "learning_rate": RATE,
        "tape_seed": "t",
    }
    about |= {"train_sampling_strategy": "sequential", "save_strategy": "no", **QUIET, **STEP, **given}
    return CosmoConfig(str(folder), **about)


def by_hand(model, rows, /, **given):
    """The same rounds in a loop of one's own: a linear schedule, and the loss as Trainer asks for it."""
    trained = [p for p in model.parameters() if p.requires_grad]
    with Cosmo(trained, lr=RATE, seed="t", **{**STEP, **given}) as optimizer:
        for t in range(ROUNDS):
            optimizer.param_groups[0]["lr"] = RATE * ((ROUNDS - t) / ROUNDS)
            batch = torch.stack([row["input_ids"] for row in rows[BATCH * t : BATCH * (t + 1)]])

            def loss(k=0, of=1, whole=batch):
                x = whole[k * BATCH // of : (k + 1) * BATCH // of]
                items = torch.tensor(x[:, 1:].numel())
                return model(input_ids=x, labels=x, num_items_in_batch=items).loss

            optimizer.step(loss)
    return hex_of(model)


def hex_of(model):
    """All parameters, to the bit."""
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters()).hex()


def trained(folder, resume=None, model=None, **given):
    trainer = CosmoTrainer(model or tiny_model(), config(folder, **given), train_dataset=examples(RANK))
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def plain(folder):
    """Rounds as they should be, and what they cost."""
    trainer = trained(folder, graph="complete")
    args = trainer.args
    sent = [each["bits_sent"] for each in trainer.state.log_history if "bits_sent" in each]
    wrapped = type(trainer.model_wrapped).__name__
    about = {"sent": sent, "folder": args.output_dir, "wrapped": wrapped, "world": args.world_size}
    return {"x": hex_of(trainer.model), "seen": trainer.num_examples(trainer.get_train_dataloader()), **about}


def averaged(folder):
    """A number inside and outside of `consensus`, on parameters that differ between nodes."""
    trainer = trained(folder)
    weight = next(trainer.model.parameters())
    with torch.no_grad():
        weight.fill_(1.0 + 2 * RANK)
    with trainer.consensus():
        inside, loss = weight.unique().tolist(), trainer.evaluate(examples(9))["eval_loss"]
    return {"inside": inside, "after": weight.unique().tolist(), "loss": loss}


def line_of(folder, **given):
    """The line that training ends with."""
    try:
        trained(folder, **given)
    except ZocosmoError as error:
        return f"{type(error).__name__}: {error}"
    return ""


class Fails(CosmoTrainer):
    """Its loss is no number at node 1 in round 3."""

    def compute_loss(self, *args, **given):
        loss = super().compute_loss(*args, **given)
        return loss * float("nan") if (RANK, self.optimizer.t) == (1, 3) else loss


def line_of_the_lost(folder):
    try:
        Fails(tiny_model(), config(folder), train_dataset=examples(RANK)).train()
    except ZocosmoError as error:
        return f"{type(error).__name__}: {error}"


def example(folder):
    """The example as a user starts it; how many lines it prints here."""
    sys.argv = [str(EXAMPLE), "--rounds", "10", "--out", str(folder)]
    out = Path(folder, f"printed.{RANK}")
    with out.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    return out.read_text(encoding="utf-8")


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    folder, pairs = Path(sys.argv[1]), {"schedule": "auto"}
    kept = f"{folder}/pairs/rank-{RANK}/checkpoint-"
    found = {
        "plain": plain(folder / "plain"),
        "by_hand": by_hand(tiny_model(), examples(RANK), graph=complete(N)),
        "pairs": hex_of(trained(folder / "pairs", save_strategy="steps", save_steps=3, **pairs).model),
        "resumed": hex_of(trained(folder / "pairs", kept + "3", **pairs).model),
        "second": hex_of(
            trained(folder / "second", save_strategy="steps", save_steps=3, **pairs, **SECOND).model
        ),
        "second by hand": by_hand(tiny_model(), examples(RANK), graph=complete(N), **pairs, **SECOND),
        "second resumed": hex_of(
            trained(folder / "second", f"{folder}/second/rank-{RANK}/checkpoint-3", **pairs, **SECOND).model
        ),
        "average": averaged(folder / "average"),
        "rounds": line_of(folder / "rounds", max_steps=ROUNDS + RANK),
        "weights": line_of(folder / "weights", model=tiny_model(seed=RANK)),
        "apart": line_of(folder / "pairs", resume=f"{kept}{3 + 3 * RANK}", **pairs),
        "seeds": line_of(folder / "seeds", tape_seed=f"of {RANK}"),
        "lost": line_of_the_lost(folder / "lost"),
        "group": torch.distributed.is_initialized(),
        "example": example(folder),
    }
    Path(folder, f"found.{RANK}").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
