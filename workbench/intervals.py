"""Interval arithmetic on int64 nanoseconds, whole arrays at a time.

A set of half-open intervals is `Intervals`: sorted, disjoint, not touching, none empty. Every
function that takes two sets expects them in that form; `union` makes it from anything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]


class Intervals(NamedTuple):
    """Disjoint half-open intervals [start, end) in order."""

    start: Times
    end: Times


EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Times, end: Times) -> Intervals:
    """Merge any intervals into a set; empty ones vanish and touching ones join."""
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Intervals(start[first], reach[last])


def length(x: Intervals) -> int:
    """Add up the lengths, in ns."""
    return int((x.end - x.start).sum())


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """Return where both sets are."""
    return _sweep(a, b, wanted=3)


def difference(a: Intervals, b: Intervals) -> Intervals:
    """Return where `a` is and `b` is not."""
    return _sweep(a, b, wanted=1)


def clip(x: Intervals, start: int, end: int) -> Intervals:
    """Return the part of a set inside one interval."""
    return union(np.maximum(x.start, start), np.minimum(x.end, end))


def contains(x: Intervals, t: Times) -> NDArray[np.bool_]:
    """Say of each time whether it lies in the set."""
    i = np.searchsorted(x.start, t, "right") - 1
    return (i >= 0) & (t < x.end[i]) if len(x.start) else np.zeros(len(t), np.bool_)


def covered(x: Intervals, start: Times, end: Times) -> Times:
    """Return how much of each interval [start, end) the set covers, in ns.

    Prefix sums and two binary searches an edge: O((n + m) log m) for n queries on m intervals.
    """
    return _measure(x, np.maximum(start, end)) - _measure(x, start)


def grouped_length(group: NDArray[np.integer], start: Times, end: Times, groups: int) -> Times:
    """Return the length of the union within each group 0 … groups-1, in ns."""
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    before = grouped_reach(group, end)
    before = np.concatenate((start[:1], before[:-1]))
    first = np.concatenate(([True], group[1:] != group[:-1]))
    fresh = np.maximum(end - np.where(first, start, np.maximum(start, before)), 0)
    out = np.zeros(groups, np.int64)
    np.add.at(out, group, fresh)
    return out


def grouped_reach(group: NDArray[np.integer], end: Times) -> Times:
    """Return the running maximum of `end` within each run of equal, ascending groups.

    Ends are replaced by their ranks, so that group * n + rank is exact in int64 whatever the times.
    """
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(end), np.int64)
    rank[by_end] = np.arange(len(end))
    key = np.maximum.accumulate(group.astype(np.int64) * len(end) + rank)
    reach: Times = end[by_end[key % max(len(end), 1)]]
    return reach


def _sweep(a: Intervals, b: Intervals, wanted: int) -> Intervals:
    """Keep the stretches whose mask (1 for inside a, 2 for inside b) is the wanted one."""
    t = np.concatenate((a.start, a.end, b.start, b.end))
    weight = np.repeat(np.array([1, -1, 2, -2], np.int8), [len(a.start)] * 2 + [len(b.start)] * 2)
    order = np.argsort(t, kind="stable")
    t, mask = t[order], np.cumsum(weight[order], dtype=np.int64)
    keep = (mask[:-1] == wanted) & (t[1:] > t[:-1])
    return Intervals(t[:-1][keep], t[1:][keep])


def _measure(x: Intervals, t: Times) -> Times:
    """Return the length of the set before each time."""
    if not len(x.start):
        return np.zeros(len(t), np.int64)
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(x.end - x.start)))
    i = np.searchsorted(x.start, t, "right")
    unfinished = np.where(i > 0, np.maximum(x.end[i - 1] - t, 0), 0)
    return total[i] - unfinished
