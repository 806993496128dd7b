"""`workbench notes`: what people noted on a recording, as a table; and its changes."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.command import AsCsv, AsJson, OutFile, print_table
from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.noting.book import Book
    from workbench.trace.core import Source

_NS_PER_MS = 1_000_000
_MS = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?")
_BRIEF = ("id", "name", "text", "author", "kind", "target", "start_ns", "end_ns", "reason",
          "conflict")  # fmt: skip
"""Columns of the printed table; the other forms have all."""
_SPARE = ("reason", "conflict")
"""Left out of the printed table where no note has a value."""


def notes(
    source: Annotated[
        Path, typer.Argument(help="A run folder, a trace file or a folder of ranks.")
    ],
    *,
    add: Annotated[
        str | None, typer.Option(metavar="NAME", help="Add a note of this name.")
    ] = None,
    edit: Annotated[
        str | None, typer.Option(metavar="ID", help="Change the note of this id.")
    ] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="ID", help="Remove the note of this id.")
    ] = None,
    merge: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take in another person's notes.json.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="With --edit: the new name.")] = None,
    text: Annotated[str | None, typer.Option(help="What there is to say.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="MS", help="About a moment, in ms after the start.")
    ] = None,
    span: Annotated[
        str | None, typer.Option(metavar="A:B", help="About a stretch, in ms after the start.")
    ] = None,
    event: Annotated[
        str | None, typer.Option(metavar="TABLE:ID", help="About a row of a table, as ops:17.")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="About every kernel of a name.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(metavar="NAME", help="About every operator of a name.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="The rank of --at, --span or --event; else all.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Which state, of a note that was changed on two sides.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="A word of yours to sort by.")] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    out: OutFile = None,
) -> None:
    """Print the notes kept with a recording; add, change, remove or merge some."""
    from workbench.noting import frame
    from workbench.noting.book import Book
    from workbench.trace.open import open_source

    if sum(x is not None for x in (add, edit, remove, merge)) > 1:
        raise UsageError("--add, --edit, --remove and --merge exclude each other; give one.")
    opened = open_source(source)
    book = Book(opened)
    about = {"at": at, "span": span, "event": event, "kernel": kernel, "operator": operator}
    given = {k: v for k, v in about.items() if v is not None}
    said = {k: v for k, v in {"name": name, "text": text, "tag": tag}.items() if v is not None}
    if add is not None:
        _add(book, opened, {**said, "name": add}, given, rank)
    elif edit is not None:
        _edit(book, opened, edit, revision, said, given, rank)
    elif remove is not None:
        book.remove(remove, revision)
    elif merge is not None:
        typer.echo(_merged(book.take(merge)), err=True)
    elif given or said:
        raise UsageError("Say what to do with it: --add NAME, or --edit ID.")
    book.check()
    found = frame.of(book, opened)
    meta = {"kept_in": None if book.path is None else str(book.path), "reason": _said(book)}
    if not (as_json or as_csv or out):
        shown = [c for c in _BRIEF if c not in _SPARE or found[c].count()]
        found = found.select(shown)
    print_table(found, meta=meta, as_json=as_json, as_csv=as_csv, out=out)


def _add(
    book: Book, source: Source, said: dict[str, Any], given: dict[str, str], rank: int | None
) -> None:
    told = {"text": ""} | said
    book.add(told.pop("name"), told.pop("text"), _target(source, given, rank), **told)


def _edit(  # noqa: PLR0917 - all that the verb was given
    book: Book,
    source: Source,
    number: str,
    revision: str | None,
    said: dict[str, Any],
    given: dict[str, str],
    rank: int | None,
) -> None:
    changes = said | ({"target": _target(source, given, rank)} if given else {})
    if not changes:
        raise UsageError(f"Say what to change of note {number}: --name, --text, --tag, --span, ….")
    book.edit(number, revision, **changes)


def _target(source: Source, given: dict[str, str], rank: int | None) -> Any:
    from workbench.noting.targets import target

    read: dict[str, Any] = dict(given)
    if "at" in read:
        read["at"] = _ns("--at", read["at"])
    if "span" in read:
        first, colon, last = read["span"].partition(":")
        if not colon:
            raise UsageError(f"--span {read['span']} is not A:B in ms, as in --span 12.5:40.")
        read["span"] = [_ns("--span", t) for t in (first, last)]
    if "event" in read:
        table, _, number = read["event"].partition(":")
        if not number.isdecimal():
            raise UsageError(f"--event {read['event']} is not TABLE:ID, as in --event ops:17.")
        first_rank = source.ranks[0].meta.rank
        of = first_rank if rank is None and len(source.ranks) == 1 else rank
        read["event"] = {"table": table, "id": int(number), "rank": of}
    return target(source, rank=rank, **read)


def _ns(option: str, text: str) -> int:
    """Read decimal milliseconds, exactly to the ns."""
    if not _MS.fullmatch(text):
        raise UsageError(f"{option} takes ms after the start, as in 12.5; not {text!r}.")
    return int(Decimal(text) * _NS_PER_MS)


def _merged(count: int) -> str:
    return f"{count} note{'' if count == 1 else 's'} added or changed"


def _said(book: Book) -> str | None:
    return " ".join(book.said) or None
