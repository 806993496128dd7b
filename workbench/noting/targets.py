"""From what a person points at to a note's target, in the absolute time of the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError, unknown_name
from workbench.noting.note import Event, Named, Span, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.trace.core import Source, Trace

TABLES = ("activities", "launches", "ops", "ranges", "steps")
"""Tables whose rows a note can be about."""


def target(
    source: Source,
    *,
    span: Sequence[int] | None = None,
    at: int | None = None,
    event: Mapping[str, Any] | None = None,
    kernel: str | None = None,
    operator: str | None = None,
    rank: int | None = None,
) -> Target:
    """Return the target of a note; give exactly one of the five.

    `span` is [start_ns, end_ns] and `at` a moment, in the source's time, `rank` narrows them to
    one; `event` is {"table", "rank", "id"}, as a timeline's `selected`. Raises UsageError for an
    event or rank that the source does not have.
    """
    given = [g for g in (span, at, event, kernel, operator) if g is not None]
    if len(given) != 1:
        raise UsageError(
            "A note is about one thing: give a stretch of time, a moment, an event, a kernel or an "
            f"operator, and only one of them ({len(given)} were given)."
        )
    if event is not None:
        return of_event(source, event)
    if kernel is not None or operator is not None:
        return named(kernel, operator)
    stretch = span if span is not None else (at, at)
    return of_span(stretch, source.origin_ns, _known_rank(source, rank))


def of_span(stretch: Sequence[Any], origin_ns: int, rank: int | None = None) -> Span:
    """Return a stretch of a source's time; UsageError when it is none."""
    try:
        start, end = (int(t) + origin_ns for t in stretch)
        return Span(start, end, rank)
    except (TypeError, ValueError):
        raise UsageError(
            f"A stretch of time is [start_ns, end_ns] in order, not {stretch}."
        ) from None


def named(kernel: str | None, operator: str | None) -> Named:
    """Return all kernels or all operators of a name."""
    return Named("kernel", kernel) if kernel is not None else Named("operator", operator or "")


def of_event(source: Source, event: Mapping[str, Any]) -> Event:
    """Return what tells an event of the tables from all others."""
    table, rank, number = str(event["table"]), event.get("rank"), int(event["id"])
    if table not in TABLES:
        raise unknown_name("table of events", table, TABLES)
    trace = _trace(source, rank)
    frame = trace.tables[table]
    if not 0 <= number < frame.height:
        raise UsageError(f"There is no row {number} in the table {table!r}.")
    row = frame.row(number, named=True)
    if row["start_ns"] is None:
        raise UsageError(f"{_name(table, row)} has no time in this recording; note its name.")
    return Event(
        table=table,
        name=_name(table, row),
        start_ns=row["start_ns"] + trace.meta.origin_ns,
        dur_ns=row["dur_ns"],
        rank=trace.meta.rank,
        device=row.get("device"),
        stream=row.get("stream"),
        thread=thread(trace, row.get("thread")),
        id=number,
    )


def thread(trace: Trace, index: int | None) -> str | None:
    """Name a host thread as the recording does, `pid/tid`; its index may differ next time."""
    if index is None or not 0 <= index < len(trace.meta.threads):
        return None
    found = trace.meta.threads[index]
    return f"{found.pid}/{found.tid}"[:200]


def _name(table: str, row: Mapping[str, Any]) -> str:
    return f"step {row['step']}" if table == "steps" else str(row["name"])


def _trace(source: Source, rank: int | None) -> Trace:
    _known_rank(source, rank)
    return next((t for t in source.ranks if t.meta.rank == rank), source.ranks[0])


def _known_rank(source: Source, rank: int | None) -> int | None:
    ranks = [t.meta.rank for t in source.ranks]
    if rank is not None and rank not in ranks:
        known = ", ".join("unknown" if r is None else str(r) for r in ranks)
        raise UsageError(f"There is no rank {rank}; the recording's ranks: {known}.")
    return rank
