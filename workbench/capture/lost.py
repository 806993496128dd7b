"""Records that the profiler says it lost, counted in what it printed into log.txt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_BYTES = 64 * 10**6
"""Of a longer log only the end is looked at: what the profiler says comes last."""


class Kind(NamedTuple):
    """One way in which records are lost."""

    pattern: re.Pattern[bytes]
    """As Kineto, torch or CUPTI's samples print it; a group holds how many."""
    text: str
    advice: str


_FEWER = (
    "record fewer steps (--steps), or give the profiler more room: "
    "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB in a file that the variable KINETO_CONFIG names"
)
KINDS: Mapping[str, Kind] = {
    "buffers_full": Kind(
        re.compile(rb"Exceeded max GPU buffer count"),
        "the profiler's buffers were full, and the device was not recorded from then on",
        _FEWER,
    ),
    "stopped_early": Kind(
        re.compile(rb"Device profiling activity collection was stopped early"),
        "the profiler stopped recording the device early",
        _FEWER,
    ),
    "dropped_records": Kind(
        re.compile(rb"Dropped (\d{1,18}) activity records"),
        "activity records were dropped",
        _FEWER,
    ),
    # MAX_LIMIT_REACHED is how the end of each buffer is told.
    "profiler_errors": Kind(
        re.compile(rb"CUPTI_ERROR_(?!MAX_LIMIT_REACHED)[A-Z_]"),
        "errors of the driver's profiling interface, named in log.txt",
        "no other profiler may run beside it; see `workbench doctor`",
    ),
}


def lost(log: Path) -> dict[str, int]:
    """Count each of `KINDS` in a log; what does not occur is left out."""
    counts: dict[str, int] = {}
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - MOST_BYTES))
            for line in file:
                for name, kind in KINDS.items():
                    if found := kind.pattern.search(line):
                        more = int(found[1]) if kind.pattern.groups else 1
                        counts[name] = counts.get(name, 0) + more
    except OSError:
        return {}
    return counts
