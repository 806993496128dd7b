"""The gaps of a device inside a window, cut into parts with a cause each; they add up exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis import hostwork, waits
from workbench.analysis.window import Selection, spans
from workbench.intervals import Intervals, Times
from workbench.trace import nesting
from workbench.trace.nesting import NONE, Rows

NEAR_NS = 5_000
"""A wait that ends at most this long before an activity starts is why it had not started."""
LATENCY_LIMIT_NS = 10_000
"""The longest time that launching is taken to need."""
CAUSES = (
    *hostwork.CAUSES,
    "launch_call",
    "dependency",
    "launch_latency",
    "unknown",
    "edge",
    "graph",
    "host",
)
"""`host` is host execution, or host time that was not divided."""
LAUNCH_CALL, DEPENDENCY, LATENCY, UNKNOWN, EDGE, GRAPH, HOST = range(
    len(hostwork.CAUSES), len(CAUSES)
)
_NEEDED = ("id", "name", "device", "stream", "start_ns", "dur_ns", "launch", "step")
_NEVER = np.iinfo(np.int64).max


class Gaps(NamedTuple):
    """Gaps between activities of one device, in order; of some, only the part in a window."""

    start: Times
    end: Times
    ender: Rows
    """The activity (a row of the given ones) that ended it, or -1."""
    begin: Times
    """Where the whole gap began."""
    in_graph: NDArray[np.bool_]
    """The work before it is of the same graph launch as the one that ended it."""
    edge: NDArray[np.bool_]
    """Before the first or after the last activity of the window."""

    def at(self, rows: Rows) -> Gaps:
        """Return some of the gaps."""
        return Gaps(
            self.start[rows],
            self.end[rows],
            self.ender[rows],
            self.begin[rows],
            self.in_graph[rows],
            self.edge[rows],
        )


class Parts(NamedTuple):
    """Stretches of idle time in order of their gaps."""

    gap: Rows
    start: Times
    end: Times
    cause: NDArray[np.int8]
    """A number of `CAUSES`."""
    event: Rows
    """The host event in it (a row of `names`), or -1."""
    thread: NDArray[np.int64]
    """The launching thread, of host time alone; else -1."""

    def at(self, rows: Rows) -> Parts:
        """Return some of the parts."""
        return Parts(
            self.gap[rows],
            self.start[rows],
            self.end[rows],
            self.cause[rows],
            self.event[rows],
            self.thread[rows],
        )

    def per_gap(self, gaps: int) -> Times:
        """Return the time of each cause in each gap: a row a gap, a column a cause."""
        table = np.zeros((gaps, len(CAUSES)), np.int64)
        np.add.at(table, (self.gap, self.cause), self.end - self.start)
        return table


class Idle(NamedTuple):
    """The idle time of one device inside its window."""

    activities: pl.DataFrame
    """All of the device, `ender` among them."""
    gaps: Gaps
    parts: Parts
    names: pl.Series
    """Names of the host events."""


def idle_time(chosen: Selection, *, divide: bool = True, longer_than_ns: int = 0) -> Idle:
    """Return the gaps of a selection and their parts.

    Without `divide` host time stays whole, under the cause `host`, and no table of host events is
    read. Gaps that are no longer than `longer_than_ns` inside the window are left out.
    """
    activities, calls, gaps = _found(chosen)
    gaps = gaps.at(np.flatnonzero(gaps.end - gaps.start > longer_than_ns))
    parts = _parts(chosen, activities, calls, gaps)
    if not divide:
        return Idle(activities, gaps, parts, pl.Series([], dtype=pl.String))
    return Idle(activities, gaps, *_divided(chosen, parts))


def ended(chosen: Selection) -> tuple[Times, pl.Series]:
    """Return the length of each gap of a selection, and the id of the activity that starts there.

    The id is null where the window ends the gap.
    """
    activities, _, gaps = _found(chosen)
    start = np.append(activities["start_ns"].to_numpy(), _NEVER)[gaps.ender]
    ender = np.where(start == gaps.end, gaps.ender, NONE)
    return gaps.end - gaps.start, nesting.gathered(activities["id"], ender)


def _found(chosen: Selection) -> tuple[pl.DataFrame, Calls, Gaps]:
    """Return a device's activities, the call of each, and its gaps inside the window."""
    on_device = pl.col("device").eq_missing(chosen.device)
    activities = chosen.trace.activities.select(_NEEDED).filter(on_device)
    calls = _calls(chosen, activities)
    return activities, calls, _inside(between(activities, calls), chosen, activities)


class Calls(NamedTuple):
    """The launch call of each activity; without one, it begins and ends at the end of time."""

    row: Rows
    """In `launches`, or -1."""
    start: Times
    end: Times
    thread: NDArray[np.int64]
    is_graph: NDArray[np.bool_]


def _calls(chosen: Selection, activities: pl.DataFrame) -> Calls:
    launches = chosen.trace.launches
    row = nesting.ids(activities["launch"])
    start, end = spans(launches)
    thread = launches["thread"].cast(pl.Int64).to_numpy()
    is_graph = (launches["kind"] == "graph_launch").to_numpy()
    if chosen.is_host:  # the thread that works is the one that is waited for
        own = activities["stream"].fill_null(NONE).to_numpy()
    else:
        own = np.append(thread, NONE)[row]
    return Calls(
        row,
        np.append(start, _NEVER)[row],
        np.append(end, _NEVER)[row],
        own,
        np.append(is_graph, False)[row],
    )


def between(activities: pl.DataFrame, calls: Calls) -> Gaps:
    """Return the gaps between a device's activities, over the whole trace.

    Of activities that start together the one that was launched first ends the gap.
    """
    start, end = spans(activities)
    order = np.lexsort((calls.start, start))
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    grows = np.flatnonzero(np.append(True, end[1:] > reach[:-1]))
    at = np.flatnonzero(start[1:] > reach[:-1]) + 1
    ender = order[at]
    before = order[grows[np.searchsorted(grows, at, "left") - 1]]
    same = (calls.row[before] == calls.row[ender]) & (calls.row[ender] != NONE)
    begin = reach[at - 1]
    no_edge = np.zeros(len(at), np.bool_)
    return Gaps(begin, start[at], ender, begin, same & calls.is_graph[ender], no_edge)


def _inside(gaps: Gaps, chosen: Selection, activities: pl.DataFrame) -> Gaps:
    """Clip gaps to the window, and add its edges."""
    busy = chosen.times()
    ends = (int(busy.start[0]), int(busy.end[-1])) if len(busy.start) else (0, 0)
    core = intervals.clip(chosen.inside, *ends)
    clipped = intervals.intersection(core, Intervals(gaps.start, gaps.end))
    of = np.searchsorted(gaps.start, clipped.start, "right") - 1
    edges = intervals.difference(chosen.inside, core)
    first = _first_at(activities, ends[0]) if len(busy.start) else NONE
    ender = np.where(edges.end <= ends[0], first, NONE)
    no, yes = np.zeros(len(of), np.bool_), np.ones(len(ender), np.bool_)
    joined = Gaps(
        np.concatenate((clipped.start, edges.start)),
        np.concatenate((clipped.end, edges.end)),
        np.concatenate((gaps.ender[of], ender)),
        np.concatenate((gaps.begin[of], edges.start)),
        np.concatenate((gaps.in_graph[of], ~yes)),
        np.concatenate((no, yes)),
    )
    return joined.at(np.argsort(joined.start, kind="stable"))


def _first_at(activities: pl.DataFrame, start_ns: int) -> int:
    """Return the first activity that starts at a time; -1 when one only reaches into it."""
    place = int(np.searchsorted(activities["start_ns"].to_numpy(), start_ns, "left"))
    starts = activities["start_ns"]
    return place if place < len(starts) and starts[place] == start_ns else NONE


def _parts(chosen: Selection, activities: pl.DataFrame, calls: Calls, gaps: Gaps) -> Parts:
    """Cut each gap by the rules: the host until the call, the call, then what the device did."""
    # -1, no activity, picks what is added at the end
    start, end, gap = gaps.start, gaps.end, np.arange(len(gaps.start))
    thread = np.append(calls.thread, NONE)[gaps.ender]
    if chosen.is_host:
        return _joined([(gap, start, end, HOST, thread)])
    call = np.append(calls.start, _NEVER)[gaps.ender]
    call_end = np.append(calls.end, _NEVER)[gaps.ender]
    launched = (call != _NEVER) & ~gaps.edge & ~gaps.in_graph
    until = np.where(launched, np.clip(call, start, end), start)
    called = np.where(launched, np.clip(call_end, until, end), start)
    # a clipped gap knows the whole one's latency, which may have begun before the window
    rest = np.maximum(call_end, gaps.begin, where=launched, out=start.copy())
    slow = np.clip(rest + LATENCY_LIMIT_NS, called, end)
    waited = launched & _waited(chosen, activities, calls, gaps)
    none = np.full(len(gap), NONE)
    whole = np.where(gaps.edge, EDGE, np.where(gaps.in_graph, GRAPH, UNKNOWN))
    late = np.where(waited, DEPENDENCY, LATENCY)
    return _joined(
        [
            (gap, start, until, HOST, thread),
            (gap, until, called, LAUNCH_CALL, none),
            (gap, called, np.where(launched, np.where(waited, end, slow), start), late, none),
            (gap, np.where(launched, np.where(waited, end, slow), start), end,
             np.where(launched, UNKNOWN, whole), none),
        ]
    )  # fmt: skip


def _waited(
    chosen: Selection, activities: pl.DataFrame, calls: Calls, gaps: Gaps
) -> NDArray[np.bool_]:
    """Say of each gap whether a recorded wait of the stream ended just before it did."""
    ended = gaps.ender != NONE
    ender = gaps.ender[ended]
    out = np.zeros(len(ended), np.bool_)
    if not len(ender):
        return out
    start = activities["start_ns"].to_numpy()[ender]
    recorded = waits.of_streams(chosen.trace, activities)
    out[ended] = recorded.end_near(activities["stream"][ender], start, calls.start[ender], NEAR_NS)
    return out


def _joined(pieces: list[tuple[Rows, Times, Times, NDArray[np.integer] | int, Rows]]) -> Parts:
    """Put parts together in order of gap and time, without the empty ones."""
    sizes = [len(p[0]) for p in pieces]
    cause = np.concatenate(
        [np.broadcast_to(np.asarray(p[3], np.int8), n) for p, n in zip(pieces, sizes, strict=True)]
    )
    gap, start, end, thread = (np.concatenate([p[i] for p in pieces]) for i in (0, 1, 2, 4))
    some = np.flatnonzero(end > start)
    order = some[np.argsort(start[some], kind="stable")]  # gaps are in order, so this is theirs
    none = np.full(len(order), NONE)
    return Parts(gap[order], start[order], end[order], cause[order], none, thread[order])


def _divided(chosen: Selection, parts: Parts) -> tuple[Parts, pl.Series]:
    """Divide host time by what its thread was doing; that of host execution is only named."""
    host = np.flatnonzero((parts.cause == HOST) & (parts.thread != NONE))
    asked = hostwork.Asked(parts.thread[host], parts.start[host], parts.end[host])
    pieces = hostwork.divided(chosen.trace, asked)
    rest = np.ones(len(parts.gap), np.bool_)
    rest[host] = False
    of = host[pieces.asked]
    cause = np.full(len(of), HOST, np.int8) if chosen.is_host else pieces.cause
    joined = Parts(
        np.concatenate((parts.gap[rest], parts.gap[of])),
        np.concatenate((parts.start[rest], pieces.start)),
        np.concatenate((parts.end[rest], pieces.end)),
        np.concatenate((parts.cause[rest], cause)),
        np.concatenate((parts.event[rest], pieces.event)),
        np.concatenate((parts.thread[rest], parts.thread[of])),
    )
    return joined.at(np.argsort(joined.start, kind="stable")), pieces.names
