"""`allocator` and `allocator_causes`: calls that take memory from the device or give it back.

A caching allocator makes them seldom once it is warm. Inside a step each one costs host time, and
cudaFree waits for the device: so who caused it, and what the device did meanwhile.
"""

from __future__ import annotations

import polars as pl

from workbench import intervals
from workbench.analysis import callers
from workbench.analysis.pools import described, inside, step_at
from workbench.analysis.window import Range, own_time, select, spans
from workbench.trace import schema
from workbench.trace.core import Source, Trace

NEEDS = ("calls",)
QUERIES = "MemGetInfo"
"""Asks the device how much is free: no allocation, and as slow as one."""
SCHEMA = {
    "rank": pl.Int32(),
    "launch": schema.ID,
    "name": pl.String(),
    "thread": pl.Int32(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "step": pl.Int32(),
    "phase": schema.PHASE,
    "op": pl.String(),
    "outer_op": pl.String(),
    "module": pl.String(),
    "frame": pl.String(),
}
CAUSES_SCHEMA = {
    "rank": pl.Int32(),
    "name": pl.String(),
    "op": pl.String(),
    "module": pl.String(),
    "frame": pl.String(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "max_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "share": pl.Float64(),
}


def allocator(
    source: Source,
    *,
    window: str = "host",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return each allocator call that begins in the window, the longest first.

    Calls are the launches of kind `malloc` (cudaMalloc, cudaFree, hipMalloc, cudaHostAlloc, …) and
    cudaMemGetInfo. `op`, `outer_op`, `module`, `phase` and `frame` (Python function, outside torch
    where there is one) are what ran on its thread when it began; null: none, or not recorded.
    `idle_ns` is how much of the call passed while nothing ran on any device of the rank; null
    without device activity. `step` is the host step that it begins in. The window is `host` by
    default, the complete host steps.
    """
    select(source, window=window, step=step, rank=rank, within=within)
    frames = [
        _of_trace(trace, window, step, own_time(trace, source, within)).with_columns(
            pl.col("start_ns") + (trace.meta.origin_ns - source.origin_ns)
        )
        for trace in source.ranks
        if rank is None or trace.meta.rank == rank
    ]
    found = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    return found.sort("dur_ns", "start_ns", descending=[True, False])


def allocator_causes(
    source: Source,
    *,
    window: str = "host",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return the calls of `allocator` by rank, call and who caused it, the longest total first.

    `total_ns` and `idle_ns` add up the rows of `allocator`; `share` is of the rank's total.
    """
    found = allocator(source, window=window, step=step, rank=rank, within=within)
    grouped = found.group_by("rank", "name", "op", "module", "frame").agg(
        calls=pl.len(),
        total_ns=pl.col("dur_ns").sum(),
        max_ns=pl.col("dur_ns").max(),
        idle_ns=pl.when(pl.col("idle_ns").count() > 0).then(pl.col("idle_ns").sum()),
    )
    whole = pl.col("total_ns").sum().over("rank")
    share = pl.when(whole > 0).then(pl.col("total_ns") / whole)
    return (
        grouped.with_columns(share=share)
        .sort("total_ns", "name", "op", descending=[True, False, False], nulls_last=True)
        .select(pl.col(n).cast(t) for n, t in CAUSES_SCHEMA.items())
    )


def _of_trace(
    trace: Trace, window: str, step: tuple[int, int] | None, within: Range | None
) -> pl.DataFrame:
    wanted = pl.col("kind") == "malloc"
    if trace.launches["name"].unique().cast(pl.String).str.contains(QUERIES).any():
        wanted |= pl.col("name").cast(pl.String).str.contains(QUERIES)
    made = trace.launches.filter(wanted)
    _, stretch = inside(trace, None, window, step, within)
    made = made.filter(pl.Series(intervals.contains(stretch, made["start_ns"].to_numpy())))
    at = made["start_ns"].to_numpy()
    return made.select(
        rank=pl.lit(trace.meta.rank, pl.Int32),
        launch="id",
        name=pl.col("name").cast(pl.String),
        thread="thread",
        start_ns="start_ns",
        dur_ns="dur_ns",
        idle_ns=_idle(trace, made),
        step=step_at(trace, at),
        **described(trace, made["op"]).to_dict(),
        frame=callers.python(trace, made),
    ).select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _idle(trace: Trace, made: pl.DataFrame) -> pl.Series | None:
    """Return how much of each call the devices were idle for; null when that isn't known."""
    activities = trace.activities
    if trace.meta.device_kind == "cpu" or not activities.height:
        return None
    start, end = spans(made)
    return pl.Series(
        end - start - intervals.covered(intervals.union(*spans(activities)), start, end)
    )
