"""Level of detail for a quantity over time: exact least, mean and largest value of each pixel.

A curve is a step function: a sample's value holds until the next sample. Prefix sums of its area
and of its known time, and the extremes of blocks of samples, make a view of 10^7 samples cost about
what one of a thousand does.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.errors import UsageError
from workbench.views.lod import Edges, Index, Times, Window

BLOCK = 32
"""Samples summarised by one entry of the index of extremes."""
Values = NDArray[np.float64]


class Bands(NamedTuple):
    """Of each pixel the least, mean and largest value; NaN where none is known."""

    low: Values
    mean: Values
    high: Values


class Curve:
    """Answers what a stretch of a step function holds.

    Parameters
    ----------
    t
        int64 ns, in order; a value holds until the next time, the last one for no time.
    value
        float64; NaN from where it is not known.

    A sample that another one follows at the same time holds for no time: it counts among the
    extremes of its pixel and in no mean. Raises UsageError when times are out of order.

    """

    def __init__(self, t: Times, value: Values) -> None:
        self.t, self.value = t, value
        apart = np.diff(t)
        if (apart < 0).any():
            raise UsageError("The times of a counter are out of order; sort its samples first.")
        known = ~np.isnan(value[:-1])
        area = np.where(known, value[:-1], 0.0) * apart
        self._area = np.concatenate(([0.0], np.cumsum(area)))
        self._known = np.concatenate(([0], np.cumsum(np.where(known, apart, 0))))
        blocks = np.arange(0, len(value), BLOCK)
        self._low = np.fmin.reduceat(value, blocks) if len(value) else value
        self._high = np.fmax.reduceat(value, blocks) if len(value) else value

    @cached_property
    def limits(self) -> tuple[float, float] | None:
        """Return the least and the largest value of all; None where none is known."""
        if not len(self.value) or np.isnan(self._high).all():
            return None
        return float(np.nanmin(self._low)), float(np.nanmax(self._high))

    @property
    def nbytes(self) -> int:
        """Return the memory of all arrays."""
        return sum(a.nbytes for a in vars(self).values() if isinstance(a, np.ndarray))

    def bands(self, window: Window, pixels: int) -> Bands:
        """Cut the window into pixels; its rows play no part.

        `mean` is weighted by time over what is known of the pixel, exact up to the rounding of
        doubles; where all values of a pixel hold for no time, it is the middle of their extremes.
        """
        if not len(self.t):
            return Bands(*(np.full(pixels, np.nan) for _ in Bands._fields))
        edges = window.a + (window.b - window.a) * (np.arange(pixels + 1) / pixels)
        i = np.searchsorted(self.t, self._whole(edges, window.base))
        area, known = self._sums(i, edges, window.base)
        lo, hi = self._samples(i, edges, window.base), i[1:]
        low, high = (
            self._extreme(f, blocks, lo, hi)
            for f, blocks in ((np.fmin, self._low), (np.fmax, self._high))
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(known > 0, area / known, (low + high) / 2)
        return Bands(low, np.clip(mean, low, high), high)

    def stretch(self, start: int, end: int) -> tuple[float, float, float]:
        """Return the least, mean and largest value in [start, end); NaN where none is known."""
        found = self.bands(Window(start, 0.0, float(max(end - start, 1)), 0, 0), 1)
        return float(found.low[0]), float(found.mean[0]), float(found.high[0])

    def _whole(self, edges: Edges, base: int) -> Times:
        """Return the least integer time at or after each edge."""
        first, last = float(self.t[0] - base) - 1, float(self.t[-1] - base) + 1
        return np.clip(np.ceil(edges), first, last).astype(np.int64) + base

    def _sums(self, i: Index, edges: Edges, base: int) -> tuple[Values, Values]:
        """Return the area and the known time of each pixel."""
        before = np.maximum(i - 1, 0)
        value = self.value[before]
        since = np.where((i > 0) & (i < len(self.t)), edges - (self.t[before] - base), 0.0)
        since = np.where(np.isnan(value), 0.0, since)
        area = np.diff(self._area[before]) + np.diff(since * np.nan_to_num(value))
        return area, np.diff(self._known[before]) + np.diff(since)

    def _samples(self, i: Index, edges: Edges, base: int) -> Index:
        """Return the first sample that counts in each pixel: the one that runs in, if any."""
        n = len(self.t)
        upcoming = self.t[np.minimum(i, n - 1)] - base
        runs_in = (i > 0) & (i < n) & (upcoming > edges)
        return (i - runs_in)[:-1]

    def _extreme(self, of: np.ufunc, blocks: Values, lo: Index, hi: Index) -> Values:
        """Return the extreme of the samples of each [lo, hi); NaN where there are none.

        Ranges ascend, and share at most the sample that runs from one into the next.
        """
        out = np.full(len(lo), np.nan)
        some = np.flatnonzero(hi > lo)
        if not len(some):
            return out
        lo, hi, k = lo[some], hi[some], np.arange(BLOCK)
        left = of.reduce(self.value[np.minimum(lo[:, None] + k, hi[:, None] - 1)], axis=1)
        right = of.reduce(self.value[np.maximum(hi[:, None] - 1 - k, lo[:, None])], axis=1)
        best = of(left, right)
        first, last = -(-lo // BLOCK), hi // BLOCK
        wide = np.flatnonzero(last > first)
        if len(wide):
            # reduceat runs its last segment to the end of what it is given, so that is cut there
            bounds = np.stack((first[wide], last[wide]), axis=1).ravel()
            whole = of.reduceat(blocks[: bounds[-1]], bounds[:-1])[0::2]
            best[wide] = of(best[wide], whole)
        out[some] = best
        return out
