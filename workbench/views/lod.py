"""Level of detail for a timeline: exact busy time per pixel in O(rows * pixels * log n).

Events stand sorted by (row, start); inside a row they do not overlap (`packing` sees to it, the
constructor asserts it). A prefix sum of durations makes "busy before t" one binary search, so a
view of 10^7 events costs about what a zoomed one does: no pyramid, no pass over the events.

Times are int64 ns from the first event. A window is an integer `base` and two float offsets from
it, so that fractions of a nanosecond exist where they are seen and nothing is rounded elsewhere.
"""

from __future__ import annotations

import functools
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.errors import UsageError
from workbench.views.lod_summary import BLOCK, LEVELS, MASK, SHIFT, STRIDE, Summary, summary

Times = NDArray[np.int64]
Index = NDArray[np.int64]
Edges = NDArray[np.float64]

MAX_RECTS = 5_000
"""Up to this many visible events are drawn one by one."""
PROCESSORS = min(4, os.cpu_count() or 1)
PIXELS_AT_ONCE = 16_000
"""Of all rows together: as many as whose arrays stay in a processor's cache."""
MAX_SPAN_NS = 3 * 2**61
NONE = -1


class Window(NamedTuple):
    """The stretch [base + a, base + b) of time, in ns, over rows [first, last)."""

    base: int
    a: float
    b: float
    first: int
    last: int


class Bins(NamedTuple):
    """What each pixel of each row holds; arrays are rows x pixels."""

    busy_ns: NDArray[np.float64]
    begun: Index
    """Number of events that start in the pixel."""
    dominant: Index
    """The event with the most time in the pixel, or -1."""


class Engine:
    """Answers what a stretch of the timeline holds.

    Parameters
    ----------
    start, dur
        ns, sorted by row and start; `start` int64 from the first event, `dur` uint32 or int64.
    offset
        int64, rows + 1: row r holds the events [offset[r], offset[r + 1]).
    span_ns
        Least length of the extent: that of the whole, where these are some of its events.
    known
        `lod_summary.summary` of these very events, where it was kept; they were checked then.

    Raises UsageError when events of a row overlap, or when the span exceeds 2^62.5 ns.

    """

    def __init__(
        self,
        start: Index,
        dur: NDArray[np.integer],
        offset: Index,
        span_ns: int = 0,
        known: Summary | None = None,
    ) -> None:
        self.start, self.dur, self.offset = start, dur, offset
        self.rows = len(offset) - 1
        if known is None:
            self._check()
        self.span_ns = max(1, span_ns, self._last_end())
        self.summary = known or summary(start, dur, offset)
        self._before, self._ahead, self._longest, self._instants, *samples = self.summary
        self._sample, self._sampled = samples

    @property
    def nbytes(self) -> int:
        """Return the size of all arrays, wherever they lie."""
        return sum(a.nbytes for a in (self.start, self.dur, self.offset, *self.summary))

    def visible(self, window: Window) -> tuple[Index, Index]:
        """Return the events [lo, hi) of each row that touch the window."""
        edges = self._whole(np.array([window.a, window.b]), window.base)
        lo, hi = self._started(edges, window).T
        before = self._end(np.maximum(lo - 1, 0)) - window.base
        runs_in = (lo > self.offset[window.first : window.last]) & (before > window.a)
        return lo - runs_in, hi

    def totals(self, a: int, b: int) -> tuple[Index, Times]:
        """Return how many events of each row touch [a, b), and their time in it, in ns, exactly."""
        lo, hi = self.visible(Window(a, 0.0, float(b - a), 0, self.rows))
        some = hi > lo
        first, last = lo[some], hi[some] - 1
        busy = np.zeros(self.rows, np.int64)
        busy[some] = self._before[hi[some]] - self._before[first]
        busy[some] -= np.maximum(a - self.start[first], 0) + np.maximum(self._end(last) - b, 0)
        return hi - lo, busy

    def bins(self, window: Window, pixels: int) -> Bins:
        """Cut the window into pixels; busy time is exact up to the rounding of a double.

        Rows know nothing of each other, so each processor takes some: what costs is waiting for
        memory, and numpy lets other threads run meanwhile.
        """
        rows = window.last - window.first
        parts = min(rows, -(-rows * pixels // PIXELS_AT_ONCE))
        if parts < 2:  # noqa: PLR2004
            return self._bins(window, pixels)
        ends = [window.first + rows * k // parts for k in range(parts + 1)]
        some = [window._replace(first=a, last=b) for a, b in itertools.pairwise(ends)]
        found = _threads().map(self._bins, some, itertools.repeat(pixels))
        return Bins(*map(np.concatenate, zip(*found, strict=True)))

    def _bins(self, window: Window, pixels: int) -> Bins:
        edges = window.a + (window.b - window.a) * (np.arange(pixels + 1) / pixels)
        i = self._started(self._whole(edges, window.base), window)
        left = np.maximum(i - 1, 0)
        running = (i > self.offset[window.first : window.last, None]) & (len(self.start) > 0)
        end, length = self._end_and_length(left)
        still = (end - window.base).astype(np.float64) - edges
        still = np.where(running, np.maximum(still, 0), 0)
        done = (self._before.take(i) - self._before.take(i[:, :1])).astype(np.float64) - still
        # a difference of large doubles may fall a rounding error below zero
        busy = np.maximum(np.diff(done), 0)
        return Bins(busy, np.diff(i), self._dominant(i, still, length, edges, busy))

    def pick(self, row: int, t: int, slack: int) -> int:
        """Return the event of a row at time t, or -1.

        First an instant (an event without duration) within the slack, the nearest; else the event
        running at t; else the one whose nearer end lies within the slack.
        """
        lo, hi = int(self.offset[row]), int(self.offset[row + 1])
        instant = self._nearest_instant(lo, hi, t)
        if instant != NONE and abs(int(self.start[instant]) - t) <= slack:
            return instant
        i = lo + int(np.searchsorted(self.start[lo:hi], t, "right")) - 1
        gaps = {k: self._gap(k, t) for k in (i, i + 1) if lo <= k < hi}
        best = min(gaps, key=lambda k: gaps[k], default=NONE)
        return best if best != NONE and gaps[best] <= slack else NONE

    def _check(self) -> None:
        if not len(self.start):
            return
        end = self.start + self.dur
        same_row = np.ones(len(end) - 1, np.bool_)
        inner = self.offset[1:-1]
        same_row[inner[(inner > 0) & (inner < len(end))] - 1] = False
        bad = same_row & ((end[:-1] > self.start[1:]) | (self.start[:-1] > self.start[1:]))
        if bad.any():
            row = int(np.searchsorted(self.offset, int(bad.argmax()), "right")) - 1
            raise UsageError(f"Events of row {row} overlap or are out of order; pack them first.")
        if int(end.max()) > MAX_SPAN_NS or int(self.start.min()) < 0:
            raise UsageError(
                f"The events span more than {MAX_SPAN_NS} ns (over 200 years) or start before 0; "
                "check the time column."
            )

    def _last_end(self) -> int:
        """Return an end that also lies after an instant at the very end."""
        last = self.offset[1:][np.diff(self.offset) > 0] - 1
        return int((self.start[last] + np.maximum(self.dur[last], 1)).max()) if len(last) else 0

    def _end(self, i: Index) -> Index:
        return self._end_and_length(i)[0]

    def _end_and_length(self, i: Index) -> tuple[Index, NDArray[np.integer]]:
        if not len(self.start):
            return np.zeros(i.shape, np.int64), np.zeros(i.shape, np.int64)
        length = self.dur.take(i)
        return self.start.take(i) + length, length

    def _whole(self, edges: Edges, base: int) -> Index:
        """Return the least integer time at or after each edge: start < edge iff start < it."""
        inside = np.clip(np.ceil(edges), float(-1 - base), float(self.span_ns + 1 - base))
        return inside.astype(np.int64) + base

    def _started(self, t: Times, window: Window) -> Index:
        """Return, rows x times, the index of the first event of each row at or after t.

        A search in every STRIDE-th start stays in the processor's cache; a bisection of all
        searches at once, one array operation a round, finishes it. A third of the time of plain
        binary searches over 10^7 events.
        """
        rows = range(window.first, window.last)
        lo = np.empty((len(rows), len(t)), np.int64)
        hi = np.empty_like(lo)
        for k, r in enumerate(rows):
            a, b = self.offset[r], self.offset[r + 1]
            coarse = np.searchsorted(self._sample[self._sampled[r] : self._sampled[r + 1]], t)
            # the sampled start itself lies before t, so the search begins behind it
            lo[k] = a + np.maximum((coarse - 1) * STRIDE + 1, 0)
            hi[k] = np.minimum(a + coarse * STRIDE, b)
        return _bisect(self.start, t, lo, hi)

    def _dominant(
        self,
        i: Index,
        still: Edges,
        length: NDArray[np.integer],
        edges: Edges,
        busy: Edges,
    ) -> Index:
        """Return the event with the most time in each pixel.

        Candidates: the event running in from the left and the last one that starts, both clipped,
        and the longest of those that lie wholly inside, where these have time enough together.
        """
        lo, hi = i[:, :-1], i[:, 1:]
        first = np.where(still[:, :-1] > 0, np.minimum(still[:, :-1], np.diff(edges)), -1.0)
        last = np.where(hi > lo, length[:, 1:] - still[:, 1:], -1.0)
        most, rest = np.maximum(first, last), busy - np.maximum(first, 0) - last
        best = np.where(most < 0, NONE, np.where(most == last, hi - 1, lo - 1))
        # a whole ns of room for the rounding of `busy`: events inside are whole ns too
        many = (hi - lo > 1) & (rest > most - 1)
        if many.any():
            inner = self._range_longest(lo[many], hi[many] - 1)
            best[many] = np.where(self.dur.take(inner) >= most[many], inner, best[many])
        return best

    def _range_longest(self, lo: Index, hi: Index) -> Index:
        """Return the longest event of each [lo, hi), none empty; ranges ascend and are disjoint.

        The first and the last 2^k events, for the largest k that the range holds and the summary
        knows, and whole blocks between them.
        """
        k = np.minimum(np.frexp(hi - lo)[1] - 1, LEVELS)
        last = hi - (1 << k)
        best, other = self._longest_of(lo, k), self._longest_of(last, k)
        most, length = self.dur.take(best), self.dur.take(other)
        best = np.where(length > most, other, best)
        b0, b1 = (lo + BLOCK - 1) >> LEVELS, hi >> LEVELS
        wide = (hi - lo > 2 * BLOCK) & (b1 > b0)
        if wide.any():
            middle = _event(_ranged_maximum(self._longest, b0[wide], b1[wide]))
            longer = self.dur.take(middle) > np.maximum(most, length)[wide]
            best[wide] = np.where(longer, middle, best[wide])
        return best

    def _longest_of(self, i: Index, k: Index) -> Index:
        """Return the longest of the 2^k events from each on."""
        found: Index = i + ((self._ahead.take(i) >> SHIFT[k]) & MASK[k])
        return found

    def _nearest_instant(self, lo: int, hi: int, t: int) -> int:
        a, b = np.searchsorted(self._instants, [lo, hi])
        found = self._instants[a:b]
        k = int(np.searchsorted(self.start[found], t, "left"))
        near = [int(found[j]) for j in (k - 1, k) if 0 <= j < len(found)]
        return min(near, key=lambda j: abs(int(self.start[j]) - t), default=NONE)

    def _gap(self, i: int, t: int) -> int:
        """Return how far t lies from the event; 0 when it runs at t."""
        start = int(self.start[i])
        return max(start - t, t - (start + int(self.dur[i]) - 1), 0)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(PROCESSORS, "timeline")


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


def _bisect(key: Times, t: Times, lo: Index, hi: Index) -> Index:
    """Return the first index in [lo, hi] at which key reaches t; hi - lo is below STRIDE."""
    at, step = lo.copy(), STRIDE // 2 if len(key) else 0
    while step:
        probe = at + (step - 1)
        below = key.take(probe, mode="clip") < t
        below &= probe < hi
        at += below * step
        step //= 2
    return at


def _ranged_maximum(key: NDArray[np.uint64], lo: Index, hi: Index) -> NDArray[np.uint64]:
    """Return the maximum of key[lo:hi] for ascending, disjoint, non-empty ranges."""
    # reduceat runs its last segment to the end of what it is given, so the array is cut there
    cut = key[lo[0] : hi[-1]]
    bounds = np.stack((lo, hi), axis=1).ravel()[:-1] - lo[0]
    out: NDArray[np.uint64] = np.maximum.reduceat(cut, bounds)[0::2]
    return out


def _event(key: NDArray[np.uint64]) -> Index:
    return (key & np.uint64(0xFFFFFFFF)).astype(np.int64)
