"""When the recorded waits of streams ended: a wait ends when the work before its event has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.intervals import Times
from workbench.trace import nesting
from workbench.trace.core import Trace
from workbench.trace.nesting import NONE

STREAM_WAIT = "Stream Wait Event"
NEVER = np.iinfo(np.int64).min


class Waits(NamedTuple):
    """The waits of one device's streams, in order of their calls."""

    stream: NDArray[np.int64]
    """The stream that waits."""
    call: Times
    """When the wait was asked for."""
    end: Times
    """When the work before the event had ended."""

    def end_near(
        self, stream: pl.Series, at: Times, call: Times, near_ns: int
    ) -> NDArray[np.bool_]:
        """Say of activities (their stream, start and call) whether a wait ended just before.

        It counts when it was asked for before the activity was launched, and ended at most
        `near_ns` before the start.
        """
        found = np.zeros(len(at), np.bool_)
        number = stream.fill_null(-1).to_numpy()
        for one in np.unique(self.stream):
            mine, wanted = self.stream == one, np.flatnonzero(number == one)
            order = np.argsort(self.end[mine], kind="stable")
            ends, calls = self.end[mine][order], self.call[mine][order]
            low = np.searchsorted(ends, at[wanted] - near_ns, "left")
            high = np.searchsorted(ends, at[wanted], "right")
            some = low < high
            wanted, low, high = wanted[some], low[some], high[some]
            if len(wanted):
                edges = np.column_stack((low, high)).ravel()
                earliest = np.minimum.reduceat(np.append(calls, 0), edges)[::2]
                found[wanted] = earliest < call[wanted]
        return found


def of_streams(trace: Trace, activities: pl.DataFrame) -> Waits:
    """Return the waits of one device's streams, whose activities are given.

    A wait ends when all that its source stream had been given before the event was recorded has
    ended: activities, and waits of that stream itself. Waits whose event was recorded before the
    trace began, or that had nothing to wait for, are left out.
    """
    rows = _recorded(trace, activities["device"][0] if activities.height else None)
    calls = np.append(trace.launches["start_ns"].to_numpy(), 0)
    launched = nesting.ids(rows["launch"])
    call = np.where(launched == NONE, rows["start_ns"].to_numpy(), calls[launched])
    order = np.argsort(call, kind="stable")
    rows, call = rows[order], call[order]
    stream, source = rows["stream"].to_numpy(), rows["waits_on_stream"].to_numpy()
    record = calls[rows["waits_on_launch"].to_numpy()]
    end = _through(stream, source, call, record, _work_ends(activities, calls, source, record))
    known = end > NEVER
    return Waits(stream[known], call[known], end[known])


def _recorded(trace: Trace, device: int | None) -> pl.DataFrame:
    ranges = trace.ranges.drop_nulls("waits_on_launch").filter(pl.col("device").eq_missing(device))
    return ranges.filter(pl.col("name").cast(pl.String) == STREAM_WAIT).drop_nulls(
        ["stream", "waits_on_stream"]
    )


def _work_ends(activities: pl.DataFrame, calls: Times, source: Times, record: Times) -> Times:
    """Return when the activities that the source streams had been given by then have ended.

    A stream keeps order, so what starts before an activity of it had been given before it, too.
    """
    out = np.full(len(source), NEVER, np.int64)
    for one in np.unique(source):
        mine = activities.filter(pl.col("stream") == one)
        ends = np.maximum.accumulate((mine["start_ns"] + mine["dur_ns"]).to_numpy())
        known = mine["launch"].is_not_null().to_numpy()
        given = calls[mine["launch"].drop_nulls().to_numpy()]
        order = np.argsort(given, kind="stable")
        place = np.maximum.accumulate(np.flatnonzero(known)[order])
        asked = source == one
        before = np.searchsorted(given[order], record[asked], "left")
        last = np.append(place, -1)[before - 1]
        out[asked] = np.where(before > 0, np.append(ends, NEVER)[last], NEVER)
    return out


def _through(stream: Times, source: Times, call: Times, record: Times, end: Times) -> Times:
    """Let each wait end no earlier than those that its source stream was given before the event.

    `call` ascends. Ends only grow and come from earlier waits, so this comes to rest.
    """
    while True:
        later = end.copy()
        for one in np.unique(source):
            given = np.flatnonzero(stream == one)
            asked = np.flatnonzero(source == one)
            reach = np.append(np.maximum.accumulate(end[given]), NEVER)
            before = np.searchsorted(call[given], record[asked], "left")
            later[asked] = np.maximum(end[asked], np.where(before > 0, reach[before - 1], NEVER))
        if np.array_equal(later, end):
            return end
        end = later
