"""What a still picture of a timeline draws, as frames: events one by one, or busy pixels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from workbench.errors import UsageError, unknown_name
from workbench.views.kept_lanes import lanes_of
from workbench.views.lanes import Lanes
from workbench.views.lod import NONE, Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from workbench.trace.core import Source

MAX_BOXES = 2_000
"""More events than this are drawn as the busy share of each pixel: Bokeh is slow with boxes."""
BOX = {
    "lane": pl.String(),
    "row": pl.Int64(),
    "name": pl.String(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "step": pl.Int32(),
    "colour": pl.Int64(),
}
"""`row` counts those of the picture from the top; `colour` counts in `Theme.palette`."""
SHARE = {
    "lane": pl.String(),
    "row": pl.Int64(),
    "pixel": pl.Int64(),
    "busy_ns": pl.Float64(),
    "share": pl.Float64(),
    "name": pl.String(),
}


class Stretch(NamedTuple):
    """Rows of lanes, from start to end in ns of the source; fractions of a ns after a zoom."""

    lanes: Lanes
    rows: NDArray[np.int64]
    start_ns: float
    end_ns: float

    @property
    def window(self) -> Window:
        """Return it as the engine has it: over all rows from the first to the last."""
        base = math.floor(self.start_ns)
        first, last = int(self.rows[0]), int(self.rows[-1]) + 1
        ends = float(self.start_ns - base), float(self.end_ns - base)
        return Window(base - self.lanes.origin_ns, *ends, first, last)

    @property
    def labels(self) -> list[str]:
        """Return the label of each row's lane."""
        lanes = self.lanes.lanes
        return [lanes[k].label for k in self.lanes.row_lane[self.rows].tolist()]


def stretch(
    source: Source | Lanes,
    *,
    window: Sequence[int] | None = None,
    lanes: Iterable[str] | None = None,
) -> Stretch:
    """Choose what is drawn: [start_ns, end_ns] and labels of lanes; without them, all there is.

    Raises UsageError on an unknown lane, and on a window without a length.
    """
    data = source if isinstance(source, Lanes) else lanes_of(source)
    start, end = window or (data.origin_ns, data.origin_ns + data.engine.span_ns)
    if end <= start:
        raise UsageError(f"window must be [start_ns, end_ns] with a length, not {[start, end]}.")
    labels = [lane.label for lane in data.lanes]
    chosen = labels if lanes is None else list(lanes)
    for label in chosen:
        if label not in labels:
            raise unknown_name("lane", label, labels)
    of_lane = np.array([label in set(chosen) for label in labels], bool)
    return Stretch(data, np.flatnonzero(of_lane[data.row_lane]), start, end)


def boxes(seen: Stretch) -> pl.DataFrame | None:
    """Return the events that are drawn one by one, times of the source; None if there are many."""
    data, window = seen.lanes, seen.window
    lo, hi = (ends[seen.rows - window.first] for ends in data.engine.visible(window))
    if int((hi - lo).sum()) > MAX_BOXES:
        return None
    rows = []
    for row, (a, b) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        for i in range(a, b):
            e = data.event(i)
            colour = int(data.colours[data.name[i]])
            rows.append((e.lane.label, row, e.name, e.start_ns, e.dur_ns, e.step, colour))
    return pl.DataFrame(rows, schema=BOX, orient="row")


def shares(seen: Stretch, width: int) -> pl.DataFrame:
    """Return how busy each pixel with an event is, and the name of what takes most of it."""
    data, window = seen.lanes, seen.window
    bins = data.engine.bins(window, width)
    dominant, busy_ns = (a[seen.rows - window.first] for a in (bins.dominant, bins.busy_ns))
    row, pixel = np.nonzero(dominant != NONE)
    busy = busy_ns[row, pixel]
    names = [data.names[data.name[i]] for i in dominant[row, pixel].tolist()]
    labels = seen.labels
    lane = [labels[r] for r in row.tolist()]
    share = busy * (width / (window.b - window.a))
    columns = (lane, row, pixel, busy, share, names)
    return pl.DataFrame(dict(zip(SHARE, columns, strict=True)), schema=SHARE)
