"""The NVIDIA driver: its GPUs, their telemetry, and who may read their counters."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.capture.doctor.row import IS_MAC, NO_GPU_ON_MAC, Row
from workbench.capture.doctor.torch_side import PERMISSION
from workbench.capture.profilers import PRODUCTS, page

if TYPE_CHECKING:
    from workbench.capture.nvml import Nvml

DRIVER = Path("/proc/driver/nvidia")
_NO_DRIVER = "no NVIDIA driver"
_INSTALL = (
    "for a GPU: install its driver (docs.nvidia.com/datacenter/tesla); in a container: --gpus all"
)
_FIRST = "that of gpu first"


def gpu_rows(gpus: Nvml | None, driver: Path = DRIVER) -> list[Row]:
    """Return the rows on GPUs, their telemetry and their counters."""
    if IS_MAC:
        return [Row(name, "absent", NO_GPU_ON_MAC) for name in ("gpu", "nvml", "gpu counters")]
    has_driver = (driver / "version").exists()
    return [_gpu(gpus, has_driver=has_driver), _nvml(gpus), _counters(gpus, driver / "params")]


def profiler_rows() -> list[Row]:
    """Return the rows on NVIDIA's own profilers."""
    return [_profiler(name) for name in PRODUCTS]


def _gpu(gpus: Nvml | None, *, has_driver: bool) -> Row:
    if gpus is not None and gpus.names:
        return Row("gpu", "ok", f"{', '.join(gpus.names)}; driver {gpus.driver}")
    if gpus is not None:
        fix = "check that the GPU is given to this machine or container: nvidia-smi -L"
        return Row("gpu", "missing", f"driver {gpus.driver} and no GPU", fix)
    if has_driver:
        found = "the driver is loaded, and its library does not answer"
        return Row("gpu", "missing", found, "see what nvidia-smi says; restart after an update")
    return Row("gpu", "absent", _NO_DRIVER, _INSTALL)


def _nvml(gpus: Nvml | None) -> Row:
    """Say whether power and clocks can be sampled, which a GPU may refuse one by one."""
    if gpus is None or not gpus.names:
        found = "no GPU whose power and clocks could be sampled"
        return Row("nvml", "absent", found, _FIRST)
    row = gpus.sample()[0]
    wanted = {"power": "power_w", "clocks": "core_clock_mhz", "use": "utilisation_pct"}
    lacking = [name for name, column in wanted.items() if row[column] is None]
    if lacking:
        found = f"the GPU does not tell its {', '.join(lacking)}"
        return Row("nvml", "absent", found, "a virtual or MIG GPU does not; ask on the host")
    return Row("nvml", "ok", "power, clocks and use can be sampled")


def _counters(gpus: Nvml | None, params: Path) -> Row:
    if gpus is None:
        return Row("gpu counters", "absent", _NO_DRIVER, _FIRST)
    try:
        text = params.read_text(encoding="utf-8")
    except OSError:
        fix = "ask ncu, which names ERR_NVGPUCTRPERM where they are not allowed"
        return Row("gpu counters", "absent", f"{params} cannot be read", fix)
    if "RmProfilingAdminOnly: 1" in text and os.geteuid() != 0:
        return Row("gpu counters", "missing", "for administrators alone", PERMISSION)
    return Row("gpu counters", "ok", "allowed")


def _profiler(name: str) -> Row:
    if path := shutil.which(name):
        return Row(name, "ok", path)
    if IS_MAC:
        return Row(name, "absent", NO_GPU_ON_MAC)
    fix = f"for record --with {name}: install {PRODUCTS[name]} ({page(name)}), put it on PATH"
    return Row(name, "absent", "not on the PATH", fix)
