"""The runs that a picker offers: newest first, with what is wrong with those that are not whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.capture import list_runs
from workbench.errors import InputError

if TYPE_CHECKING:
    from workbench.capture import RunInfo

_NOT_WHOLE = {
    "running": "is still being recorded; refresh when it has ended.",
    "interrupted": "was interrupted: the process that recorded it is gone. Record it again.",
}


@dataclass(frozen=True)
class Offer:
    """One run to pick."""

    label: str
    path: Path
    reason: str | None = None
    """Why there may be nothing to see; None for a run that is done."""


def offers(runs_dir: Path) -> tuple[Offer, ...]:
    """Return the runs of a folder, newest first; a folder that is not there has none."""
    try:
        return tuple(_offer(run) for run in reversed(list_runs(runs_dir)))
    except (InputError, OSError):
        return ()


def _offer(run: RunInfo) -> Offer:
    plan = run.manifest.get("plan")
    plan = plan if isinstance(plan, dict) else {}
    ranks = plan.get("ranks")
    about = [run.manifest.get("preset"), run.manifest.get("device")]
    about.append(f"{ranks} ranks" if isinstance(ranks, int) and ranks > 1 else None)
    label = run.name + "".join(f" · {part}" for part in about if part)
    if run.status == "done":
        return Offer(label, run.path)
    said = run.manifest.get("error") or _NOT_WHOLE.get(run.status) or f"is {run.status}."
    reason = f"{run.name} {said}" if run.status in _NOT_WHOLE else f"{run.name}: {said}"
    return Offer(f"{label} · {run.status}", run.path, reason)
