"""Sub-lanes for device work that overlaps without nesting: viewers draw a track as a stack."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.trace import nesting
from workbench.trace.nesting import NONE

Numbers = NDArray[np.int64]
MOST_LANES = 64
"""Work that would need more stays on the last one, where viewers may hide it."""
_TRACK = ("device", "stream")


def pack(work: pl.DataFrame, marks: pl.DataFrame) -> pl.Series:
    """Return the sub-lane of each activity, 0 for its stream's own track.

    `work` and `marks` (device-side ranges, which must stay on the stream's own track) have
    `device stream start_ns dur_ns`. On each track any two of them are nested or apart.
    """
    start, end = pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")
    both = pl.concat(
        frame.select(*_TRACK, start=start, end=end, row=row)
        for frame, row in ((marks, pl.lit(-1, pl.Int64)), (work, pl.int_range(pl.len())))
    )
    both = both.with_columns(track=pl.struct(_TRACK).rank("dense").cast(pl.Int64))
    both = both.sort("track", "start", "end", descending=[False, False, True], maintain_order=True)
    both = both.with_columns(first=_first_lanes(both))
    lane = np.zeros(work.height, np.int64)
    crossed = _crossed(*(both[n].to_numpy() for n in ("track", "start", "end")))
    for _, found in both.filter(pl.col("track").is_in(crossed.implode())).group_by("track"):
        row = found["row"].to_numpy()
        placed = _stack(*(found[n].to_list() for n in ("start", "end", "row", "first")))
        lane[row[row >= 0]] = placed[row >= 0]
    return pl.Series("lane", lane)


def _first_lanes(both: pl.DataFrame) -> pl.Series:
    """Return 1 for events that cross a mark which begins later, and 0 for all others.

    Marks are nested or apart, so it is enough to look at the innermost of those that begin before
    an event's end and end after it.
    """
    marks = both.filter(pl.col("row") < 0)
    track, end = both["track"].to_numpy(), both["end"].to_numpy()
    nested = nesting.nest(*(marks[n].to_numpy() for n in ("track", "start", "end")))
    found = nesting.innermost(nested, track, end - 1)
    while (same := (found != NONE) & (np.append(nested.end, 0)[found] == end)).any():
        found[same] = nested.parent[found[same]]
    later = np.append(nested.start, 0)[found] > both["start"].to_numpy()
    return pl.Series(((found != NONE) & later & (both["row"].to_numpy() >= 0)).astype(np.int64))


def _crossed(track: Numbers, start: Numbers, end: Numbers) -> pl.Series:
    """Return the tracks on which something begins inside an earlier one and ends after it.

    Events stand by track and start, the longest first. Each is compared with the latest before it
    that still runs at its start; candidates that had ended give way to their own candidates.
    """
    candidate = np.arange(-1, len(start) - 1)
    candidate[np.flatnonzero(np.diff(track, prepend=0))] = -1
    active = np.flatnonzero(candidate >= 0)
    while len(active):
        active = active[end[candidate[active]] <= start[active]]
        candidate[active] = candidate[candidate[active]]
        active = active[candidate[active] >= 0]
    inside = np.flatnonzero(candidate >= 0)
    crossing = inside[end[inside] > end[candidate[inside]]]
    return pl.Series(np.unique(track[crossing]), dtype=pl.Int64)


def _stack(start: list[int], end: list[int], row: list[int], first: list[int]) -> Numbers:
    """Give each event the first lane on which it is nested in, or apart from, all before it.

    Marks (row -1) stay on lane 0, and an event never goes below its `first` lane.
    """
    open_ends: list[list[int]] = [[]]
    lanes = np.zeros(len(start), np.int64)
    for k, (s, e, mine, least) in enumerate(zip(start, end, row, first, strict=True)):
        lane = 0 if mine < 0 else _free_lane(open_ends, s, e, least)
        if lane == len(open_ends):
            open_ends.append([])
        open_ends[lane].append(e)
        lanes[k] = lane
    return lanes


def _free_lane(open_ends: list[list[int]], start: int, end: int, least: int) -> int:
    for lane, ends in enumerate(open_ends[least:], least):
        while ends and ends[-1] <= start:
            ends.pop()
        if not ends or end <= ends[-1]:
            return lane
    return min(len(open_ends), MOST_LANES - 1)
