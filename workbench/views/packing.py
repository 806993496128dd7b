"""Overlapping events of a lane into rows that hold no overlap: nested ones below their parents.

No Python loop over events where nesting is proper, which is nearly always; only clusters of events
that cross each other are placed one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]

MAX_ROWS = 48
"""Rows that one lane may take; events that would need more are left out and counted."""


class Packed(NamedTuple):
    """Events in drawing order: by row, then start."""

    order: Index
    """Positions in the caller's arrays."""
    offset: Index
    """int64, rows + 1: row r holds order[offset[r]:offset[r + 1]]."""
    lane: Index
    """Lane of each row."""
    hidden: Index
    """Events left out, by lane."""


def pack(lane: NDArray[np.integer], start: Index, dur: Index, lanes: int) -> Packed:
    """Give every event of lanes 0 … lanes-1 a row in which nothing overlaps it.

    Events that touch share a row; an instant (no duration) inside an event goes below it. Every
    lane gets at least one row, also without events.
    """
    small = lane.astype(np.uint16) if lanes < 2**16 else lane  # sorted by its digits, in one pass
    order = np.argsort(small, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(lane, minlength=lanes))))
    parts: list[Index] = []
    row_lanes, hidden = [], np.zeros(lanes, np.int64)
    for k in range(lanes):
        mine = order[bounds[k] : bounds[k + 1]]
        rows = _rows_of_lane(mine, start, dur)
        hidden[k] = len(mine) - sum(map(len, rows))
        parts += rows
        row_lanes += [k] * len(rows)
    offset = np.concatenate(([0], np.cumsum([len(p) for p in parts], dtype=np.int64)))
    whole = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return Packed(whole, offset, np.array(row_lanes, np.int64), hidden)


def inner(packed: Packed, start: Index, end: Index) -> NDArray[np.bool_]:
    """Say of each row whether all its time lies inside events of the row above, in the same lane.

    `start` and `end` stand in drawing order. So it is with rows of nested operators; what they are
    busy together is what the top row is.
    """
    found = np.zeros(len(packed.lane), np.bool_)
    for row in np.flatnonzero(np.diff(packed.lane, prepend=-1) == 0):
        above, mine = (slice(*packed.offset[r : r + 2]) for r in (row - 1, row))
        k = np.searchsorted(start[above], start[mine], "right") - 1
        inside = (k >= 0) & (end[above][k] >= end[mine])
        found[row] = (inside | (start[mine] == end[mine])).all()
    return found


def _rows_of_lane(mine: Index, start: Index, dur: Index) -> list[Index]:
    """Split the events of one lane into rows."""
    s = start[mine]
    if (s[1:] < s[:-1]).any():  # readers return events in order of start
        mine = mine[np.argsort(s, kind="stable")]
        s = start[mine]
    d = dur[mine]
    if (s[1:] >= s[:-1] + d[:-1]).all():
        return [mine]
    fix = np.lexsort((-d, d != 0, s))
    mine, s, d = mine[fix], s[fix], d[fix]
    level = _levels(s, s + d)
    top = min(int(level.max()) + 1, MAX_ROWS)
    return [mine[level == k] for k in range(top)]


def _levels(start: Index, end: Index) -> Index:
    """Return a row for each event: the number of events running at its start, where that works.

    It works for nested events. Clusters (stretches in which something always runs) where two events
    cross are filled one event at a time: each goes to the first row that is free.
    """
    lasting = end > start
    begun: Index = np.cumsum(lasting) - lasting
    level: Index = begun - np.searchsorted(np.sort(end[lasting]), start, "right")
    # a cluster begins where nothing runs; instants at that very time belong to no earlier one
    cluster = np.cumsum(level == 0)
    for c in np.unique(cluster[_crossing(level, start, end)]):
        lo, hi = np.searchsorted(cluster, [c, c + 1])
        level[lo:hi] = _first_fit(start[lo:hi], end[lo:hi])
    return level


def _crossing(level: Index, start: Index, end: Index) -> Index:
    """Return the positions of events that overlap the one before them on their level."""
    by_level: Index = np.argsort(level, kind="stable")
    same = level[by_level][1:] == level[by_level][:-1]
    clash = same & (end[by_level][:-1] > start[by_level][1:])
    crossing: Index = by_level[1:][clash]
    return crossing


def _first_fit(start: Index, end: Index) -> Index:
    """Place events in order of start; those beyond MAX_ROWS get the level MAX_ROWS."""
    free: list[int] = []
    out = []
    for s, e in zip(start.tolist(), end.tolist(), strict=True):
        row = next((k for k, busy_until in enumerate(free) if busy_until <= s), len(free))
        if row == len(free) and row < MAX_ROWS:
            free.append(e)
        elif row < MAX_ROWS:
            free[row] = e
        out.append(row)
    return np.array(out, np.int64)
