"""What the training's interpreter can record: asked in a child, as a recording would."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from workbench.capture.doctor.row import IS_MAC, NO_GPU_ON_MAC, Row
from workbench.capture.launch import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 120
_PROBE = """
import json
import torch
from torch.profiler import profile, supported_activities

told = {"version": torch.__version__, "build": torch.version.cuda or torch.version.hip or "CPU"}
told["gpus"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
device = "cuda" if told["gpus"] else "cpu"
with profile(activities=supported_activities()) as p:
    torch.ones(2, device=device).add(1)
    if told["gpus"]:
        torch.cuda.synchronize()
told["operators"] = len(p.key_averages())
told["kernels"] = sum(e.device_type == torch.autograd.DeviceType.CUDA for e in p.events())
told["nccl"] = torch.distributed.is_available() and torch.distributed.is_nccl_available()
try:
    import torch.distributed as dist
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(2))
    told["gloo"] = None
except Exception as error:
    told["gloo"] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
print("probe " + json.dumps(told))
"""
PERMISSION = (
    "set the driver option NVreg_RestrictProfilingToAdminUsers=0 "
    "(developer.nvidia.com/ERR_NVGPUCTRPERM); in a container: --cap-add SYS_ADMIN"
)


def torch_rows(python: Path) -> list[Row]:
    """Return the rows on torch: its build, the GPUs it sees, the profiler, ranks."""
    try:
        done = _ask(python)
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "give a working Python with --python"
        return [Row("torch", "missing", f"{python}: {error}", fix)]
    answer = next((x for x in done.stdout.splitlines() if x.startswith("probe ")), None)
    if answer is None:
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        fix = f"install torch there: {python} -m pip install torch"
        return [Row("torch", "missing", reason, fix)]
    return rows_of(json.loads(answer.removeprefix("probe ")))


def rows_of(told: dict[str, Any]) -> list[Row]:
    """Return the rows that an answer of the probe comes to."""
    build, count = told["build"], told["gpus"]
    version = f"{told['version']}, built for {build if build == 'CPU' else 'GPUs, ' + build}"
    rows = [Row("torch", "ok", version), _cuda(build, count), _operators(told["operators"])]
    if count:
        rows.append(_kernels(told["kernels"]))
    return [*rows, _ranks(told)]


def _ask(python: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), "-c", _PROBE],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=_TIMEOUT_S,
        env={"GLOO_SOCKET_IFNAME": LOOPBACK, **os.environ},
    )


def _cuda(build: str, count: int) -> Row:
    if count:
        return Row("cuda", "ok", f"torch sees {count}")
    if IS_MAC:
        return Row("cuda", "absent", NO_GPU_ON_MAC)
    fix = (
        "to record on a GPU: install a GPU build of torch"
        if build == "CPU"
        else "to record on a GPU: check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES"
    )
    return Row("cuda", "absent", "torch sees no GPU; recordings run on the CPU", fix)


def _operators(seen: int) -> Row:
    if seen:
        return Row("profiler", "ok", f"{seen} operators seen in a test")
    return Row("profiler", "missing", "it recorded nothing", "reinstall torch")


def _kernels(seen: int) -> Row:
    """Say whether CUPTI yields what ran on the device, as a recording needs."""
    if seen:
        return Row("gpu kernels", "ok", f"{seen} activities of the GPU seen in a test")
    found = "operators are recorded, but nothing of the GPU (CUPTI)"
    fix = f"end other profilers (nsys, ncu, DCGM profiling); else {PERMISSION}"
    return Row("gpu kernels", "missing", found, fix)


def _ranks(told: dict[str, Any]) -> Row:
    if told["gloo"] is not None:
        fix = f"set GLOO_SOCKET_IFNAME={LOOPBACK}, or use a build of torch with distributed"
        return Row("ranks", "missing", f"gloo: {told['gloo']}", fix)
    if told["gpus"] and not told["nccl"]:
        fix = "install a build of torch with NCCL for ranks on GPUs"
        return Row("ranks", "missing", "gloo works; this torch has no NCCL", fix)
    return Row("ranks", "ok", "gloo works" + (", NCCL is there" if told["nccl"] else ""))
