"""The notes of a recording as a table: what each says, and where its target is now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import units
from workbench.noting.book import Book
from workbench.noting.merge import live
from workbench.noting.note import Event, Named, Note, Span
from workbench.noting.resolve import place

if TYPE_CHECKING:
    from workbench.trace.core import Source

SCHEMA = {
    "id": pl.String(),
    "name": pl.String(),
    "text": pl.String(),
    "author": pl.String(),
    "kind": pl.String(),
    "target": pl.String(),
    "rank": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "table": pl.String(),
    "event": pl.UInt32(),
    "found": pl.Boolean(),
    "reason": pl.String(),
    "conflict": pl.String(),
    "tag": pl.String(),
    "colour": pl.String(),
    "created": pl.Datetime("us", "UTC"),
    "changed": pl.Datetime("us", "UTC"),
    "revision": pl.String(),
}


def notes(source: Source) -> pl.DataFrame:
    """Return the notes kept with a recording, by begin of what they are about.

    `kind`: span, point, event, kernel, operator; `target`: the same in words; `start_ns`, `end_ns`:
    in the source's time, null for a name; `table` and `event`: the row that an event is now;
    `found`: whether the target is in this recording, else `reason` says why not. `conflict` says
    who has changed the same note on another side; each side is a row of its own, told apart by
    `revision`. `text` is as it was typed.

    Raises
    ------
    InputError
        The file of notes can't be read; it is left as it is.
    """
    book = Book(source)
    book.check()
    return of(book, source)


def of(book: Book, source: Source) -> pl.DataFrame:
    """Return the notes of a book as they lie in a source, which may be one rank of the book's."""
    rows = [_row(source, note, others) for note, others in live(book.notes)]
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return frame.sort("start_ns", "created", "id", "changed", nulls_last=True)


def _row(source: Source, note: Note, others: tuple[Note, ...]) -> dict[str, Any]:
    found = place(source, note)
    target = note.target
    return {
        **{key: getattr(note, key) for key in ("id", "name", "text", "author", "tag", "colour")},
        "kind": kind(note),
        "target": words(note),
        "rank": found.rank,
        "start_ns": found.start_ns,
        "end_ns": found.end_ns,
        "table": target.table if isinstance(target, Event) else None,
        "event": found.event,
        "found": found.reason is None,
        "reason": found.reason,
        "conflict": _conflict(others),
        "created": note.created,
        "changed": note.changed,
        "revision": note.revision,
    }


def kind(note: Note) -> str:
    """Return what sort of thing a note is about."""
    match note.target:
        case Span(start_ns=start, end_ns=end):
            return "point" if start == end else "span"
        case Named(of=of):
            return of
    return "event"


def words(note: Note) -> str:
    """Return in words what a note is about, without when."""
    match note.target:
        case Span(start_ns=start, end_ns=end, rank=rank):
            where = "all ranks" if rank is None else f"rank {rank}"
            return (
                f"a moment, {where}" if start == end else f"{units.duration(end - start)}, {where}"
            )
        case Event(name=name, rank=rank, stream=stream):
            on = [f"rank {rank}"] if rank is not None else []
            on += [f"stream {stream}"] if stream is not None else []
            return f"{name} ({', '.join(on)})" if on else name
        case Named(of=of, name=name):
            return f"every {of} {name}"
    return ""


def _conflict(others: tuple[Note, ...]) -> str | None:
    """Say who has changed the same note without having seen this."""
    if not others:
        return None
    who = " and ".join(sorted({f"{n.author or 'another'} ({n.revision})" for n in others}))
    return f"also changed by {who}"
