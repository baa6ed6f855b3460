"""Many adapters in one forward: each row as it would be alone, and as PEFT computes it.

Tolerances in float32: a logit here is of order 1 after a few hundred roundings of 6e-8, which add up to 1e-6
if they add like noise; 1e-5 is ten times that, and a hundredth of what a wrong adapter changes.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from llm.tiny import tiny_model  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.llm.adapters import Layout  # noqa: E402
from zocosmo.llm.backbone import Backbone, pick_device  # noqa: E402
from zocosmo.llm.batches import Examples  # noqa: E402

CPU = torch.device("cpu")
CLOSE = 1e-5
WORDS = np.array([7, 100, 31])
LENGTHS = (4, 9, 2, 7, 7, 12)


def backbone(family="llama", dtype=torch.float32, **given):
    layout = Layout(tiny_model(family), rank=2, alpha=3.0, targets="all-linear")
    return Backbone(tiny_model(family).to(dtype), layout, WORDS, **given)


def adapters(d, rows, seed=0):
    return 0.3 * torch.randn((rows, d), generator=torch.Generator().manual_seed(seed))


def examples(lengths=LENGTHS):
    coins = np.random.default_rng(1)
    return Examples(
        [coins.integers(1, 256, k).astype(np.int32) for k in lengths], np.arange(len(lengths)) % 3
    )


def batch(*rows):
    return examples().batch(np.array(rows or range(len(LENGTHS))), CPU)


def adapted(at, x, family="llama"):
    """PEFT's own model with adapter x."""
    model = peft.get_peft_model(tiny_model(family), at.layout.config)
    matrices = {name: torch.from_numpy(each) for name, each in at.layout.matrices(x.numpy()).items()}
    peft.set_peft_model_state_dict(model, matrices)
    return model.eval()


@torch.inference_mode()
def last_logits(model, given):
    out = model(input_ids=given.tokens, attention_mask=given.mask, position_ids=given.places)
    return out.logits[:, -1].double().numpy()


def entropies(scores, labels):
    """−log softmax by hand."""
    top = scores.max(axis=1, keepdims=True)
    total = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
    return total - scores[np.arange(len(labels)), labels]


# Rows


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_one_row_is_pefts_own_forward(family):
    at = backbone(family)
    x, given = adapters(at.layout.d, 1), batch()
    told = entropies(last_logits(adapted(at, x[0], family), given)[:, WORDS], given.labels.numpy())
    losses, _ = at.losses(x, given)
    plain, _ = at.losses(torch.zeros_like(x), given)
    assert np.abs(losses.numpy() - told).max() < CLOSE
    assert (losses - plain).abs().max() > 1e-2  # it does something


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_rows_of_one_forward_are_as_many_forwards(family):
    """Example k has adapter k // b."""
    at = backbone(family)
    x = adapters(at.layout.d, 3)
    together, right = at.losses(x, batch())
    alone = [at.losses(x[r : r + 1], batch(2 * r, 2 * r + 1)) for r in range(3)]
    assert (together - torch.cat([losses for losses, _ in alone])).abs().max() < CLOSE
    assert torch.equal(right, torch.cat([hits for _, hits in alone]))


def test_the_adapter_of_a_row_never_touches_another_rows_losses():
    at = backbone()
    x = adapters(at.layout.d, 3)
    before, _ = at.losses(x, batch())
    x[1] = 5 * adapters(at.layout.d, 1, seed=9)[0]
    after, _ = at.losses(x, batch())
    same = [0, 1, 4, 5]
    assert torch.equal(before[same], after[same])
    assert (before[[2, 3]] != after[[2, 3]]).all()


def test_a_forward_leaves_the_adapters_alone_and_the_model_plain():
    at = backbone()
    x, plain = adapters(at.layout.d, 2), last_logits(at.model, batch())
    kept = x.clone()
    at.losses(x, batch())
    assert torch.equal(x, kept)
    assert (last_logits(at.model, batch()) == plain).all()


def test_a_forward_that_fails_leaves_the_model_plain():
    at = backbone()
    plain = last_logits(at.model, batch())
    with pytest.raises(IndexError):
        at.losses(adapters(at.layout.d, 2), batch()._replace(tokens=batch().tokens + 10**6))
    assert (last_logits(at.model, batch()) == plain).all()


# Half precision


def test_adapters_stay_float32_beside_a_bfloat16_model():
    """x and x (1 + 2⁻¹⁰) are the same in bfloat16, which has 8 bits; ΔW x is not, if kept in float32."""
    at = backbone(dtype=torch.bfloat16)
    x = adapters(at.layout.d, 1).bfloat16().float()
    near = x * (1 + 2.0**-10)
    assert torch.equal(near.bfloat16(), x.bfloat16())
    assert not torch.equal(at.losses(x, batch())[0], at.losses(near, batch())[0])


def test_a_bfloat16_model_gives_the_losses_of_float32_to_its_own_precision():
    """Logits of order 1 in 8 bits: 2⁻⁹ each at the end, and some of that on the way; 0.05 is 25 of them."""
    half, full = backbone(dtype=torch.bfloat16), backbone()
    x = adapters(full.layout.d, 2)
    apart = (half.losses(x, batch())[0] - full.losses(x, batch())[0]).abs()
    assert 0 < apart.max() < 0.05
    assert half.losses(x, batch())[0].dtype == torch.float64


# Losses


def test_label_and_vocabulary_losses_are_those_computed_by_hand():
    """From the same logits in double precision: sums of 3 or 300 terms, so 1e-12."""
    given, x = batch(), torch.zeros((1, backbone().layout.d))  # B = 0: the model as it is
    logits, labels = last_logits(tiny_model(), given), given.labels.numpy()
    by_label, right = backbone().losses(x, given)
    by_word, _ = backbone(loss="vocabulary").losses(x, given)
    assert np.abs(by_label.numpy() - entropies(logits[:, WORDS], labels)).max() < 1e-12
    assert np.abs(by_word.numpy() - entropies(logits, WORDS[labels])).max() < 1e-12
    assert right.tolist() == (logits[:, WORDS].argmax(axis=1) == labels).tolist()


def test_both_losses_agree_on_who_is_right():
    given, x = batch(), adapters(backbone().layout.d, 1)
    (_, label), (_, vocabulary) = (backbone(loss=loss).losses(x, given) for loss in ("label", "vocabulary"))
    assert label.tolist() == vocabulary.tolist()


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_padding_on_the_left_does_not_change_a_loss(family):
    at = backbone(family)
    x = adapters(at.layout.d, 1)
    padded, _ = at.losses(x, batch())  # up to ten of twelve places are padding
    alone = torch.cat([at.losses(x, batch(k))[0] for k in range(len(LENGTHS))])
    assert (padded - alone).abs().max() < CLOSE


def test_what_stands_in_the_padding_does_not_matter():
    at = backbone()
    given, x = batch(), adapters(at.layout.d, 1)
    other = given._replace(tokens=torch.where(given.mask == 1, given.tokens, 99))
    assert torch.equal(at.losses(x, given)[0], at.losses(x, other)[0])


def test_an_unknown_loss_is_refused():
    with pytest.raises(InputError, match="loss 'margin' is not known; choose from label, vocabulary"):
        backbone(loss="margin")


# Devices


def test_a_gpu_that_is_not_there_is_refused_and_auto_does_without(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device 'cuda:1': torch sees no GPU; use cpu"):
        pick_device("cuda:1")
    assert (pick_device("auto"), pick_device("cpu")) == ("cpu", "cpu")


def test_processes_of_a_machine_take_its_gpus_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    taken = []
    for rank in ("0", "1", "2"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        taken.append(pick_device("auto"))
    assert taken == ["cuda:0", "cuda:1", "cuda:0"]
    assert pick_device("cuda:1") == "cuda:1"


def test_judging_gives_the_label_nll_whatever_the_loss():
    at, x, given = backbone(loss="vocabulary"), adapters(backbone().layout.d, 2), batch()
    assert torch.equal(at.judge(x, given)[0], backbone().losses(x, given)[0])
