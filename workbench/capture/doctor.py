"""What this machine can record, and for what is missing, the fix."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import polars as pl

from workbench.capture.nvml import Nvml
from workbench.capture.profilers import PRODUCTS
from workbench.trace import cachefolder
from workbench.units import decimal

_COLUMNS = ("check", "state", "found", "fix")
_NVIDIA_PARAMETERS = Path("/proc/driver/nvidia/params")
_DISK_WANTED = 2 * 10**9
_PROBE_TIMEOUT_S = 120
_TORCH_PROBE = """
import torch
from torch.profiler import profile, supported_activities
with profile(activities=supported_activities()) as p:
    torch.ones(2).add(1)
seen = len(p.key_averages())
gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
build = torch.version.cuda or torch.version.hip or "CPU"
print("probe", torch.__version__, build, gpus, seen)
"""

Row = tuple[str, str, str, str | None]


def examine(runs_dir: Path, python: Path | None = None) -> pl.DataFrame:
    """Return one row a check: `check`, `state` (ok, missing or absent), what was `found`, `fix`.

    `missing` is something to repair; `absent` is something this machine does not have and can do
    without.
    """
    gpus = Nvml.open()
    rows = [_python(), *_torch(python or Path(sys.executable)), _gpus(gpus)]
    rows += [_counters(gpus), *_profilers(), _chromium(), _disk(runs_dir), _cache()]
    if gpus:
        gpus.close()
    return pl.DataFrame(rows, schema=dict.fromkeys(_COLUMNS, pl.String()), orient="row")


def _python() -> Row:
    found = f"{platform.python_version()} at {sys.executable}"
    try:
        version = metadata.version("training-workbench")
    except metadata.PackageNotFoundError:
        return ("python", "missing", found, "install with: pip install -e .")
    return ("python", "ok", f"{found}, workbench {version}", None)


def _torch(python: Path) -> list[Row]:
    """Ask in a child, as a recording would: torch, its build, the GPUs it sees, the profiler."""
    try:
        done = subprocess.run(
            [str(python), "-c", _TORCH_PROBE],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [("torch", "missing", f"{python}: {error}", "give a working Python with --python")]
    answer = next((x.split() for x in done.stdout.splitlines() if x.startswith("probe ")), None)
    if answer is None:
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        fix = f"install torch there: {python} -m pip install torch"
        return [("torch", "missing", reason, fix)]
    _, version, build, count, seen = answer
    return [
        (
            "torch",
            "ok",
            f"{version}, built for {build if build == 'CPU' else 'GPUs, ' + build}",
            None,
        ),
        _torch_gpus(build, int(count)),
        ("profiler", "ok", f"{seen} operators seen in a test", None)
        if int(seen)
        else ("profiler", "missing", "it recorded nothing", "reinstall torch"),
    ]


def _torch_gpus(build: str, count: int) -> Row:
    if count:
        return ("cuda", "ok", f"torch sees {count}", None)
    fix = (
        "to record on a GPU: install a GPU build of torch"
        if build == "CPU"
        else ("to record on a GPU: check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES")
    )
    return ("cuda", "absent", "torch sees no GPU; recordings run on the CPU", fix)


def _gpus(gpus: Nvml | None) -> Row:
    if gpus is None or not gpus.names:
        return ("gpu", "absent", "no NVIDIA driver", None)
    return ("gpu", "ok", f"{', '.join(gpus.names)}; driver {gpus.driver}", None)


def _counters(gpus: Nvml | None) -> Row:
    if gpus is None:
        return ("gpu counters", "absent", "no NVIDIA driver", None)
    try:
        text = _NVIDIA_PARAMETERS.read_text(encoding="utf-8")
    except OSError:
        return ("gpu counters", "absent", f"{_NVIDIA_PARAMETERS} cannot be read", None)
    if "RmProfilingAdminOnly: 1" in text and os.geteuid() != 0:
        fix = (
            "set the driver option NVreg_RestrictProfilingToAdminUsers=0 "
            "(developer.nvidia.com/ERR_NVGPUCTRPERM)"
        )
        return ("gpu counters", "missing", "for administrators alone", fix)
    return ("gpu counters", "ok", "allowed", None)


def _profilers() -> list[Row]:
    """Say which profilers `record --with` can run; only those of NVIDIA's GPUs are known to it."""
    rows: list[Row] = []
    for name, product in PRODUCTS.items():
        if found := shutil.which(name):
            rows.append((name, "ok", found, None))
        else:
            fix = f"for record --with {name}: install {product}, or add its folder to PATH"
            rows.append((name, "absent", "not on the PATH", fix))
    return rows


def _chromium() -> Row:
    found = _playwright_chromium() or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        fix = "for the browser tests: playwright install chromium"
        return ("chromium", "absent", "only the browser tests need it", fix)
    return ("chromium", "ok", str(found), None)


def _playwright_chromium() -> Path | None:
    default = {"darwin": "~/Library/Caches/ms-playwright"}.get(
        sys.platform, "~/.cache/ms-playwright"
    )
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or default).expanduser()
    found = sorted(folder.glob("chromium*")) if folder.is_dir() else []
    return found[-1] if found else None


def _cache() -> Row:
    trouble = cachefolder.trouble()
    if trouble is None:
        return ("trace cache", "ok", f"{cachefolder.folder()}", None)
    off = cachefolder.folder() is None or cachefolder.limit_bytes() <= 0
    fix = None if off else f"name a folder of yours in {cachefolder.FOLDER_SETTING}"
    return ("trace cache", "absent" if off else "missing", trouble, fix)


def _disk(runs_dir: Path) -> Row:
    where = runs_dir.absolute()
    while not where.exists():
        where = where.parent
    free = shutil.disk_usage(where).free
    found = f"{decimal(free, 'B')} free at {where}"
    if not os.access(where, os.W_OK):
        return ("disk", "missing", f"{where} cannot be written", "choose another with --runs-dir")
    if free < _DISK_WANTED:
        return ("disk", "missing", found, "delete runs: workbench runs --delete NAME")
    return ("disk", "ok", found, None)
