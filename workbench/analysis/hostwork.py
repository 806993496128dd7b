"""What host threads were doing: stretches of a thread, cut where its innermost event changes."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.intervals import Times
from workbench.trace import nesting, schema
from workbench.trace.core import Trace
from workbench.trace.names import matching
from workbench.trace.nesting import NONE, Axis, Rows
from workbench.trace.phases import stated

SYNC, DATA, COLLECTION, OPERATOR, PYTHON, UNKNOWN = range(6)
CAUSES = (
    "host_sync",
    "host_data_loading",
    "host_garbage_collection",
    "host_operator",
    "host_python",
    "host_unknown",
)
"""In the order of the numbers above."""
_COLLECTION = re.compile(
    r"(?<![\w./-])gc(?![\w./-])|\bgc\.(collect|py\b)|garbage.?collect|"
    r"^<built-in function collect>$",
    re.IGNORECASE,
)
_GIL = re.compile(r"(?<!\w)GIL(?!\w)")
_BLOCKING_COPY = re.compile(r"^(cuda|cu|hip)Memcpy(?!.*(Async|Batch))")
"""Copies that return when they are done; ROCm's PyTorch reads results by `hipMemcpyWithStream`."""
_COLUMNS = ("name", "thread", "start_ns", "dur_ns")
_CLASS = {"own": pl.Int8()}


class Asked(NamedTuple):
    """Stretches of host threads, none empty, disjoint on each thread."""

    thread: NDArray[np.integer]
    start: Times
    end: Times


class Pieces(NamedTuple):
    """The stretches in pieces, in the order of thread and time."""

    asked: Rows
    """The stretch that it is a piece of."""
    start: Times
    end: Times
    cause: NDArray[np.int8]
    """A number of `CAUSES`."""
    event: Rows
    """A row of `names`, or -1 where nothing is recorded."""
    names: pl.Series


def divided(trace: Trace, asked: Asked) -> Pieces:
    """Cut stretches of host threads into what was innermost there, and name the cause of each.

    Events are operators, annotations, runtime calls and Python calls. Synchronising calls (and
    copies that block), data loading, garbage collection, operators and Python calls have a cause of
    their own; any other event has that of the closest one around it that does. A Python call says
    no more than that Python ran, so within data loading or a collection it counts as that. Where
    no event has a cause it is `host_unknown`. Python calls are only read when a stretch is asked
    for.
    """
    if not len(asked.start):
        nothing = np.empty(0, np.int64)
        names = pl.Series([], dtype=pl.String)
        return Pieces(nothing, nothing, nothing, nothing.astype(np.int8), nothing, names)
    events = _events(trace, asked)
    rows, nested = nesting.sort_and_nest(events)
    stretch, at = _cuts(asked, nested)
    thread = asked.thread[stretch]
    event = nesting.innermost(nested, thread, at)
    last = np.append(stretch[1:] != stretch[:-1], True)
    end = np.where(last, asked.end[stretch], np.append(at[1:], 0))
    cause = _causes(events["own"].to_numpy()[rows], nested.parent)
    found = np.where(event == NONE, UNKNOWN, np.append(cause, UNKNOWN)[event]).astype(np.int8)
    return Pieces(stretch, at, end, found, event, events["name"].gather(rows))


def is_data_loading(name: str) -> bool:
    """Say whether an operator or annotation is torch's mark of a DataLoader's `__next__`."""
    return stated(name) == "data"


def is_collection(name: str) -> bool:
    """Say whether an event is a garbage collection by its name."""
    return bool(_COLLECTION.search(name))


def is_gil(name: str) -> bool:
    """Say whether an annotation, or its domain, is about Python's interpreter lock."""
    return bool(_GIL.search(name))


def blocks(call: str) -> bool:
    """Say whether a runtime call is a copy that returns when it is done, by its name."""
    return bool(_BLOCKING_COPY.match(call))


def _is_sync(calls: pl.DataFrame) -> pl.Series:
    blocking = matching(calls["name"], blocks)
    return (calls["kind"] == "sync") | blocking


def _events(trace: Trace, asked: Asked) -> pl.DataFrame:
    """Return the host events that touch the stretches, with the cause that each is by itself.

    Of events that last equally long the later table's is the inner one.
    """
    nested = (pl.col("form") == "nested") & (pl.col("domain").cast(pl.String) != "step")
    ranges = trace.ranges.filter(pl.col("thread").is_not_null() & nested)
    ranges, frames, ops, calls = (
        _touching(t.select(*_COLUMNS, *more), asked)
        for t, *more in ((ranges,), (trace.frames,), (trace.ops,), (trace.launches, "kind"))
    )
    return pl.concat(
        [
            _classed(ranges, (DATA, _data(ranges)), (COLLECTION, _collections(ranges))),
            _classed(frames, (PYTHON, None), (COLLECTION, _collections(frames))),
            _classed(ops, (OPERATOR, None), (DATA, _data(ops))),
            _classed(calls, (SYNC, _is_sync(calls))),
        ]
    )


def _data(events: pl.DataFrame) -> pl.Series:
    return matching(events["name"], is_data_loading)


def _collections(events: pl.DataFrame) -> pl.Series:
    return matching(events["name"], is_collection)


def _classed(events: pl.DataFrame, *rules: tuple[int, pl.Series | None]) -> pl.DataFrame:
    """Give events the cause of the last rule that holds for them, -1 without one."""
    own = np.full(events.height, NONE, np.int8)
    for cause, holds in rules:
        own[slice(None) if holds is None else holds.to_numpy()] = cause
    plain = events.select(pl.col("name").cast(schema.NAME), *_COLUMNS[1:])
    return plain.with_columns(own=pl.Series(own, dtype=_CLASS["own"]))


def _touching(events: pl.DataFrame, asked: Asked) -> pl.DataFrame:
    """Return the events that share time with a stretch of their thread."""
    thread, start = events["thread"].to_numpy(), events["start_ns"].to_numpy()
    end = start + events["dur_ns"].to_numpy()
    touches = np.zeros(len(start), np.bool_)
    for number in np.unique(asked.thread):
        on_it, mine = asked.thread == number, np.flatnonzero(thread == number)
        mine = mine[np.argsort(start[mine], kind="stable")]  # next to nothing: tables are in order
        order = np.argsort(asked.start[on_it])
        begins, ends = asked.start[on_it][order], asked.end[on_it][order]
        passed = np.searchsorted(start[mine], ends, "left")
        after = np.cumsum(np.bincount(passed, minlength=len(mine) + 1))[:-1]
        touches[mine] = np.append(begins, np.iinfo(np.int64).max)[after] < end[mine]
    return events[np.flatnonzero(touches)]


def _cuts(asked: Asked, events: nesting.Nested) -> tuple[Rows, Times]:
    """Return where pieces begin: the stretch and the time, in the order of thread and time."""
    at = np.concatenate((asked.start, events.start, events.end))
    thread = np.concatenate((asked.thread, events.thread, events.thread))
    axis = Axis((thread, at), (asked.thread, asked.end))
    order = np.argsort(axis(asked.thread, asked.start), kind="stable")
    begins = axis(asked.thread, asked.start)[order]
    ends = axis(asked.thread, asked.end)[order]
    place, which = np.unique(axis(thread, at), return_index=True)
    stretch = np.searchsorted(begins, place, "right") - 1
    inside = (stretch >= 0) & (place < ends[stretch])
    return order[stretch[inside]], at[which[inside]]


def _causes(own: NDArray[np.int8], parent: Rows) -> NDArray[np.int8]:
    """Return each event's cause: its own, or that of the closest one around it that has one."""
    closest = nesting.nearest(parent, own != NONE)
    cause = np.where(closest == NONE, UNKNOWN, np.append(own, UNKNOWN)[closest])
    named = nesting.nearest(parent, (own != NONE) & (own != PYTHON))
    around = np.append(own, UNKNOWN)[named]
    special = (named != NONE) & ((around == DATA) | (around == COLLECTION))
    return np.where((cause == PYTHON) & special, around, cause).astype(np.int8)
