"""`steps`: how long each step took on each device, and what filled it."""

from __future__ import annotations

import polars as pl

from workbench import intervals
from workbench.analysis.window import check, judged, spans
from workbench.errors import UsageError
from workbench.intervals import Intervals
from workbench.trace.core import Source, Trace
from workbench.trace.schema import ACTIVITY_KINDS, COMPUTE_KINDS, COPY_KINDS

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
    "outlier": pl.Boolean(),
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
    one is `tail` and ends with its latest activity. `start_ns` is relative to the source's origin.
    busy + idle = dur; activities are clipped to the step by time. `outlier` says of each complete
    step but the tail whether it is unlike the device's others (`steadiness.outliers`).
    """
    check(source, rank=rank, device=device)
    frames = [
        _of_device(trace, marks, trace.meta.origin_ns - source.origin_ns)
        for trace in source.ranks
        if rank is None or trace.meta.rank == rank
        for marks in _chosen(trace, step, device).partition_by("device", maintain_order=True)
    ]
    if step is not None and not frames:
        raise UsageError(f"No step lies in {step[0]}:{step[1]}; `show … steps` lists all steps.")
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _chosen(trace: Trace, step: tuple[int, int] | None, device: int | None) -> pl.DataFrame:
    by_device = [judged(d) for d in trace.steps.partition_by("device", maintain_order=True)]
    marks = pl.concat(by_device) if by_device else judged(trace.steps)
    if device is not None:
        marks = marks.filter(pl.col("device") == device)
    return marks if step is None else marks.filter(pl.col("step").is_between(*step))


def _of_device(trace: Trace, marks: pl.DataFrame, shift_ns: int) -> pl.DataFrame:
    """Measure one device's steps: what each kind's union over the whole trace has inside each."""
    on_device = trace.activities.filter(pl.col("device").eq_missing(marks["device"][0]))

    def union(*kinds: str) -> Intervals:
        return intervals.union(*spans(on_device.filter(pl.col("kind").is_in(kinds))))

    compute, communication = union(*COMPUTE_KINDS), union("collective")
    bare_copy = intervals.difference(union(*COPY_KINDS), compute)
    parts = {
        "busy_ns": union(*ACTIVITY_KINDS),
        "compute_ns": compute,
        "exposed_communication_ns": intervals.difference(communication, compute),
        "exposed_copy_ns": intervals.difference(bare_copy, communication),
    }
    measured = {n: pl.Series(intervals.covered(x, *spans(marks))) for n, x in parts.items()}
    frame = marks.with_columns(**measured).with_columns(
        rank=pl.lit(trace.meta.rank),
        start_ns=pl.col("start_ns") + shift_ns,
        idle_ns=pl.col("dur_ns") - pl.col("busy_ns"),
    )
    return frame.select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def typical_ns(source: Source) -> float | None:
    """Return the median duration of complete steps that are no tail; null without one."""
    frames = [t.steps.filter(pl.col("complete") & ~pl.col("tail")) for t in source.ranks]
    median = pl.concat(frames)["dur_ns"].median()
    return None if median is None else float(median)  # type: ignore[arg-type]
