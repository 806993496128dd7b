"""`Note`: what a person says about a stretch of time, an event, or a name of a recording.

A note is never changed in place. Each change is a new `Note` with the same `id`, a new `revision`,
and in `replaces` all that it came from; so of two notes one can tell whether one has seen the other
(`merge`). Times are absolute, as the recording has them, so they hold however it is read or sorted.
"""

from __future__ import annotations

import datetime as dt
import getpass
import os
import secrets
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

AUTHOR_SETTING = "WORKBENCH_AUTHOR"
MAX_NAME, MAX_TEXT, MAX_EVENT_NAME = 200, 20_000, 100_000
MAX_REPLACED = 100_000
LEAST, MOST = -(2**63), 2**63 - 1
"""Bounds of a time in ns: what a table's int64 holds."""

Ns = Annotated[int, Meta(ge=LEAST, le=MOST)]
Length = Annotated[int, Meta(ge=0, le=MOST)]
Hex = Annotated[str, Meta(pattern=r"^[0-9a-f]{8,64}$")]
Word = Annotated[str, Meta(max_length=MAX_NAME)]
Colour = Annotated[str, Meta(pattern=r"^#[0-9a-fA-F]{6}$")]
Time = Annotated[dt.datetime, Meta(tz=True)]


class Span(msgspec.Struct, frozen=True, tag_field="kind", tag="span"):
    """A stretch of time, on one rank or on all; a point where it has no length."""

    start_ns: Ns
    end_ns: Ns
    rank: Annotated[int, Meta(ge=0, le=MOST)] | None = None

    def __post_init__(self) -> None:
        """Refuse a stretch that ends before it begins."""
        if self.end_ns < self.start_ns:
            raise ValueError(f"ends at {self.end_ns} ns, before its start at {self.start_ns} ns")


class Event(msgspec.Struct, frozen=True, tag_field="kind", tag="event"):
    """One event, told by all that a recording says of it; its row number is only a hint."""

    table: Word
    name: Annotated[str, Meta(max_length=MAX_EVENT_NAME)]
    start_ns: Ns
    dur_ns: Length
    rank: Annotated[int, Meta(ge=0, le=MOST)] | None = None
    device: Ns | None = None
    stream: Ns | None = None
    thread: Word | None = None
    """Process and thread of the host, as `pid/tid`."""
    id: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None


class Named(msgspec.Struct, frozen=True, tag_field="kind", tag="name"):
    """Every kernel or every operator of a name."""

    of: Literal["kernel", "operator"]
    name: Annotated[str, Meta(max_length=MAX_EVENT_NAME)]


Target = Span | Event | Named


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One state of a note; `removed` is what a note leaves behind, so that it stays removed."""

    id: Hex
    revision: Hex
    replaces: Annotated[tuple[Hex, ...], Meta(max_length=MAX_REPLACED)] = ()
    """Every earlier revision that this one came from."""
    name: Word = ""
    text: Annotated[str, Meta(max_length=MAX_TEXT)] = ""
    author: Word = ""
    created: Time
    changed: Time
    target: Target | None = None
    """What it is about; null of a removed note alone."""
    colour: Colour | None = None
    tag: Word | None = None
    removed: bool = False
    extra: dict[str, Any] = {}
    """What a later version of Workbench keeps besides; carried along untouched."""

    def __post_init__(self) -> None:
        """Refuse a note about nothing, and one that claims to come from itself."""
        if self.target is None and not self.removed:
            raise ValueError("has no target")
        if self.revision in self.replaces:
            raise ValueError("replaces itself")


FIELDS = frozenset(Note.__struct_fields__) - {"extra"}


def plain(note: Note) -> dict[str, Any]:
    """Return a note as JSON holds it."""
    told: dict[str, Any] = msgspec.to_builtins(note)
    extra: dict[str, Any] = told.pop("extra", {})
    return extra | told


def read(told: dict[str, Any]) -> Note:
    """Return the note that JSON holds; msgspec.ValidationError for what is none."""
    extra = {k: v for k, v in told.items() if k not in FIELDS}
    known = {k: v for k, v in told.items() if k in FIELDS}
    return msgspec.convert(known | {"extra": extra}, type=Note)


def new(
    name: str,
    text: str,
    target: Target,
    *,
    author: str | None = None,
    colour: str | None = None,
    tag: str | None = None,
    now: dt.datetime | None = None,
) -> Note:
    """Make a note; msgspec.ValidationError for a value out of bounds."""
    when = now or dt.datetime.now(dt.UTC)
    made = Note(
        id=secrets.token_hex(8),
        revision=secrets.token_hex(8),
        name=name,
        text=text,
        author=whoami() if author is None else author,
        created=when,
        changed=when,
        target=target,
        colour=colour,
        tag=tag,
    )
    return read(plain(made))


def change(
    note: Note,
    *,
    author: str | None = None,
    now: dt.datetime | None = None,
    seen: tuple[Note, ...] = (),
    **changes: Any,
) -> Note:
    """Return the next state of a note, which replaces it and what else was `seen` of it."""
    before = {r for old in (note, *seen) for r in (old.revision, *old.replaces)}
    made = msgspec.structs.replace(
        note,
        revision=secrets.token_hex(8),
        replaces=tuple(sorted(before)),
        author=whoami() if author is None else author,
        changed=now or dt.datetime.now(dt.UTC),
        **changes,
    )
    return read(plain(made))


def remove(note: Note, **options: Any) -> Note:
    """Return what is left of a note that was removed: neither name nor text nor target."""
    gone: dict[str, Any] = {"name": "", "text": "", "target": None, "colour": None, "tag": None}
    return change(note, removed=True, **gone, **options)


def whoami() -> str:
    """Return the author of new notes: WORKBENCH_AUTHOR, else the user's name, else nothing."""
    try:
        return (os.environ.get(AUTHOR_SETTING) or getpass.getuser())[:MAX_NAME]
    except (OSError, KeyError, ImportError):
        return ""
