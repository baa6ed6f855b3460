"""Forwards that are recorded once and replayed: the answers of the forward itself, and only where it pays."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

from llm.tiny import tiny_model  # noqa: E402
from zocosmo.llm.adapters import Layout  # noqa: E402
from zocosmo.llm.backbone import Backbone  # noqa: E402
from zocosmo.llm.batches import Examples  # noqa: E402
from zocosmo.llm.replay import Replay  # noqa: E402

CLOSE = 1e-5  # in float32, as in test_backbone

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def backbone(device):
    layout = Layout(tiny_model("llama"), rank=2, alpha=3.0, targets="all-linear")
    return Backbone(tiny_model("llama").to(device), layout, np.array([7, 100]))


def question(at, *lengths, rows=2, seed=0):
    coins, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    tokens = [coins.integers(1, 256, k).astype(np.int32) for k in lengths]
    examples = Examples(tokens, np.arange(len(lengths)) % 2)
    adapters = 0.3 * torch.randn((rows, at.layout.d), generator=generator)
    return adapters.to(at.device), examples.batch(np.arange(len(lengths)), at.device)


def test_elsewhere_than_on_a_gpu_the_forward_is_called_as_it_is():
    calls = []
    replay = Replay(lambda *given: calls.append(given) or ("nll", "right"))
    given = question(backbone("cpu"), 3, 5)
    assert replay(*given) == ("nll", "right")
    assert calls == [given]


@needs_gpu
def test_what_is_replayed_is_what_the_forward_gives():
    at = backbone("cuda")
    for seed, lengths in enumerate([(5, 3, 8, 8), (4, 16, 9, 2), (8, 1, 2, 5)]):
        given = question(at, *lengths, seed=seed)
        found, expected = at.losses(*given), at._losses(*given)
        assert torch.allclose(found[0], expected[0], rtol=0, atol=CLOSE)
        assert found[1].tolist() == expected[1].tolist()
    assert len(at.replay._recorded) == 2  # two lengths


@needs_gpu
def test_shapes_do_not_disturb_one_another():
    at = backbone("cuda")
    short, long = question(at, 5, 3, 8, 8), question(at, 4, 16, 9, 2, seed=1)
    first = [at.losses(*short)[0], at.losses(*long)[0]]
    again = [at.losses(*short)[0], at.losses(*long)[0]]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@needs_gpu
def test_both_queries_are_replayed_with_the_making_of_their_points():
    at, generator = backbone("cuda"), torch.Generator().manual_seed(3)
    for seed, lengths in enumerate([(5, 3, 8, 8), (4, 16, 9, 2), (8, 1, 2, 5)]):
        x, batch = question(at, *lengths, seed=seed)
        where = torch.rand(x.shape, generator=generator).argsort(dim=1)[:, :40].to("cuda")
        shift = 0.1 * torch.randn((2, 40), generator=generator).to("cuda")
        found, expected = (
            at.both(x, where, shift, batch.repeat(2)),
            at._both(x, where, shift, batch.repeat(2))[0],
        )
        assert torch.allclose(found, expected, rtol=0, atol=CLOSE)
    assert len(at.replay_both._recorded) == 2  # two lengths


@needs_gpu
def test_what_was_loaded_ahead_is_used_and_what_was_not_is_copied():
    at, generator = backbone("cuda"), torch.Generator().manual_seed(3)
    x, batch = question(at, 5, 3, 8, 8)
    where = torch.rand(x.shape, generator=generator).argsort(dim=1)[:, :40].to("cuda")
    first, then = (0.1 * torch.randn((2, 40), generator=generator).to("cuda") for _ in range(2))
    given = [(x, where, shift, batch.repeat(2)) for shift in (first, then)]
    expected = [at.both(*each).tolist() for each in given]
    for loaded, asked in ((1, 1), (1, 0), (0, 1), (0, 0)):
        at.replay_both.load(*given[loaded])
        x.mul_(2.0)  # it may change until it is asked for
        x.mul_(0.5)
        assert at.both(*given[asked]).tolist() == expected[asked]


@needs_gpu
def test_one_adapter_and_long_forwards_are_called(monkeypatch):
    at = backbone("cuda")
    at.losses(*question(at, 5, 3, rows=1))
    monkeypatch.setattr("zocosmo.llm.replay.MOST_TOKENS", 9)
    at.losses(*question(at, 5, 3))
    assert not at.replay._recorded


@needs_gpu
def test_a_forward_that_looks_at_numbers_is_called_and_a_warning_says_so():
    at = backbone("cuda")
    at.model.get_submodule("model.layers.0").register_forward_hook(
        lambda *given: print(given[1][0].sum().item())
    )
    given = question(at, 5, 3)
    with pytest.warns(UserWarning, match="cannot be recorded"):
        found = at.losses(*given)
    assert torch.equal(found[0], at._losses(*given)[0])
    assert torch.equal(found[0], at.losses(*given)[0])


def test_a_device_that_is_full_says_so_and_nothing_is_started_one_by_one(monkeypatch):
    """Else a run would go on in another way than one that is resumed where there is room."""
    called = []
    replay = Replay(lambda *given: called.append(given))
    monkeypatch.setattr(replay, "_record", full)
    lead = SimpleNamespace(device=torch.device("cuda"), shape=(1, 2), dtype=torch.float32)
    with pytest.raises(torch.OutOfMemoryError):
        replay(lead, SimpleNamespace(tokens=torch.zeros(1, 3)))
    assert not called
    assert not replay.fails


def full(*given):
    raise torch.OutOfMemoryError
