"""What the devices did in a stretch of a timeline: counts and busy time of each class of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench import intervals
from workbench.trace.schema import COMPUTE_KINDS, COPY_KINDS
from workbench.views.lod import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from workbench.intervals import Intervals
    from workbench.views.lanes import Lanes

CLASSES = {"compute": COMPUTE_KINDS, "communication": ("collective",), "copy": COPY_KINDS}
EXPOSED, IDLE = "exposed communication", "idle"
SCHEMA = {"part": pl.String, "events": pl.Int64, "busy_ns": pl.Int64, "share": pl.Float64}


def measure(lanes: Lanes, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return `part events busy_ns share` of [start_ns, end_ns), times of the source.

    Parts: compute, communication, exposed communication (while no compute runs), copy, and idle;
    of each device (on a trace without one, of each rank's host) the union of its activities' times,
    added up over devices. `share` is of length x devices, null where that is 0; `events` touch the
    stretch. So busy parts may overlap, and all of them and idle do not add up to the whole. No rows
    where nothing of the timeline ran on a device.
    """
    a, b = start_ns - lanes.origin_ns, end_ns - lanes.origin_ns
    devices = _devices(lanes)
    totals = {part: [0, 0] for part in (*CLASSES, EXPOSED, IDLE)}
    for rows in devices:
        _add(totals, lanes, rows, (a, b))
    whole = (b - a) * len(devices)
    order = ("compute", "communication", EXPOSED, "copy", IDLE)
    found = [
        (part, None if part in {EXPOSED, IDLE} else events, busy, busy / whole if whole else None)
        for part in order
        for events, busy in (totals[part],)
    ]
    return pl.DataFrame(found if devices else [], SCHEMA, orient="row")


def card(lanes: Lanes, selection: Sequence[int]) -> dict[str, Any]:
    """Return what the front end shows of a selection: counts, times as text; nothing for []."""
    if not selection:
        return {}
    a, b = selection
    frame = measure(lanes, a, b)
    touching, _ = lanes.engine.totals(a - lanes.origin_ns, b - lanes.origin_ns)
    parts = [
        {"part": part, "busy_ns": str(busy), "share": share}
        for part, _, busy, share in frame.iter_rows()
        if busy or part == IDLE
    ]
    facts = {"events": int(touching.sum()), "devices": len(_devices(lanes)), "parts": parts}
    return {"range": [str(a), str(b)], **facts}


def _devices(lanes: Lanes) -> list[NDArray[np.int64]]:
    """Return the rows of each device's activities."""
    groups: dict[tuple[int | None, str], list[int]] = {}
    for k, lane in enumerate(lanes.lanes):
        if lane.table == "activities":
            groups.setdefault((lane.rank, lane.group), []).append(k)
    return [np.flatnonzero(np.isin(lanes.row_lane, of)) for of in groups.values()]


def _add(
    totals: dict[str, list[int]], lanes: Lanes, rows: NDArray[np.int64], range_: tuple[int, int]
) -> None:
    """Add one device's counts and times."""
    a, b = range_
    at = _touching(lanes, rows, a, b)
    start = np.maximum(lanes.start[at], a)
    end = np.minimum(lanes.start[at] + lanes.dur[at], b)
    kind_of_text = np.array(lanes.kinds, object)
    busy = {}
    for part, kinds in CLASSES.items():
        mine = np.isin(kind_of_text, kinds)[lanes.name[at]]
        busy[part] = intervals.union(start[mine], end[mine])
        totals[part][0] += int(mine.sum())
        totals[part][1] += intervals.length(busy[part])
    exposed = intervals.difference(busy["communication"], busy["compute"])
    totals[EXPOSED][1] += intervals.length(exposed)
    totals[IDLE][1] += (b - a) - intervals.length(_all(list(busy.values())))


def _touching(lanes: Lanes, rows: NDArray[np.int64], a: int, b: int) -> NDArray[np.int64]:
    window = Window(a, 0.0, float(max(b - a, 0)), 0, lanes.engine.rows)
    lo, hi = (side[rows] for side in lanes.engine.visible(window))
    parts = [np.arange(x, y) for x, y in zip(lo, hi, strict=True)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _all(parts: list[Intervals]) -> Intervals:
    return intervals.union(
        np.concatenate([p.start for p in parts]), np.concatenate([p.end for p in parts])
    )
