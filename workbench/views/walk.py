"""Which event lies beside another: along its row, or on the row above or below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.views.lod import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.views.lanes import Lanes


def beside(lanes: Lanes, i: int, by: int) -> int:
    """Return the next event of the same row (by 1) or the one before (-1); -1 at its ends."""
    row = int(np.searchsorted(lanes.offset, i, "right")) - 1
    k = i + by
    return k if lanes.offset[row] <= k < lanes.offset[row + 1] else NONE


def moved(drawn: Lanes, place: int, message: Mapping[str, Any]) -> int:
    """Return the place that a message moves to from that of the selected event; -1 for none.

    `by` goes along its row, `row` to another one.
    """
    at = drawn.position(place)
    if at == NONE:
        return NONE
    if "row" in message:
        return drawn.place(across(drawn, at, int(message["row"])))
    return drawn.place(beside(drawn, at, 1 if int(message["by"]) > 0 else -1))


def across(lanes: Lanes, i: int, row: int) -> int:
    """Return the event of another row that belongs to this one; -1 where the row has none.

    That is the one running when it starts (its parent, on the row above), else the first that
    starts while it runs (its first child, on the row below), else the nearest in time.
    """
    if not 0 <= row < len(lanes.row_lane):
        return NONE
    start = int(lanes.start[i])
    lo, hi = int(lanes.offset[row]), int(lanes.offset[row + 1])
    k = lo + int(np.searchsorted(lanes.start[lo:hi], start, "right")) - 1
    if k >= lo and start < int(lanes.start[k]) + max(int(lanes.dur[k]), 1):
        return k
    if k + 1 < hi and int(lanes.start[k + 1]) < start + int(lanes.dur[i]):
        return k + 1
    return lanes.engine.pick(row, start, lanes.engine.span_ns)
