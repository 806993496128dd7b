"""Begin and end events (ph B and E) to complete ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.intervals import Times
from workbench.trace.nesting import Rows


class Pairs(NamedTuple):
    """Rows of begins with the rows of their ends, and those that have no partner."""

    begin: Rows
    end: Rows
    unfinished: Rows
    stray: Rows


def match(thread: NDArray[np.integer], at: Times, is_begin: NDArray[np.bool_]) -> Pairs:
    """Match each end with the newest open begin of its thread; events in any order.

    On a thread, the depth after each event is the running sum of +1 and -1; an end that finds
    nothing open would take it below its lowest, and is stray. Without those, a begin that reaches
    depth d is closed by the next event of that thread that leaves depth d.
    """
    order = np.lexsort((at, thread))
    order = order[~_stray(thread[order], is_begin[order])]
    stray = np.setdiff1d(np.arange(len(thread)), order)
    thread, is_begin = thread[order], is_begin[order]
    depth = _running(thread, np.where(is_begin, 1, -1))
    level = np.where(is_begin, depth, depth + 1)
    by_level = np.lexsort((np.arange(len(order)), level, thread))
    first, second = by_level[:-1], by_level[1:]
    paired = (
        is_begin[first]
        & ~is_begin[second]
        & (thread[first] == thread[second])
        & (level[first] == level[second])
    )
    begin, end = order[first[paired]], order[second[paired]]
    unfinished = np.setdiff1d(order[is_begin], begin)
    return Pairs(begin, end, unfinished, stray)


def _running(thread: NDArray[np.integer], change: Rows) -> Rows:
    """Return the running sum of each thread; threads in order."""
    total = np.cumsum(change)
    starts = np.flatnonzero(np.diff(thread, prepend=thread[:1] - 1))
    before = np.concatenate(([0], total))[starts]
    lengths = np.diff(np.append(starts, len(thread)))
    depth: Rows = total - np.repeat(before, lengths)
    return depth


def _stray(thread: NDArray[np.integer], is_begin: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which ends find nothing open: each takes the running sum to a new low below zero."""
    stray = np.zeros(len(thread), np.bool_)
    if not len(thread):
        return stray
    depth = _running(thread, np.where(is_begin, 1, -1))
    starts = np.flatnonzero(np.diff(thread, prepend=thread[:1] - 1))
    for low, high in zip(starts, np.append(starts[1:], len(thread)), strict=True):
        lowest = np.minimum.accumulate(np.minimum(depth[low:high], 0))
        stray[low:high] = np.diff(lowest, prepend=0) < 0
    return stray
