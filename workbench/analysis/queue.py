"""`queue` and `queue_depth`: how much launched work waits for the device, and when it is full."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis import pairs
from workbench.analysis.window import Range, Selection, own_time, select
from workbench.intervals import Intervals, Times
from workbench.trace import nesting
from workbench.trace.core import Source, Trace

NEEDS = ("accelerator", "launches")
FULL = 1020
"""Depth from which a further call is taken to block.

A CUDA stream holds 1,024 launches (HTA's constant), and what runs or is on its way to is no longer
in the depth: on a V100's recording the depth stays below 1,023, and calls made at 1,020 or more
took 96 us on average where those made below 1,010 took 5.
"""
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "stream": pl.Int64(),
    "window_ns": pl.Int64(),
    "activities": pl.Int64(),
    "max_depth": pl.Int64(),
    "mean_depth": pl.Float64(),
    "full_ns": pl.Int64(),
    "full_share": pl.Float64(),
    "empty_ns": pl.Int64(),
    "empty_share": pl.Float64(),
    "inverted": pl.Int64(),
    "without_launch": pl.Int64(),
    "reason": pl.String(),
}
DEPTH_SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "stream": pl.Int64(),
    "t_ns": pl.Int64(),
    "depth": pl.Int64(),
}
COUNTS = ("activities", "inverted", "without_launch")
NO_PAIRS = "no activity here is tied to a call that began before it"


class _Depth(NamedTuple):
    """Depth over time: stretches [start, end) of equal depth, by lane and time.

    Lane 0 is the device, the others are its streams in ascending order. Before its first stretch
    and after its last a lane is empty.
    """

    lane: NDArray[np.int64]
    start: Times
    end: Times
    depth: NDArray[np.int64]


class _Queue(NamedTuple):
    """One device's queue inside its window."""

    chosen: Selection
    streams: list[int]
    over_time: _Depth
    inside: Intervals


def queue(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    full: int = FULL,
) -> pl.DataFrame:
    """Return a row for each (rank, device) and, below it, each of its streams.

    `stream` is null for the whole device. `max_depth` and `mean_depth` (weighted by time) are of
    the depth that `queue_depth` gives, `empty_ns` the time at depth 0: the host is behind, or all
    that was launched already runs. `full_ns` is the time that a stream's depth was at least `full`,
    so that a further launch blocks the host; for the device it is the time that any of its streams
    was full (HTA's rule is 1,024, and it reports the last stream alone). Shares are of
    `window_ns`. Of activities that start in the window, `inverted` counts those before their call
    and `without_launch` those without a launch record; neither is in any depth. Where none is left
    the depth is unknown: null, with the `reason`.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    found = [_of(s, own_time(s.trace, source, within)) for s in chosen if not s.is_host]
    rows = [row for q in found for row in _rows(q, full)]
    return pl.DataFrame(rows, schema=SCHEMA)


def queue_depth(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return the depth of the queue over time, of each device (`stream` null) and each stream.

    +1 at the begin of a launch-type call (a graph launch adds all its activities), -1 at the begin
    of each activity that it launched; `depth` is the value after all that happens at `t_ns`. What
    runs is not in the queue. Pairs that start before their call, activities without a launch record
    and calls without an activity are left out, so the depth is never negative. A row stands where
    something happens inside the window, and where each stretch of the window begins. In the window
    `all` the time before the first activity in which work already waits belongs to the window too.
    Source: HTA's queue length (trace_analysis, get_queue_length_time_series).
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [
        _series(
            _of(s, own_time(s.trace, source, within)), s.trace.meta.origin_ns - source.origin_ns
        )
        for s in chosen
        if not s.is_host
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=DEPTH_SCHEMA)


def _of(chosen: Selection, within: Range | None) -> _Queue:
    found = pairs.queued(chosen.trace, chosen.device)
    begin, start = found["call_start_ns"].to_numpy(), found["start_ns"].to_numpy()
    streams = _streams(chosen.trace, chosen.device)
    inside = chosen.inside
    if chosen.window == "all":
        edges = ((inside.start, begin), (inside.end, start))
        inside = intervals.union(*(np.concatenate(side) for side in edges))
        inside = inside if within is None else intervals.clip(inside, *within)
    lane = found["stream"].replace_strict(
        streams, list(range(1, len(streams) + 1)), default=0, return_dtype=pl.Int64
    )
    return _Queue(chosen, streams, _depth(lane.to_numpy(), begin, start), inside)


def _streams(trace: Trace, device: int | None) -> list[int]:
    mine = trace.activities.filter(pl.col("device").eq_missing(device))
    return mine["stream"].drop_nulls().unique().sort().to_list()


def _depth(lane: NDArray[np.int64], begin: Times, start: Times) -> _Depth:
    """Add up entries and exits of each lane, and of the device, which is lane 0."""
    on_stream = lane > 0
    lanes = np.concatenate((np.zeros(len(lane), np.int64), lane[on_stream]))
    enters = np.concatenate((begin, begin[on_stream]))
    leaves = np.concatenate((start, start[on_stream]))
    key, at = np.tile(lanes, 2), np.concatenate((enters, leaves))
    change = np.repeat(np.array([1, -1], np.int64), len(lanes))
    order = np.lexsort((at, key))
    key, at = key[order], at[order]
    # whatever enters a lane leaves it, so the sum is 0 again where the next lane begins
    depth = np.cumsum(change[order])
    last = np.ones(len(at), np.bool_)
    last[:-1] = (key[1:] != key[:-1]) | (at[1:] != at[:-1])
    key, at, depth = key[last], at[last], depth[last]
    end = np.concatenate((at[1:], at[-1:]))
    ends_lane = np.concatenate((key[1:] != key[:-1], [True]))[: len(key)]
    return _Depth(key, at, np.where(ends_lane, at, end), depth)


def _rows(found: _Queue, full: int) -> list[dict[str, object]]:
    whole = intervals.length(found.inside)
    measured, counts = _measured(found, full, whole), _counts(found)
    return [
        {
            "rank": found.chosen.rank,
            "device": found.chosen.device,
            "stream": stream,
            "window_ns": whole,
            **measured.get(lane, {"reason": NO_PAIRS}),
            **counts.get(lane, dict.fromkeys(COUNTS, 0)),
        }
        for lane, stream in enumerate([None, *found.streams])
    ]


def _measured(found: _Queue, full: int, whole: int) -> dict[int, dict[str, object]]:
    """Measure the depth of each lane that has any."""
    key, start, end, depth = found.over_time
    covered = intervals.covered(found.inside, start, end)
    filled = (depth >= full) & ((key > 0) if found.streams else True)
    at_once = intervals.union(start[filled], end[filled])
    any_full = intervals.length(intervals.intersection(at_once, found.inside))
    stretches = pl.DataFrame({"lane": key, "depth": depth, "ns": covered, "filled": filled})
    lanes = stretches.group_by("lane").agg(
        max_depth=pl.col("depth").filter(pl.col("ns") > 0).max().fill_null(0),
        depth_ns=(pl.col("depth").cast(pl.Float64) * pl.col("ns")).sum(),
        waiting_ns=pl.col("ns").filter(pl.col("depth") > 0).sum(),
        full_ns=pl.col("ns").filter("filled").sum(),
    )
    rows = {}
    for lane, highest, depth_ns, waiting, own_full in lanes.iter_rows():
        # a device is full while any of its streams is
        full_ns = any_full if lane == 0 else own_full
        rows[lane] = {
            "max_depth": highest,
            "mean_depth": depth_ns / whole if whole else None,
            "full_ns": full_ns,
            "full_share": full_ns / whole if whole else None,
            "empty_ns": whole - waiting,
            "empty_share": (whole - waiting) / whole if whole else None,
        }
    return rows


def _counts(found: _Queue) -> dict[int, dict[str, int]]:
    """Count the activities that start in the window, of each lane that has any."""
    counted = pairs.with_calls(found.chosen.trace, found.chosen.counted())
    counts = {
        "activities": pl.len(),
        "inverted": pl.col("inverted").sum(),
        "without_launch": pl.col("launch").null_count(),
    }
    lane = {stream: n for n, stream in enumerate(found.streams, 1)}
    by_stream = counted.drop_nulls("stream").group_by("stream").agg(**counts)
    rows = {lane[r.pop("stream")]: r for r in by_stream.iter_rows(named=True)}
    return rows | {0: counted.select(**counts).row(0, named=True)}


def _series(found: _Queue, shift_ns: int) -> pl.DataFrame:
    """Return the changes inside the window, and the depth where each of its stretches begins."""
    key, start, _, depth = found.over_time
    lanes = np.unique(key)
    opens = np.repeat(found.inside.start, len(lanes))
    opened = np.tile(lanes, len(found.inside.start))
    here = intervals.contains(found.inside, start)
    lane = np.concatenate((opened, key[here]))
    at = np.concatenate((opens, start[here]))
    after = np.concatenate((_at(found, opened, opens), depth[here]))
    # events are in order already: numpy's sort makes use of that, a sort of the frame does not
    order = np.lexsort((at, lane))
    lane, at, after = lane[order], at[order], after[order]
    new = np.append(True, (np.diff(lane) != 0) | (np.diff(at) != 0))[: len(at)]
    both = pl.DataFrame({"lane": lane[new], "t_ns": at[new], "depth": after[new]})
    streams = pl.Series([None, *found.streams], dtype=pl.Int64)
    return both.select(
        rank=pl.lit(found.chosen.rank, pl.Int32()),
        device=pl.lit(found.chosen.device, pl.Int32()),
        stream=streams.gather(both["lane"]),
        t_ns=pl.col("t_ns") + shift_ns,
        depth="depth",
    )


def _at(found: _Queue, lane: NDArray[np.int64], t: Times) -> NDArray[np.int64]:
    """Return the depth of lanes at some times."""
    key, start, _, depth = found.over_time
    axis = nesting.Axis((key, start), (lane, t))
    row = np.searchsorted(axis(key, start), axis(lane, t), "right") - 1
    # a row of another lane before it, or none (-1: the last), has nothing to say
    known = (row >= 0) & (np.append(key, 0)[row] == lane)
    return np.where(known, np.append(depth, 0)[row], 0)
