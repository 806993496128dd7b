"""Which event encloses which, on host threads: vectorised, and exact on crooked recordings too.

The parent of an event is the latest started event of its thread that is still running at the
event's midpoint. On properly nested input that is the usual meaning; a child that outlives its
parent, or siblings that overlap by clock jitter (K30), change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.intervals import Times

Rows = NDArray[np.int64]
NONE = -1


class Nested(NamedTuple):
    """Events in `order`, with the row of each one's parent (-1: outermost)."""

    thread: NDArray[np.integer]
    start: Times
    end: Times
    parent: Rows


def sort_and_nest(events: pl.DataFrame) -> tuple[Rows, Nested]:
    """Return the order of a table with `thread start_ns dur_ns`, and its nesting in that order."""
    thread, start = events["thread"].to_numpy(), events["start_ns"].to_numpy()
    end = start + events["dur_ns"].to_numpy()
    rows = order(thread, start, end)
    return rows, nest(thread[rows], start[rows], end[rows])


def nest(thread: NDArray[np.integer], start: Times, end: Times) -> Nested:
    """Find the parents of events that stand in `order`."""
    return Nested(thread, start, end, parents(thread, start, end))


def order(thread: NDArray[np.integer], start: Times, end: Times) -> Rows:
    """Return the order that every function here expects: thread, start, longest first."""
    return np.lexsort((-end, start, thread))


def parents(thread: NDArray[np.integer], start: Times, end: Times) -> Rows:
    """Return each event's parent row, or -1; events in `order`.

    Every event starts with its predecessor as candidate; all candidates that had already ended are
    replaced by their own candidates at once. Whatever such a jump passes over had ended as well,
    and siblings are passed over by doubling, so n events need about log2(n) rounds.
    """
    n = len(start)
    middle = start + (end - start) // 2
    candidate = np.arange(-1, n - 1)
    if n:
        candidate[np.flatnonzero(np.diff(thread, prepend=thread[:1] - 1))] = NONE
    active = np.flatnonzero(candidate >= 0)
    while len(active):
        c = candidate[active]
        active = active[end[c] <= middle[active]]
        candidate[active] = candidate[candidate[active]]
        active = active[candidate[active] >= 0]
    return candidate


def depths(parent: Rows) -> Rows:
    """Return the number of ancestors of each event, by doubling: log2(depth) rounds."""
    depth = (parent >= 0).astype(np.int64)
    up = parent.copy()
    rows = np.flatnonzero(up >= 0)
    while len(rows):
        depth[rows] += depth[up[rows]]
        up[rows] = up[up[rows]]
        rows = rows[up[rows] >= 0]
    return depth


def nearest(parent: Rows, wanted: NDArray[np.bool_]) -> Rows:
    """Return the event itself or its closest ancestor that is wanted, or -1: log2(depth) rounds."""
    found = np.where(wanted, np.arange(len(parent)), parent)
    active = np.flatnonzero(found >= 0)
    while len(active):
        active = active[~wanted[found[active]]]
        found[active] = found[found[active]]
        active = active[found[active] >= 0]
    return found


def innermost(
    events: Nested, at_thread: NDArray[np.integer], at: Times, still: Times | None = None
) -> Rows:
    """Return the innermost event running on a thread at a time (and `still` later), or -1."""
    still = at if still is None else still
    axis = Axis((events.thread, events.start), (at_thread, at))
    starts = axis(events.thread, events.start)
    found = np.searchsorted(starts, axis(at_thread, at), "right") - 1
    active = np.flatnonzero(found >= 0)
    found[active[events.thread[found[active]] != at_thread[active]]] = NONE
    active = active[found[active] >= 0]
    while len(active):
        active = active[events.end[found[active]] <= still[active]]
        found[active] = events.parent[found[active]]
        active = active[found[active] >= 0]
    return found


def ids(column: pl.Series) -> Rows:
    """Return a nullable id column as row numbers, -1 for null."""
    rows: Rows = column.cast(pl.Int64).fill_null(NONE).to_numpy()
    return rows


def gathered(values: pl.Series, rows: Rows) -> pl.Series:
    """Return the values at some rows, null where a row is -1."""
    padded = values.extend_constant(None, 1)
    return padded.gather(np.where(rows == NONE, len(values), rows))


class Axis:
    """One int64 axis for all threads: sorts (thread, time) by thread first, then time.

    Made for the positions that it will be asked about. Where threads x span would overflow, a time
    is replaced by its rank among all of them, which keeps every comparison.
    """

    def __init__(self, *positions: tuple[NDArray[np.integer], Times]) -> None:
        times = [t for _, t in positions if len(t)]
        low = min((int(t.min()) for t in times), default=0)
        high = max((int(t.max()) for t in times), default=0)
        threads = 1 + max((int(thread.max()) for thread, _ in positions if len(thread)), default=0)
        self._low, self._band = low, high - low + 1
        self._ranks: Times | None = None
        if threads * self._band >= 2**62:
            self._ranks = np.unique(np.concatenate(times))
            self._band = len(self._ranks)

    def __call__(self, thread: NDArray[np.integer], at: Times) -> Times:
        """Map positions onto the axis."""
        place = at - self._low if self._ranks is None else np.searchsorted(self._ranks, at)
        on_axis: Times = thread.astype(np.int64) * self._band + place
        return on_axis
