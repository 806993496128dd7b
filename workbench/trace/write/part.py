"""The part of a trace that is written: everything, a stretch of time, or some steps.

What a part holds keeps its ids, its times and so its step numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from workbench.errors import InputError
from workbench.trace.core import Trace, TraceMeta

WRITTEN = (
    "activities",
    "launches",
    "ops",
    "ranges",
    "collectives",
    "frames",
    "memory",
    "counters",
)


@dataclass(frozen=True)
class Part:
    """Rows of the tables that are written, under their ids in the whole trace."""

    meta: TraceMeta
    tables: dict[str, pl.DataFrame]
    recording: tuple[int, int]
    """First and last ns that the file will claim to have recorded."""

    @property
    def is_empty(self) -> bool:
        """Say whether nothing that is written has a time."""
        begin, end = self.recording
        return begin == end and not any(f.height for f in self.tables.values())


def whole(trace: Trace) -> Part:
    """Return all of a trace, Python frames included.

    Raises
    ------
    InputError
        The format of the recording has no times.
    """
    if not trace.meta.timed:
        raise InputError(
            f"{trace.meta.path} says what ran but not when, so it is no trace of events; "
            "export it to a folder of Parquet."
        )
    tables = {name: trace.tables[name] for name in WRITTEN if name != "frames"}
    tables["frames"] = trace.frames
    return Part(trace.meta, tables, trace.meta.recording or (0, _last(tables)))


def _last(tables: dict[str, pl.DataFrame]) -> int:
    ends = [(f["start_ns"] + f["dur_ns"]).max() for f in tables.values() if "dur_ns" in f.columns]
    return max((int(e) for e in ends if e is not None), default=0)  # type: ignore[arg-type]


def device_work(part: Part) -> pl.DataFrame:
    """Return the activities that a device recorded; host execution is derived by readers."""
    return part.tables["activities"].filter(pl.col("source") != "host")
