"""`syncs` and `sync_calls`: what waiting for the device costs the host, and who waits."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis import callers
from workbench.analysis.copies import host_memory
from workbench.analysis.window import Range, Selection, own_time, select, spans, step_numbers
from workbench.intervals import Intervals, Times
from workbench.trace import nesting, schema, steps
from workbench.trace.core import Source, Trace
from workbench.trace.schema import COPY_KINDS

NEEDS = ("accelerator", "calls")
EACH_SCHEMA = {
    "rank": pl.Int32(),
    "step": pl.Int32(),
    "thread": pl.Int32(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "idle_after_ns": pl.Int64(),
    "kind": schema.LAUNCH_KIND,
    "name": pl.String(),
    "operator": pl.String(),
    "module": pl.String(),
    "frame": pl.String(),
}
SCHEMA = {
    "rank": pl.Int32(),
    "kind": schema.LAUNCH_KIND,
    "name": pl.String(),
    "operator": pl.String(),
    "module": pl.String(),
    "frame": pl.String(),
    "calls": pl.Int64(),
    "total_ns": pl.Int64(),
    "mean_ns": pl.Float64(),
    "max_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "idle_after_ns": pl.Int64(),
}
WHO = ("kind", "name", "operator", "module", "frame")


def syncs(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, synchronising call, who made it), by total time.

    The calls are those of `sync_calls`, which defines the columns; times are their sums. Who made
    it: the innermost operator, its `nn.Module`, and the innermost Python function outside torch (in
    torch when all are); each null where there is none or it was not recorded.
    """
    each = sync_calls(source, window=window, step=step, rank=rank, within=within)
    grouped = each.group_by("rank", *WHO).agg(
        calls=pl.len(),
        total_ns=pl.col("dur_ns").sum(),
        mean_ns=pl.col("dur_ns").mean(),
        max_ns=pl.col("dur_ns").max(),
        wait_ns=pl.col("wait_ns").sum(),
        idle_ns=pl.col("idle_ns").sum(),
        idle_after_ns=pl.col("idle_after_ns").sum(),
    )
    order = ("rank", "total_ns", "name", "operator", "frame")
    return grouped.sort(order, descending=[False, True, False, False, False]).select(
        pl.col(n).cast(t) for n, t in SCHEMA.items()
    )


def sync_calls(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each call that held the host until the device was done, in order of time.

    Such are the calls of kind `sync`, and calls to copy or set that return only after what they
    started has ended, where that is no chance: by a name without `Async`, or of pageable memory, as
    in `aten::item` (CUDA runtime API, "API synchronization behavior"). Of calls inside one another
    on a thread the outermost counts. They begin in a step of the window; in the window `all`,
    anywhere. `dur_ns` = `wait_ns` + `idle_ns`: while the call ran, some device of the rank was
    busy, or none was. `idle_after_ns` is how long none was from the end of the call until the next
    activity or the next such call: what it costs that the queue ran empty. Counted against every
    device of the rank, since a call does not say which one it waits for.
    """
    chosen = select(source, window=window, step=step, rank=rank, within=within)
    frames = [
        _of(trace, mine, own_time(trace, source, within), trace.meta.origin_ns - source.origin_ns)
        for trace in source.ranks
        if (mine := [s for s in chosen if s.trace is trace and not s.is_host])
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=EACH_SCHEMA)


def _of(trace: Trace, chosen: list[Selection], within: Range | None, shift_ns: int) -> pl.DataFrame:
    calls = _outermost(_blocking(trace))
    start, end = spans(calls)
    busy = intervals.union(*spans(trace.activities))
    wait = intervals.covered(busy, start, end)
    calls = calls.with_columns(
        step=steps.containing(trace.host_steps, start),
        wait_ns=pl.Series(wait),
        idle_ns=pl.Series(end - start - wait),
        idle_after_ns=pl.Series(_idle_after(busy, start, end)),
    ).filter(_in_window(chosen, within))
    op = nesting.ids(calls["op"])
    made = calls.with_columns(
        rank=pl.lit(trace.meta.rank, pl.Int32()),
        start_ns=pl.col("start_ns") + shift_ns,
        operator=nesting.gathered(trace.ops["name"], op),
        module=nesting.gathered(trace.ops["module"], op),
        frame=callers.python(trace, calls),
    )
    return made.sort("start_ns", maintain_order=True).select(
        pl.col(n).cast(t) for n, t in EACH_SCHEMA.items()
    )


def _blocking(trace: Trace) -> pl.DataFrame:
    """Return the calls that waited, by their kind or by when they returned.

    That an asynchronous copy of pinned memory had ended when its call returned is chance.
    """
    names = trace.activities["name"].unique().cast(pl.String)
    pageable = [n for n in names if host_memory(n) == "pageable"]
    ended = (
        trace.activities.filter(pl.col("kind").is_in(COPY_KINDS), pl.col("launch").is_not_null())
        .group_by("launch")
        .agg(
            first_ns=pl.col("start_ns").min(),
            last_ns=(pl.col("start_ns") + pl.col("dur_ns")).max(),
            is_pageable=pl.col("name").cast(pl.String).is_in(pageable).all(),
        )
    )
    calls = trace.launches.filter(pl.col("kind").is_in(["sync", *COPY_KINDS]))
    calls = calls.join(ended, left_on="id", right_on="launch", how="left", maintain_order="left")
    by_name = ~pl.col("name").cast(pl.String).str.contains("Async")
    returned = pl.col("start_ns") + pl.col("dur_ns")
    outlasts = (pl.col("last_ns") <= returned) & (pl.col("first_ns") >= pl.col("start_ns"))
    return calls.filter((pl.col("kind") == "sync") | (outlasts & (by_name | pl.col("is_pageable"))))


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Leave out what lies within another call of its thread: a driver's call below a runtime's."""
    start, end = spans(calls)
    thread = calls["thread"].to_numpy()
    order = nesting.order(thread, start, end)
    thread, end = thread[order], end[order]
    reach = intervals.grouped_reach(thread, end)
    inside = np.zeros(len(end), np.bool_)
    inside[1:] = (thread[1:] == thread[:-1]) & (end[1:] <= reach[:-1])
    return calls[order[~inside]]


def _idle_after(busy: Intervals, start: Times, end: Times) -> Times:
    """Return the time from each end until something runs or another call waits; 0 at the last."""
    taken = intervals.union(np.concatenate((busy.start, start)), np.concatenate((busy.end, end)))
    following = np.searchsorted(taken.start, end, "left")
    known = following < len(taken.start)
    after = np.zeros(len(end), np.int64)
    after[known] = taken.start[following[known]] - end[known]
    after[intervals.contains(taken, end)] = 0
    return after


def _in_window(chosen: list[Selection], within: Range | None) -> pl.Expr:
    numbers = step_numbers(chosen)
    inside = pl.col("step").is_in(numbers) if numbers else pl.lit(value=True)
    if within is not None:
        inside &= pl.col("start_ns").is_between(*within, closed="left")
    return inside
