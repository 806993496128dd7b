"""The content of run.json: what ran, where, and how it ended; no environment, no secrets."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from workbench.capture import folder
from workbench.capture.plan import CELL
from workbench.capture.variables import relevant
from workbench.version import __version__

if TYPE_CHECKING:
    from workbench.capture.plan import CapturePlan

_SECRET = re.compile(r"token|secret|passw|credential|api[-_]?key|access[-_]?key", re.IGNORECASE)
_HIDDEN = "***"
_GIT_TIMEOUT_S = 5
_LISTS = ("steps", "processes", "notes")


def begin(plan: CapturePlan) -> dict[str, Any]:
    """Return the manifest of a run that starts now."""
    spec = asdict(plan.spec) if plan.spec is not None else None
    arguments = hide_secrets(plan.arguments)
    return {
        "schema_version": folder.SCHEMA_VERSION,
        "status": "running",
        "error": None,
        "workload": plan.workload,
        "preset": plan.preset if plan.workload else None,
        "spec": spec,
        "plan": plan.as_dict() | {"arguments": arguments},
        "command": [
            str(plan.interpreter),
            *([str(plan.script)] if plan.script else []),
            *([CELL] if plan.code is not None else []),
            *arguments,
        ],
        "seeds": {"seed": spec["seed"]} if spec and "seed" in spec else {},
        "started": now(),
        "ended": None,
        "owner": folder.owner(),
        "processes": [],
        "machine": machine(),
        "device": None,
        "device_reason": None,
        "devices": [],
        "driver": None,
        "versions": {"workbench": __version__},
        "packages": {},
        "variables": relevant(os.environ),
        "git": git_revision(_home(plan)),
        "warmup": None,
        "steps": [],
        "notes": [],
    }


def merge(manifest: dict[str, Any], facts: dict[str, Any], rank: int) -> None:
    """Take facts from a rank: lists grow, with the rank in each row; of the rest, rank 0's stay."""
    for key, value in facts.items():
        if key in _LISTS:
            manifest[key].extend({"rank": rank, **row} for row in value)
        elif key == "versions":
            manifest[key] |= value
        elif rank == 0:
            manifest[key] = value


def hide_secrets(arguments: tuple[str, ...]) -> list[str]:
    """Return command-line arguments with the values of those that look like secrets as `***`."""
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        key, equals, _ = argument.partition("=")
        is_secret = bool(_SECRET.search(key))
        if hide_next and not argument.startswith("-"):
            shown.append(_HIDDEN)
        elif is_secret and equals:
            shown.append(f"{key}={_HIDDEN}")
        else:
            shown.append(argument)
        hide_next = is_secret and not equals and argument.startswith("-")
    return shown


def machine() -> dict[str, Any]:
    """Describe this machine."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "threads": usable_threads(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def cpu_model() -> str | None:
    """Return the name of the processor; None when the system does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or None


def usable_threads() -> int:
    """Return how many hardware threads this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _home(plan: CapturePlan) -> Path:
    """Return where the code that trains lies."""
    return Path.cwd() if plan.script is None else plan.script.expanduser().resolve().parent


def git_revision(where: Path) -> dict[str, Any] | None:
    """Return revision and cleanness of the repository around a folder; None outside of one."""
    revision = _git(where, "rev-parse", "HEAD")
    if not revision:
        return None
    status = _git(where, "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "dirty": None if status is None else bool(status)}


def now() -> str:
    """Return the time in UTC as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _command(plan: CapturePlan, arguments: list[str]) -> list[str]:
    target = [plan.name] if plan.script is None else [str(plan.script)]
    return [str(plan.interpreter), *target, *arguments]


def _git(where: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(where), *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_GIT_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.strip()
