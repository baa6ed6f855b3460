"""What the tests of language models have in common."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads only wait for each other on models this small, and sums come out alike."""
    torch = sys.modules.get("torch")  # a module that needs it has it by now
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a tiny model."""
    from llm.tiny import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def run(call_main, monkeypatch, tmp_path, model):
    """The command in this process, in an empty folder beside the model: exit code, stdout, stderr."""

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").symlink_to(model)
    return lambda line: call_main(*line.split())
