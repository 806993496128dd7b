"""`steps`: how long each step took on each device, and what filled it."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis.summary import times
from workbench.analysis.window import Selection
from workbench.errors import UsageError
from workbench.trace.core import Source, Trace

SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "host_dur_ns": pl.Int64(),
    "busy_ns": pl.Int64(),
    "compute_ns": pl.Int64(),
    "exposed_communication_ns": pl.Int64(),
    "exposed_copy_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "complete": pl.Boolean(),
    "tail": pl.Boolean(),
}


def steps(
    source: Source,
    *,
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, step), by device-step rule.

    Step k is [S(k), S(k+1)), S(k) the earliest start of work launched in host step k; the last
    one is `tail` and ends with its latest activity. `start_ns` is relative to
    the source's origin. busy + idle = dur; activities are clipped to the step by time.
    """
    rows = [
        _row(trace, marks)
        | {"start_ns": marks["start_ns"] + trace.meta.origin_ns - source.origin_ns}
        for trace in source.ranks
        if rank is None or trace.meta.rank == rank
        for marks in trace.steps.iter_rows(named=True)
        if (device is None or marks["device"] == device)
        and (step is None or step[0] <= marks["step"] <= step[1])
    ]
    if step is not None and not rows:
        raise UsageError(f"No step lies in {step[0]}:{step[1]}; `show … steps` lists all steps.")
    return pl.DataFrame(rows, schema=SCHEMA)


def _row(trace: Trace, marks: dict[str, int]) -> dict[str, object]:
    start, end = marks["start_ns"], marks["start_ns"] + marks["dur_ns"]
    on_device = trace.activities.filter(
        pl.col("device").eq_missing(marks["device"])
        & (pl.col("start_ns") < end)
        & (pl.col("start_ns") + pl.col("dur_ns") > start)
    )
    inside = intervals.union(np.array([start]), np.array([end]))
    chosen = Selection(trace, marks["device"], "steps", inside, (marks["step"],), on_device)
    return {
        "rank": trace.meta.rank,
        **{n: marks[n] for n in ("device", "step", "start_ns", "dur_ns", "host_dur_ns")},
        **{n: v for n, v in times(chosen)._asdict().items() if n in SCHEMA},
        "complete": marks["complete"],
        "tail": marks["tail"],
    }


def typical_ns(source: Source) -> float | None:
    """Return the median duration of complete steps that are no tail; null without one."""
    frames = [t.steps.filter(pl.col("complete") & ~pl.col("tail")) for t in source.ranks]
    median = pl.concat(frames)["dur_ns"].median()
    return None if median is None else float(median)  # type: ignore[arg-type]
