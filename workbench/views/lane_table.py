"""A stretch of a timeline as a table: how many events each lane holds, and how busy it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench import intervals, units
from workbench.views.lod import Window
from workbench.views.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from workbench.views.lanes import Lanes
    from workbench.views.lod import Index

SCHEMA = {"lane": pl.String(), "events": pl.Int64(), "busy_ns": pl.Int64()}
EMPTY_TEXT = "Nothing to draw: the source has no events."


MAX_READ = 50
"""Lanes that are read out at once."""
MAX_UNITED = 200_000
"""Events of overlapping rows up to which a reader is not kept waiting for their union."""


def table(lanes: Lanes, start_ns: int, end_ns: int, top: int | None = None) -> pl.DataFrame:
    """Return `lane events busy_ns share` of [start_ns, end_ns), times of the source.

    `events` touch the stretch; `busy_ns` is the union of their times in it; `share`, busy / length,
    is null where the stretch has none. `top` keeps the busiest lanes.
    """
    a, b = start_ns - lanes.origin_ns, end_ns - lanes.origin_ns
    found = _lanes(lanes, a, b, range(len(lanes.lanes)), None)
    frame = pl.DataFrame(found, SCHEMA, orient="row")
    share = pl.col("busy_ns") / (b - a) if b > a else pl.lit(None, pl.Float64)
    frame = frame.with_columns(share.alias("share"))
    return frame if top is None else frame.sort("busy_ns", descending=True).head(top)


def reply(lanes: Lanes, request: Mapping[str, Any]) -> Reply:
    """Answer what a screen reader is told of the lanes in sight: label, events, busy, share.

    Request: `base a b` (the window) and `lanes` (positions). `busy` is left out where many events
    of several rows would have to be united.
    """
    base = int(request["base"])
    a, b = base + math.floor(request["a"]), base + math.ceil(request["b"])
    wanted = [int(k) for k in request["lanes"] if 0 <= int(k) < len(lanes.lanes)][:MAX_READ]
    rows = [
        [label, f"{events:,}", *(("", "") if busy is None else _words(busy, b - a))]
        for label, events, busy in _lanes(lanes, a, b, wanted, MAX_UNITED)
    ]
    return Reply({"type": "sight", "view": request.get("view"), "rows": rows}, [])


def _words(busy_ns: int, length_ns: int) -> tuple[str, str]:
    return units.duration(busy_ns), units.share(busy_ns, length_ns)


def _lanes(
    lanes: Lanes, a: int, b: int, wanted: Iterable[int], most: int | None
) -> list[tuple[str, int, int | None]]:
    """Return label, events and busy time of some lanes; null where it is of more than `most`."""
    events, busy = lanes.engine.totals(a, max(a, b))
    found: list[tuple[str, int, int | None]] = []
    for k in wanted:
        count = int(events[lanes.row_lane == k].sum())
        rows = lanes.outer(k)
        spared = len(rows) > 1 and most is not None and int(events[rows].sum()) > most
        of_one = int(busy[rows[0]])
        union = None if spared else of_one if len(rows) == 1 else _union(lanes, rows, a, b)
        found.append((lanes.lanes[k].label, count, union))
    return found


def text(frame: pl.DataFrame, length_ns: int) -> str:
    """Return such a table as aligned text with units."""
    if not frame.height:
        return EMPTY_TEXT
    wide = max(map(len, frame["lane"]))
    lines = [f"{'lane':{wide}}  {'events':>9}  {'busy':>10}  {'share':>7}"]
    lines += [
        f"{lane:{wide}}  {events:9,}  {units.duration(busy):>10}  {units.share(busy, length_ns):>7}"
        for lane, events, busy, _ in frame.iter_rows()
    ]
    return "\n".join(lines)


def _union(lanes: Lanes, rows: Index, a: int, b: int) -> int:
    """Return the time in which any row is busy; only events that touch [a, b) are looked at."""
    first = int(rows[0])
    window = Window(a, 0.0, float(max(b - a, 0)), first, int(rows[-1]) + 1)
    lo, hi = lanes.engine.visible(window)
    seen = [slice(lo[r], hi[r]) for r in rows - first]
    start = np.concatenate([lanes.start[part] for part in seen])
    end = np.concatenate([lanes.start[part] + lanes.dur[part] for part in seen])
    return intervals.length(intervals.union(np.maximum(start, a), np.minimum(end, b)))
