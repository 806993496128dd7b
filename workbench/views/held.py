"""Which boxes a page holds: an event each, or where they do not fit, several short ones in one.

A grain of time is chosen as small as the room allows. Events that reach over its edge, and all that
lie alone, are held as they are; those that lie together inside one grain become one box, which
knows how many they are and how long they ran. So whatever is left out, no time looks idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.views import packed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from workbench.views.lanes import Lanes
    from workbench.views.lod import Index
    from workbench.views.packed import Packed

MAX_BOXES = 1_500_000
"""More would take a browser over a second to read, however small they are."""
GUESS = 5.0
"""Bytes of a box, until some were packed."""
ENOUGH = 0.94
"""Part of the room that is worth no further try."""
TRIES = 5


@dataclass(frozen=True)
class Boxes:
    """Events in their order, some of them joined; `first` has the place where each box begins."""

    lanes: Lanes
    grain_ns: int
    """0: nothing is joined."""
    first: Index

    @cached_property
    def count(self) -> Index:
        """Return how many events each box holds."""
        return np.diff(self.first, append=len(self.lanes.start))

    @cached_property
    def longest(self) -> Index:
        """Return the place of the longest event of each box, the first of several."""
        if not self.grain_ns:
            return self.first
        dur = self.lanes.dur
        most = np.repeat(np.maximum.reduceat(dur, self.first), self.count)
        places = np.where(dur == most, np.arange(len(dur)), len(dur))
        return np.minimum.reduceat(places, self.first)

    def columns(self, extra: Mapping[str, NDArray[Any]]) -> dict[str, Packed]:
        """Pack the boxes row by row: the gap before each, its length, text and step.

        Gaps repeat themselves more than starts do; the first of a row is counted from time 0.
        `count` is one less than that of events, and `idle` has an entry for each joined box.
        """
        lanes, last = self.lanes, self.first + self.count - 1
        start, end = lanes.start[self.first], lanes.start[last] + lanes.dur[last]
        offset = np.searchsorted(self.first, lanes.offset)
        begins = offset[:-1][np.diff(offset) > 0]
        gap = start.copy()
        gap[1:] -= end[:-1]
        gap[begins] = start[begins]
        columns = {"gap": gap, "dur": end - start, "name": lanes.name[self.longest]}
        columns["step"] = np.unique(lanes.step[self.first], return_inverse=True)[1]
        if self.grain_ns:
            busy = np.add.reduceat(lanes.dur, self.first, dtype=np.int64)
            columns["count"] = self.count - 1
            columns["idle"] = (end - start - busy)[self.count > 1]
        columns |= {name: values[self.longest] for name, values in extra.items()}
        return {name: packed.numbers(values) for name, values in columns.items()}


def joined(lanes: Lanes, grain_ns: int, alone: Index | None = None) -> Boxes:
    """Join neighbours in a row that begin and end inside `grain_ns`, in the same step.

    A chain of them is cut where the next grain begins, so no box is longer than two. `alone` are
    places of events that stay as they are.
    """
    n = len(lanes.start)
    if not grain_ns or not n:
        return Boxes(lanes, 0, np.arange(n))
    apart = np.ones(n, bool)  # from the event before
    apart[1:] = lanes.start[1:] + lanes.dur[1:] - lanes.start[:-1] >= grain_ns
    apart[1:] |= lanes.step[1:] != lanes.step[:-1]
    apart[lanes.offset[:-1][lanes.offset[:-1] < n]] = True
    if alone is not None:
        apart[alone] = True
        apart[alone[alone + 1 < n] + 1] = True
    chain = np.maximum.accumulate(np.where(apart, np.arange(n), 0))
    grain = (lanes.start - lanes.start[chain]) // grain_ns
    apart[1:] |= grain[1:] != grain[:-1]
    return Boxes(lanes, grain_ns, np.flatnonzero(apart))


def fitted(
    lanes: Lanes,
    room: int,
    *,
    alone: Index | None = None,
    extra: Mapping[str, NDArray[Any]] | None = None,
    max_boxes: int = MAX_BOXES,
) -> tuple[Boxes, dict[str, Packed]]:
    """Return the boxes with the smallest grain that take at most `room` bytes, and their columns.

    `extra` are further columns of whole numbers from 0, one entry an event. The room is kept to as
    far as `alone` allows.
    """
    each, best, grain = GUESS, None, -1
    for _ in range(TRIES):
        wanted = int(min(max_boxes, room / each))
        before, grain = grain, _grain(lanes, wanted, alone)
        if grain == before:
            break
        boxes = joined(lanes, grain, alone)
        columns = boxes.columns(extra or {})
        size = packed.total(columns)
        if size <= room and (best is None or grain < best[0].grain_ns):
            best = boxes, columns
        full = not boxes.grain_ns or len(boxes.first) > ENOUGH * max_boxes
        if size <= room and (full or size > ENOUGH * room):
            break
        each = max(size / max(len(boxes.first), 1), 1e-3) * (1.01 if size > room else 1)
    return best or (boxes, columns)


def _grain(lanes: Lanes, wanted: int, alone: Index | None) -> int:
    """Return about the least grain that leaves `wanted` boxes; 0 when all events may stand alone.

    Steps of a sixteenth of an octave: sharper is not worth the passes over the events.
    """
    if len(lanes.start) <= wanted:
        return 0
    low, high = 0, 16 * lanes.engine.span_ns.bit_length()
    while high - low > 1:
        middle = (low + high) // 2
        few = len(joined(lanes, int(2 ** (middle / 16)), alone).first) <= wanted
        low, high = (low, middle) if few else (middle, high)
    return int(2 ** (high / 16))
