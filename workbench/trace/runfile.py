"""What a run folder's `run.json` says of its ranks, as far as reading needs it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from workbench.trace.core import Trace
from workbench.trace.problems import Problem

RUN_FILE = "run.json"
_LARGEST = 64 * 10**6
_MOST_RANKS = 100_000
_NAMED = 8


class _Plan(msgspec.Struct):
    ranks: int = 1
    nnodes: int = 1


class _Run(msgspec.Struct):
    status: str | None = None
    plan: _Plan = msgspec.field(default_factory=_Plan)


def missing_ranks(folder: Path, traces: list[Trace]) -> Problem | None:
    """Return a note of the ranks of a run that left no trace, with how the run ended."""
    path = folder / RUN_FILE
    try:
        if path.stat().st_size > _LARGEST:
            return None
        run = msgspec.json.decode(path.read_bytes(), type=_Run)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    world = run.plan.ranks * run.plan.nnodes
    there = {trace.meta.rank for trace in traces}
    if any("missing_ranks" in trace.problems["code"] for trace in traces):
        return None  # a copy, whose original said so
    if not 1 < world <= _MOST_RANKS or not there <= set(range(world)):
        return None
    gone = sorted(set(range(world)) - there)
    if not gone:
        return None
    named = ", ".join(map(str, gone[:_NAMED])) + (", …" if len(gone) > _NAMED else "")
    ended = f"; {RUN_FILE} says how the run ended: {run.status}" if run.status else ""
    return Problem(
        code="missing_ranks",
        count=len(gone),
        first_example=f"rank {named} of {world}{ended}",
        effect="these ranks left no trace: sums over ranks are without them, and waits for them "
        "are unknown",
    )
