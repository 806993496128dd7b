"""Run folders: where a run is written, how it is listed, renamed and deleted."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import InputError, UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.capture.plan import CapturePlan

SCHEMA_VERSION = 1
MANIFEST = "run.json"
_ENDED = {"done", "failed", "cancelled"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_CLOCK_SLACK_S = 2.0
_LARGEST_MANIFEST = 64 * 10**6


@dataclass(frozen=True)
class RunInfo:
    """One run folder as found on disk."""

    path: Path
    name: str
    status: str
    """done, failed, cancelled, running, interrupted, or unknown (recorded on another host)."""
    manifest: Mapping[str, Any]
    """What run.json says."""


def create(plan: CapturePlan) -> tuple[Path, Path]:
    """Make the `.partial` folder of a new run; return it and the name that the run will have."""
    final = plan.out.expanduser().absolute() if plan.out else _new_path(plan)
    partial = partial_path(final)
    try:
        if final.exists() and (not final.is_dir() or any(final.iterdir())):
            raise UsageError(f"{final} exists already; name a new folder, or delete it first.")
        partial.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(
            f"{final.name} is being recorded already, or was interrupted: {partial} exists; "
            "choose another name, or delete that folder first."
        ) from None
    except OSError as error:
        raise UsageError(
            f"The run folder {partial} cannot be made: {error.strerror}; record into another "
            "folder (--runs-dir), or mend its permissions."
        ) from None
    return partial, final


def partial_path(final: Path) -> Path:
    """Return where a run is worked in before it has its final name."""
    return final.with_name(f".{final.name}.partial")


def unwritable(folder: Path, error: OSError) -> str:
    """Say that a folder can't be written, and what to do about it."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    fix = "free some space there" if is_full else "see what is there and who may write it"
    why = error.strerror or str(error)
    return (
        f"The folder {folder} can't be written: {why}; {fix}, or record into another folder "
        "(--runs-dir)."
    )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write run.json whole or not at all."""
    part = folder / f".{MANIFEST}.part"
    part.write_text(json.dumps(manifest, indent=1, default=str) + "\n", encoding="utf-8")
    part.replace(folder / MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read run.json; InputError when it is missing, damaged or of a later version."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _LARGEST_MANIFEST:
            raise InputError(f"{path} is too large for a manifest.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path} is not a manifest: {error}.") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise InputError(f"{path} is not a manifest: it has no schema_version.")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema version {version}, and this version of Workbench reads up to "
            f"{SCHEMA_VERSION}; update Workbench."
        )
    return dict(content)


def read(folder: Path) -> RunInfo:
    """Read one run folder, with the status that is true now."""
    manifest = read_manifest(folder)
    partial = is_partial(folder)
    name = folder.name[1:].removesuffix(".partial") if partial else folder.name
    recorded = manifest.get("status")
    if not partial and recorded in _ENDED:
        return RunInfo(folder, name, str(recorded), manifest)
    return RunInfo(folder, name, _liveness(manifest.get("owner")), manifest)


def is_partial(folder: Path) -> bool:
    """Return whether a folder has the name of an unfinished run."""
    return folder.name.startswith(".") and folder.name.endswith(".partial")


def list_runs(runs_dir: Path) -> list[RunInfo]:
    """Return the runs of a folder, oldest first; what is no run folder is passed over."""
    if not runs_dir.exists():
        return []
    if not runs_dir.is_dir():
        raise InputError(f"{runs_dir} is not a folder of runs.")
    found = []
    for entry in sorted(runs_dir.iterdir()):
        if (entry.is_dir() and not entry.is_symlink()) and (entry / MANIFEST).is_file():
            try:
                found.append(read(entry))
            except InputError as error:
                found.append(RunInfo(entry, entry.name, "unknown", {"error": str(error)}))
    return sorted(found, key=lambda run: str(run.manifest.get("started") or ""))


def rename(runs_dir: Path, old: str, new: str) -> Path:
    """Give an ended run another name in the same folder; return its new path."""
    run = _find(runs_dir, old)
    if run.status not in _ENDED:
        raise UsageError(f"{old} is {run.status}; only a run that has ended can be renamed.")
    if not _NAME.fullmatch(new):
        raise UsageError(
            f"{new!r} is no name for a run; use letters, digits, '.', '_' and '-', "
            "and begin with a letter, a digit or '_'."
        )
    target = run.path.with_name(new)
    if target.exists() or partial_path(target).exists():
        raise UsageError(f"There is a run named {new} already.")
    run.path.rename(target)
    return target


def delete(runs_dir: Path, name: str) -> Path:
    """Delete a run of this folder that is not running; return where it was."""
    run = _find(runs_dir, name)
    if run.status == "running":
        raise UsageError(f"{name} is running; cancel it first.")
    shutil.rmtree(run.path)
    return run.path


def owner() -> dict[str, Any]:
    """Identify this process so that others can tell later whether it is still there."""
    import psutil

    me = psutil.Process()
    return {"host": socket.gethostname(), "pid": me.pid, "created": me.create_time()}


def _find(runs_dir: Path, name: str) -> RunInfo:
    runs = {run.name: run for run in list_runs(runs_dir)}
    if not runs:
        raise UsageError(f"There are no runs in {runs_dir}.")
    if name not in runs:
        raise unknown_name(f"run in {runs_dir}", name, runs)
    return runs[name]


def _liveness(process: object) -> str:
    if not isinstance(process, dict):
        return "interrupted"
    if process.get("host") != socket.gethostname():
        return "unknown"
    import psutil

    try:
        created = psutil.Process(int(process["pid"])).create_time()
        alive = abs(created - float(process["created"])) <= _CLOCK_SLACK_S
    except (KeyError, TypeError, ValueError, psutil.Error):
        alive = False
    return "running" if alive else "interrupted"


def _new_path(plan: CapturePlan) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{plan.name}-{stamp}-{secrets.token_hex(2)}"
    return Path(os.path.abspath(plan.runs_dir.expanduser())) / name  # noqa: PTH100 - keeps links
