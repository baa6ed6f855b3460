"""Check that a model fits in memory before its weights are read."""

from pathlib import Path
from typing import Any

import torch

from zocosmo.errors import InputError, check_known

DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,  # weights are float32; the backbone sets the precision of products
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
UNLIMITED = 1 << 60  # cgroups without a limit report this or more


def check_memory(model: Any, *, dtype: str, device: str, extra: int = 0) -> None:
    """Refuse a model (a skeleton will do) whose weights, plus `extra` bytes, do not fit on the device."""
    check_known("dtype", dtype, DTYPES)
    each, weights = DTYPES[dtype].itemsize, sum(parameter.numel() for parameter in model.parameters())
    smaller = [] if each == 2 else ["dtype bfloat16"]
    elsewhere = ["device cpu"] if device.startswith("cuda") else []
    check_free(
        weights * each + extra,
        device=device,
        what=f"a model of {weights:,} weights in {dtype}",
        remedy=f"use {', or '.join([*smaller, 'a smaller model', *elsewhere])}",
    )


def check_adapters(model: Any | None, d: int, rows: int, directions: int, *, dtype: str, device: str) -> None:
    """Refuse K directions whose adapters do not fit: float32, one for each row, direction and side.

    K decides what a run computes, so it is never lowered here. `model` is one whose weights are not loaded.
    """
    weights = sum(parameter.numel() for parameter in model.parameters()) if model else 0
    each, taken = 2 * rows * d * 4, weights * DTYPES[dtype].itemsize
    fits = ((free_memory(device) or 0) - taken) // each if each else 0
    fewer = f"set directions to {fits} or fewer" if fits > 0 else "use fewer nodes or a smaller rank"
    which = f"{rows} nodes, {directions} directions, both sides"
    check_free(
        each * directions + taken,
        device=device,
        what=f"a round of {2 * rows * directions} adapters ({which})",
        remedy=fewer,
    )


def check_free(need: int, *, device: str, what: str, remedy: str) -> None:
    """Refuse to use more bytes than are free."""
    free = free_memory(device)
    if free is not None and need > free:
        raise InputError(f"{what} needs {as_bytes(need)}, but {device} has {as_bytes(free)} free; {remedy}")


def check_device(device: str) -> torch.device:
    """The torch device, which must exist."""
    try:
        asked = torch.device(device)
    except RuntimeError:
        raise InputError(f"device {device!r} is not known; choose cpu, cuda, or cuda:0, cuda:1, …") from None
    if asked.type == "cuda" and (asked.index or 0) >= torch.cuda.device_count():
        there = torch.cuda.device_count()
        raise InputError(f"device {device!r} not found: torch sees {there} CUDA devices; choose cpu")
    return asked


def free_memory(device: str = "cpu") -> int | None:
    """Bytes this process may still allocate; None if the system does not say."""
    asked = check_device(device)
    if asked.type == "cuda":
        free, _ = torch.cuda.mem_get_info(asked)
        return free + torch.cuda.memory_reserved(asked) - torch.cuda.memory_allocated(asked)
    told = [each for each in (_of_machine(), *_of_groups()) if each is not None]
    return max(0, min(told)) if told else None


def _of_machine(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    try:
        lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        import psutil  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        return None
    return int(psutil.virtual_memory().available)


def _of_groups(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """Free bytes of each enclosing cgroup, v1 or v2; inactive file pages count as free."""
    try:
        entries = [line.split(":", 2) for line in proc.read_text().splitlines()]
    except OSError:
        return []
    found = []
    for _, kinds, path in entries:
        if kinds == "":
            top, files = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            top = root / "memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        here = top / path.strip("/")
        folders = [here, *(up for up in here.parents if up == top or top in up.parents)]
        found += [left for folder in folders if (left := _left(folder, *files)) is not None]
    return found


def _left(folder: Path, limit: str, used: str, idle: str) -> int | None:
    try:
        most = int((folder / limit).read_text())
        now = int((folder / used).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such cgroup, or "max"
        return None
    return None if most >= UNLIMITED else most - now + int(stat.get(idle, 0))


def as_bytes(size: float) -> str:
    """In GB, or in MB below 0.1 GB.

    >>> as_bytes(13.05e9), as_bytes(2.5e5)
    ('13.05 GB', '0.25 MB')
    """
    return f"{size / 1e9:,.2f} GB" if size >= 1e8 else f"{size / 1e6:,.2f} MB"
