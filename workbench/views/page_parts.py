"""What a standalone page carries beside the events: counter tracks, links, and classes of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.trace.nesting import NONE, ids, nearest
from workbench.views import flow, packed
from workbench.views.lod import Window
from workbench.views.measure import CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.trace.core import Source, Trace
    from workbench.views.counter_tracks import Track
    from workbench.views.held import Boxes
    from workbench.views.lanes import Lanes
    from workbench.views.lod import Index
    from workbench.views.packed import Packed

MAX_STEPS = 4_000
"""Steps of a track that a page carries; of more, the extremes and the mean of so many pixels."""
MAX_PEERS = 2_000
"""Collectives of a rank that are tied to those of others."""


def track_columns(tracks: Sequence[Track]) -> tuple[list[Any], dict[str, Packed]]:
    """Return the limits of each track, and its steps: `track0_t track0_mean`, single precision.

    Tracks cut into pixels have `track0_low` and `track0_high` too.
    """
    limits, columns = [], {}
    for k, track in enumerate(tracks):
        curve = track.curve
        limits.append(curve.limits)
        if len(curve.t) <= MAX_STEPS:
            columns[f"track{k}_t"] = packed.signed(curve.t)
            columns[f"track{k}_mean"] = packed.single(curve.value)
            continue
        found = curve.bands(Window(0, 0.0, float(track.span_ns), 0, 0), MAX_STEPS)
        edges = np.rint(track.span_ns * (np.arange(MAX_STEPS + 1) / MAX_STEPS))
        columns[f"track{k}_t"] = packed.signed(edges)
        for name, values in found._asdict().items():
            columns[f"track{k}_{name}"] = packed.single(np.append(values, np.nan))
    return limits, columns


def classes(lanes: Lanes) -> list[int]:
    """Return the class of work of each text, a position in `measure.CLASSES`; -1 for none."""
    of_kind = {kind: k for k, kinds in enumerate(CLASSES.values()) for kind in kinds}
    kinds = lanes.kinds or (None,) * len(lanes.names)
    return [of_kind.get(kind or "", NONE) for kind in kinds]


def ties(source: Source | None, lanes: Lanes, boxes: Boxes) -> dict[str, Packed]:
    """Return which box each box of one event is tied to, by the way; -1 for nothing.

    `operator` of an activity; `forward` and `backward`, the other pass of an operator, its own or
    that of the closest one around it. A source without operators has none.
    """
    keep, single = boxes.longest, boxes.count == 1
    out = {k: np.full(len(keep), NONE, np.int64) for k in ("operator", "forward", "backward")}
    for trace in source.ranks if source is not None else ():
        ops, place_of_op = _kept(lanes, keep, trace, "ops")
        work, _ = _kept(lanes, keep, trace, "activities")
        if not len(place_of_op):
            continue
        out["operator"][work] = _at(place_of_op, ids(trace.activities["op"])[lanes.id[keep[work]]])
        for name, partner in _partners(trace).items():
            out[name][ops] = _at(place_of_op, partner[lanes.id[keep[ops]]])
    tied = {name: np.where(single, places, NONE) for name, places in out.items()}
    return {n: packed.signed(places) for n, places in tied.items() if (places != NONE).any()}


def peers(source: Source | None, lanes: Lanes, boxes: Boxes) -> list[list[int]]:
    """Return the boxes of what is one collective on several ranks, a list for each."""
    if source is None or len(source.ranks) == 1:
        return []
    first = source.ranks[0]
    found = first.activities.filter(pl.col("kind") == "collective")["id"].head(MAX_PEERS)
    groups = [
        [("activities", first.meta.rank, k), *(x.place for x in _others(source, first, k))]
        for k in found.to_list()
    ]
    at = lanes.places_of(event for group in groups for event in group)
    box = np.full(len(lanes.start), NONE)
    box[boxes.longest] = np.where(boxes.count == 1, np.arange(len(boxes.first)), NONE)
    placed = [[int(box[at[e]]) for e in group if e in at] for group in groups]
    placed = [[k for k in group if k != NONE] for group in placed]
    return [group for group in placed if len(group) > 1]


def _others(source: Source, trace: Trace, row: int) -> list[flow.Link]:
    selected = {"table": "activities", "rank": trace.meta.rank, "id": row}
    return [x for x in flow.links(source, selected) if x.relation == "other rank"]


def _kept(lanes: Lanes, keep: Index, trace: Trace, table: str) -> tuple[Index, Index]:
    """Return the places of a table's events among those kept, and the place of each of its rows."""
    mine = [x.table == table and x.rank == trace.meta.rank for x in lanes.lanes]
    places = np.flatnonzero(lanes.by_lane(np.array(mine, bool))[keep])
    of_row = np.full(trace.tables[table].height, NONE, np.int64)
    of_row[lanes.id[keep[places]][::-1]] = places[::-1]
    return places, of_row


def _at(values: Index, rows: Index) -> Index:
    return np.where(rows == NONE, NONE, values[np.maximum(rows, 0)])


def _partners(trace: Trace) -> dict[str, Index]:
    """Return the other pass of each operator: its own, else of the closest one around it."""
    forward, parent = ids(trace.ops["forward"]), ids(trace.ops["parent"])
    backward = np.full(len(forward), NONE, np.int64)
    back = np.flatnonzero(forward != NONE)
    backward[forward[back][::-1]] = back[::-1]
    node = nearest(parent, (forward != NONE) | (backward != NONE))
    there = _at(forward, node)
    return {"forward": there, "backward": np.where(there == NONE, _at(backward, node), NONE)}
