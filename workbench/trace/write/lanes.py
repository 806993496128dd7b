"""Sub-lanes for device work that overlaps without nesting: viewers draw a track as a stack."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
    lane = np.zeros(work.height, np.int64)
    crossed = _crossed(*(both[n].to_numpy() for n in ("track", "start", "end")))
    for _, found in both.filter(pl.col("track").is_in(crossed.implode())).group_by("track"):
        row = found["row"].to_numpy()
        placed = _stack(found["start"].to_list(), found["end"].to_list(), (row < 0).tolist())
        lane[row[row >= 0]] = placed[row >= 0]
    return pl.Series("lane", lane)


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


def _stack(start: list[int], end: list[int], fixed: list[bool]) -> Numbers:
    """Give each event the first lane on which it is nested in, or apart from, all before it."""
    open_ends: list[list[int]] = [[]]
    lanes = np.zeros(len(start), np.int64)
    for k, (s, e, stays) in enumerate(zip(start, end, fixed, strict=True)):
        lane = 0 if stays else _free_lane(open_ends, s, e)
        if lane == len(open_ends):
            open_ends.append([])
        open_ends[lane].append(e)
        lanes[k] = lane
    return lanes


def _free_lane(open_ends: list[list[int]], start: int, end: int) -> int:
    for lane, ends in enumerate(open_ends):
        while ends and ends[-1] <= start:
            ends.pop()
        if not ends or end <= ends[-1]:
            return lane
    return min(len(open_ends), MOST_LANES - 1)
