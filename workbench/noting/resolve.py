"""Where a note's target is in a recording as it reads now, or why it is nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from workbench.noting.note import LEAST, MOST, Event, Named, Note, Span
from workbench.noting.targets import TABLES, thread
from workbench.trace import windows

if TYPE_CHECKING:
    from workbench.trace.core import Source, Trace

ABSENT = "not in this recording"
_NAMES = {"kernel": "activities", "operator": "ops"}


class Place(NamedTuple):
    """Where a target is; times are the source's, and those beyond what int64 holds its bounds."""

    start_ns: int | None = None
    end_ns: int | None = None
    rank: int | None = None
    event: int | None = None
    """Row of its table."""
    reason: str | None = None
    """Why it was not found; None when it was."""


def place(source: Source, note: Note) -> Place:
    """Find a note's target by what the recording says, never by a row number.

    A stretch of time is found where it touches the time that a rank of it recorded; an event by
    table, name, begin, duration, device, stream and thread; a name where anything has it.
    """
    match note.target:
        case Span():
            return _span(source, note.target)
        case Event():
            return _event(source, note.target)
        case Named():
            return Place(reason=None if _has(source, note.target) else ABSENT)
    return Place(reason=ABSENT)


def _bounded(time: int) -> int:
    """Cut a time of the source to int64: a file of notes may hold any absolute time."""
    return min(max(time, LEAST), MOST)


def _ranks(source: Source, rank: int | None) -> list[Trace]:
    """Return the traces that may be of a rank: files that don't say theirs may be of any."""
    known = [t for t in source.ranks if t.meta.rank == rank]
    return known or [t for t in source.ranks if rank is None or t.meta.rank is None]


def _not_open(source: Source, rank: int | None) -> str:
    return ABSENT if _ranks(source, rank) else f"rank {rank} is not open"


def _span(source: Source, span: Span) -> Place:
    start, end = (_bounded(t - source.origin_ns) for t in (span.start_ns, span.end_ns))
    found = Place(start, end, span.rank)
    touches = any(_touches(trace, span) for trace in _ranks(source, span.rank))
    return found if touches else found._replace(reason=_not_open(source, span.rank))


def _touches(trace: Trace, span: Span) -> bool:
    first, last = trace.meta.recording or (0, windows.end_ns(trace))
    origin = trace.meta.origin_ns
    return span.start_ns <= origin + last and span.end_ns >= origin + first


def _event(source: Source, event: Event) -> Place:
    start = event.start_ns - source.origin_ns
    found = Place(_bounded(start), _bounded(start + event.dur_ns), event.rank)
    for trace in _ranks(source, event.rank):
        row = _row(trace, event)
        if row is not None:
            return found._replace(event=row, rank=trace.meta.rank)
    return found._replace(reason=_not_open(source, event.rank))


def _row(trace: Trace, event: Event) -> int | None:
    """Return the row that is the event; of several that are alike in all, the one it was."""
    if event.table not in TABLES:
        return None
    table = trace.tables[event.table]
    rows = table.with_row_index("row").filter(
        pl.col("start_ns") == event.start_ns - trace.meta.origin_ns,
        pl.col("dur_ns") == event.dur_ns,
    )
    name = (
        pl.format("step {}", "step") if event.table == "steps" else pl.col("name").cast(pl.String)
    )
    same = rows.filter(name == event.name)
    hits = [
        r["row"]
        for r in same.iter_rows(named=True)
        if all(
            known is None or known == r.get(key)
            for key, known in (("device", event.device), ("stream", event.stream))
        )
        and event.thread in (None, thread(trace, r.get("thread")))
    ]
    return event.id if event.id in hits else min(hits, default=None)


def _has(source: Source, named: Named) -> bool:
    name = pl.col("name").cast(pl.String) == named.name
    return any(t.tables[_NAMES[named.of]].select(name.any()).item() or False for t in source.ranks)
