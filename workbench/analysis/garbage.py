"""`gc`: garbage collections of Python and waits for its lock, and the idle time they caused."""

from __future__ import annotations

import polars as pl

from workbench import intervals
from workbench.analysis import hostwork
from workbench.analysis.gaps import HOST, idle_time
from workbench.analysis.window import Selection, select, spans
from workbench.trace import nesting, schema, steps
from workbench.trace.core import Source, Trace
from workbench.trace.names import matching
from workbench.trace.nesting import NONE

NEEDS = ("garbage collections",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "kind": pl.String(),
    "name": pl.String(),
    "thread": pl.Int32(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
}
COLLECTION, GIL_WAIT = "garbage_collection", "gil_wait"
_PLACE = ("name", "thread", "start_ns", "dur_ns")


def gc(source: Source, *, rank: int | None = None, device: int | None = None) -> pl.DataFrame:
    """Return a row for each recorded collection, and each wait for the lock, in order of start.

    A collection is an annotation, operator or Python call named `Python GC`, `gc.collect`, `gc …`
    or `garbage collect…`, or the call of the builtin `collect`; a wait for the lock (`gil_wait`)
    an annotation that names the GIL and a wait. What lies within another of its kind is part of
    it. `idle_ns` is the idle time of the device meanwhile whose next work this very thread had yet
    to launch, by the rules of `idle_causes`; null where no work is tied to its launch, and before
    the first and after the last activity, where nothing is known of the device. On several devices
    each has a row. `step` is the host step that it began in. The whole recording counts, whatever
    its steps.
    """
    chosen = select(source, window="all", rank=rank, device=device)
    frames = []
    for trace in source.ranks:
        if rank is not None and trace.meta.rank != rank:
            continue
        events = _events(trace)
        of_rank = [s for s in chosen if s.trace is trace] if events.height else []
        rows = [events.with_columns(device=s.device, idle_ns=_caused(s, events)) for s in of_rank]
        unplaced = events.with_columns(device=None, idle_ns=None)
        shift = trace.meta.origin_ns - source.origin_ns
        frames += [
            f.with_columns(pl.col("start_ns") + shift, rank=pl.lit(trace.meta.rank)).select(
                pl.col(n).cast(t) for n, t in SCHEMA.items()
            )
            for f in rows or [unplaced]
        ]
    found = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    return found.sort("start_ns", "rank", "device", "thread")


def _events(trace: Trace) -> pl.DataFrame:
    """Return the outermost collections and waits with their host step."""
    collections = [_named(t, trace) for t in ("ranges", "frames", "ops")]
    ranges = trace.ranges.filter(pl.col("thread").is_not_null())
    names_it = [matching(ranges[c], hostwork.is_gil) for c in ("name", "domain")]
    is_wait = matching(ranges["name"], lambda name: "wait" in name.lower())
    waits = ranges.filter((names_it[0] | names_it[1]) & is_wait)
    found = pl.concat(
        [_outermost(pl.concat(collections), COLLECTION), _outermost(waits.select(_PLACE), GIL_WAIT)]
    )
    at = found["start_ns"].to_numpy()
    return found.with_columns(step=steps.containing(trace.host_steps, at))


def _named(table: str, trace: Trace) -> pl.DataFrame:
    events = trace.frames if table == "frames" else trace.tables[table]
    events = events.filter(matching(events["name"], hostwork.is_collection))
    return events.select(_PLACE).drop_nulls("thread")


def _outermost(events: pl.DataFrame, kind: str) -> pl.DataFrame:
    events = events.with_columns(pl.col("name").cast(schema.NAME), kind=pl.lit(kind))
    rows, nested = nesting.sort_and_nest(events)
    return events.select(pl.all().gather(rows[nested.parent == NONE]))


def _caused(chosen: Selection, events: pl.DataFrame) -> pl.Series:
    """Return the device's idle time, still to be ended by the event's thread, during each event."""
    if not chosen.is_host and not chosen.activities["launch"].count():
        return pl.Series([None] * events.height, dtype=pl.Int64)
    parts = idle_time(chosen, divide=False).parts
    out = pl.Series([0] * events.height, dtype=pl.Int64)
    start, end = spans(events)
    for thread in events["thread"].unique():
        host = (parts.cause == HOST) & (parts.thread == thread)
        waiting = intervals.union(parts.start[host], parts.end[host])
        mine = (events["thread"] == thread).to_numpy().nonzero()[0]
        out[mine] = intervals.covered(waiting, start[mine], end[mine])
    known = pl.Series(intervals.covered(chosen.inside, start, end) > 0)
    return pl.select(pl.when(known).then(out)).to_series()
