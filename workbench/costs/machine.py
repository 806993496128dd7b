"""What this machine is, as far as roofs depend on it: told without torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import msgspec

from workbench.errors import UsageError

DEVICES = ("auto", "cpu", "cuda")


class Identity(msgspec.Struct, frozen=True):
    """What a measurement holds for: another device, driver, torch or thread count measures anew."""

    kind: str
    device: str
    driver: str | None
    torch: str | None
    threads: str


def identity(device: str = "auto") -> Identity:
    """Say what `device` is on this machine, without torch; `auto` is a GPU when there is one."""
    if device not in DEVICES:
        raise UsageError(f"device is {device!r}; choose one of {', '.join(DEVICES)}.")
    gpu = _nvidia() if device != "cpu" else None
    if device == "cuda" and gpu is None:
        raise UsageError("There is no NVIDIA GPU that this process can use; choose device 'cpu'.")
    name, driver = gpu or (cpu_name(), None)
    kind = "cuda" if gpu else "cpu"
    return Identity(kind, name, driver, _torch_version(), _threads())


def _nvidia() -> tuple[str, str] | None:
    """Return name and driver of the GPU that torch calls 0; None without a driver or a GPU."""
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            handle = first_gpu(pynvml)
            if handle is None:
                return None
            return pynvml.nvmlDeviceGetName(handle), pynvml.nvmlSystemGetDriverVersion()
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None


def first_gpu(nvml: Any) -> Any:
    """Return the management library's handle of the first GPU that this process may use, or None.

    The first of CUDA_VISIBLE_DEVICES, a number or a UUID; GPUs of one machine are taken to be
    numbered alike by CUDA, as they are where they are of one model (or by CUDA_DEVICE_ORDER).
    """
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return nvml.nvmlDeviceGetHandleByIndex(0)
    first = allowed.split(",")[0].strip()
    if first.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(first))
    return nvml.nvmlDeviceGetHandleByUUID(first) if first.startswith(("GPU-", "MIG-")) else None


def cpu_name() -> str:
    """Return the processor's own name, with the number of processors this process may use."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    models = [v.partition(":")[2].strip() for v in lines if v.startswith("model name")]
    name = models[0] if models else platform.processor() or platform.machine()
    return f"{name} ({usable_processors()} processors)"


def usable_processors() -> int:
    """Return how many processors this process may run on."""
    return len(usable())


def usable() -> set[int]:
    """Return the numbers of the processors that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return set(affinity(0)) if affinity else set(range(os.cpu_count() or 1))


def _threads() -> str:
    return os.environ.get("OMP_NUM_THREADS") or str(usable_processors())


def _torch_version() -> str | None:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
