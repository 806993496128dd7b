"""Activities beside the calls that launched them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from workbench.trace import nesting

if TYPE_CHECKING:
    from workbench.trace.core import Trace

CLOCK_INVERSION = "clock_inversion"
"""The reason of a pair that starts before its launch; named as the problem is."""
LAUNCH_MISSING = "launch_missing"
"""The reason of an activity whose launch was not recorded; named as the problem is."""


def with_calls(trace: Trace, activities: pl.DataFrame) -> pl.DataFrame:
    """Add the launching call of each activity, and the time between the two.

    Adds `call_kind call call_start_ns call_ns inverted queue_ns`, null without a launch record.
    `call_ns` is the call's duration. A pair is `inverted` when the activity starts before its
    call does (the clocks differ); `queue_ns` = max(0, start - call end), null for such a pair. A
    graph launch is the call of all its activities. Source: DEFINITIONS, as `nsys cuda_kern_exec`
    measures it, which leaves negative values out; HTA takes them for 0.
    """
    row = nesting.ids(activities["launch"])
    calls = trace.launches
    taken = {
        "call_kind": nesting.gathered(calls["kind"], row),
        "call": nesting.gathered(calls["name"], row).cast(pl.String),
        "call_start_ns": nesting.gathered(calls["start_ns"], row),
        "call_ns": nesting.gathered(calls["dur_ns"], row),
    }
    after_ns = pl.col("start_ns") - pl.col("call_start_ns")
    queue_ns = pl.max_horizontal(after_ns - pl.col("call_ns"), 0)
    return activities.with_columns(**taken).with_columns(
        inverted=after_ns < 0, queue_ns=pl.when(after_ns >= 0).then(queue_ns)
    )


def reason() -> pl.Expr:
    """Say why a row of `with_calls` has no queue time; null when it has one."""
    return (
        pl.when(pl.col("launch").is_null())
        .then(pl.lit(LAUNCH_MISSING))
        .when("inverted")
        .then(pl.lit(CLOCK_INVERSION))
    )


def queued(trace: Trace, device: int | None) -> pl.DataFrame:
    """Return a device's pairs in order of time, `stream call_start_ns start_ns`; none inverted."""
    mine = trace.activities.filter(
        pl.col("device").eq_missing(device), pl.col("launch").is_not_null()
    )
    begin = trace.launches["start_ns"].to_numpy()[mine["launch"].to_numpy().astype(np.int64)]
    pairs = mine.select("stream", "start_ns", call_start_ns=pl.Series(begin, dtype=pl.Int64))
    return pairs.filter(pl.col("call_start_ns") <= pl.col("start_ns"))
