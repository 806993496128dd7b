"""What this machine can record, and for what is missing, the fix."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

import polars as pl

from workbench.capture.doctor.gpus import gpu_rows, profiler_rows
from workbench.capture.doctor.row import IS_MAC, Row
from workbench.capture.doctor.system import disk, energy, shared_memory
from workbench.capture.doctor.torch_side import torch_rows
from workbench.capture.nvml import Nvml
from workbench.trace import cachefolder


def examine(runs_dir: Path, python: Path | None = None) -> pl.DataFrame:
    """Return one row a check: `check`, `state` (ok, missing or absent), what was `found`, `fix`.

    `missing` is something to repair; `absent` is something this machine does not have and can do
    without.
    """
    gpus = Nvml.open()
    rows = [_python(), *torch_rows(python or Path(sys.executable)), *gpu_rows(gpus)]
    rows += [*profiler_rows(), energy(), shared_memory(), disk(runs_dir), _cache(), _chromium()]
    if gpus:
        gpus.close()
    return pl.DataFrame(rows, schema=dict.fromkeys(Row._fields, pl.String()), orient="row")


def _python() -> Row:
    found = f"{platform.python_version()} at {sys.executable}"
    try:
        version = metadata.version("training-workbench")
    except metadata.PackageNotFoundError:
        return Row("python", "missing", found, "install with: pip install -e .")
    return Row("python", "ok", f"{found}, workbench {version}")


def _chromium() -> Row:
    found = _playwright_chromium() or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        fix = "for the browser tests: playwright install chromium"
        return Row("chromium", "absent", "only the browser tests need it", fix)
    return Row("chromium", "ok", str(found))


def _playwright_chromium() -> Path | None:
    default = "~/Library/Caches/ms-playwright" if IS_MAC else "~/.cache/ms-playwright"
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or default).expanduser()
    found = sorted(folder.glob("chromium*")) if folder.is_dir() else []
    return found[-1] if found else None


def _cache() -> Row:
    trouble = cachefolder.trouble()
    if trouble is None:
        return Row("trace cache", "ok", f"{cachefolder.folder()}")
    off = cachefolder.folder() is None or cachefolder.limit_bytes() <= 0
    fix = None if off else f"name a folder of yours in {cachefolder.FOLDER_SETTING}"
    return Row("trace cache", "absent" if off else "missing", trouble, fix)
