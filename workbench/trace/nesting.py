"""Which event encloses which, on host threads: vectorised, and exact on crooked recordings too.

The parent of an event is the latest started event of its thread that is still running at the
event's midpoint. On properly nested input that is the usual meaning; a child that outlives its
parent, or siblings that overlap by clock jitter (K30), change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
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


def depths(parent: Rows) -> NDArray[np.uint16]:
    """Return the number of ancestors of each event."""
    depth = np.zeros(len(parent), np.uint16)
    rows = np.flatnonzero(parent >= 0)
    up = parent[rows]
    while len(rows):
        depth[rows] += 1
        up = parent[up]
        rows, up = rows[up >= 0], up[up >= 0]
    return depth


def innermost(events: Nested, at_thread: NDArray[np.integer], at: Times) -> Rows:
    """Return the innermost event running on a thread at a time, or -1."""
    found = np.full(len(at), NONE, np.int64)
    for t in np.flatnonzero(np.bincount(at_thread)):
        lo, hi = np.searchsorted(events.thread, [t, t + 1])
        rows = np.flatnonzero(at_thread == t)
        last = lo + np.searchsorted(events.start[lo:hi], at[rows], "right") - 1
        found[rows] = np.where(last >= lo, last, NONE)
    active = np.flatnonzero(found >= 0)
    while len(active):
        active = active[events.end[found[active]] <= at[active]]
        found[active] = events.parent[found[active]]
        active = active[found[active] >= 0]
    return found
