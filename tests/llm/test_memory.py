import pytest

from llm.tiny import tiny_model, torch
from zocosmo.errors import InputError
from zocosmo.llm import memory
from zocosmo.llm.memory import check_device, check_memory, free_memory


@pytest.fixture
def free(monkeypatch):
    """Say how many bytes are free."""

    def of(count):
        monkeypatch.setattr(memory, "free_memory", lambda device: count)

    return of


@pytest.mark.parametrize(("dtype", "each"), [("float32", 4), ("tf32", 4), ("bfloat16", 2), ("float16", 2)])
def test_weights_and_extra_bytes_must_fit_to_the_byte(free, dtype, each):
    model = tiny_model()
    need = each * sum(parameter.numel() for parameter in model.parameters()) + 1000
    free(need)
    check_memory(model, dtype=dtype, device="cpu", extra=1000)
    free(need - 1)
    with pytest.raises(InputError, match=f"weights in {dtype} needs"):
        check_memory(model, dtype=dtype, device="cpu", extra=1000)


def test_the_line_has_both_numbers_and_what_to_change(free):
    free(7_500_000_000)
    model = torch.nn.Linear(100_000, 40_000, bias=False, device="meta")
    with pytest.raises(InputError) as told:
        check_memory(model, dtype="float32", device="cpu")
    assert str(told.value) == (
        "a model of 4,000,000,000 weights in float32 needs 16.00 GB, but cpu has 7.50 GB free; "
        "use dtype bfloat16, or a smaller model"
    )


def test_a_system_that_does_not_tell_is_trusted(free):
    free(None)
    check_memory(tiny_model(), dtype="float32", device="cpu", extra=1 << 60)


def test_this_machine_has_some_memory_but_not_all_of_it():
    assert 1 << 20 < free_memory("cpu") < 1 << 50


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "cuda:99"])
def test_a_device_that_is_not_there_is_one_line(device):
    with pytest.raises(InputError, match=r"device .* is not (known|there).*; choose|choose"):
        check_device(device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_free_memory_of_a_cuda_device_is_below_what_it_has():
    assert 0 < free_memory("cuda") <= torch.cuda.mem_get_info("cuda")[1]


def group(folder, limit, used, stat, *, old=False):
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if old else ("memory.max", "memory.current")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip((*names, "memory.stat"), (limit, used, stat), strict=True):
        (folder / name).write_text(f"{text}\n")


def test_groups_of_both_versions_limit_what_is_free(tmp_path):
    (tmp_path / "new").write_text("0::/a/b\n")
    group(tmp_path / "fs" / "a", 5000, 1000, "anon 1\ninactive_file 300")
    group(tmp_path / "fs" / "a" / "b", "max", 10, "inactive_file 0")
    assert memory._of_groups(tmp_path / "new", tmp_path / "fs") == [4300]
    (tmp_path / "old").write_text("5:cpu,cpuacct:/\n4:memory:/job\n")
    group(tmp_path / "fs" / "memory" / "job", 9000, 4000, "total_inactive_file 500", old=True)
    group(tmp_path / "fs" / "memory", 1 << 62, 4000, "total_inactive_file 500", old=True)
    assert memory._of_groups(tmp_path / "old", tmp_path / "fs") == [5500]


def test_a_system_without_groups_has_none(tmp_path):
    assert memory._of_groups(tmp_path / "none", tmp_path) == []


def test_memory_is_what_the_kernel_calls_available(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:   7 kB\n")
    assert memory._of_machine(tmp_path / "meminfo") == 7 * 1024
