"""A file of notes: read with suspicion, written whole, and never over what could not be read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from workbench.errors import InputError
from workbench.noting.merge import Notes, merge
from workbench.noting.note import Note, plain, read
from workbench.trace import atomic

SCHEMA_VERSION = 1
MAX_BYTES = 16 * 10**6
MAX_NOTES = 20_000
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


class Recording(msgspec.Struct, frozen=True, order=True):
    """One trace that notes were made on: the SHA-256 of its file, and its rank where known."""

    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    rank: int | None = None


class _File(msgspec.Struct):
    schema_version: Annotated[int, msgspec.Meta(ge=1)]
    traces: Annotated[list[Recording], msgspec.Meta(max_length=100_000)] = []
    notes: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=MAX_NOTES)] = []


class _Head(msgspec.Struct):
    traces: list[Recording] = []


_KNOWN = frozenset(_File.__struct_fields__)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file of notes holds."""

    notes: Notes = ()
    traces: frozenset[Recording] = frozenset()
    version: int = SCHEMA_VERSION
    extra: dict[str, Any] = field(default_factory=dict)
    """What a later version keeps besides, at the top of the file."""
    unread: int = 0
    """Notes of a form that only a later version knows."""


def load(path: Path) -> Kept:
    """Return what a file holds; nothing when there is no such file.

    Of a file with a later schema version, what is known of it.

    Raises
    ------
    InputError
        It can't be read, is too large, or is no file of notes. It is left as it is.
    """
    try:
        if not path.exists():
            return Kept()
        if (data := _content(path)) is None:
            raise _damaged(path, f"it has more than {MAX_BYTES // 10**6} MB")
        return _checked(msgspec.json.decode(data, type=dict[str, Any]))
    except OSError as error:
        raise InputError(
            f"The notes in {path} can't be read ({atomic.reason(error)}); make it a readable file."
        ) from None
    except _UNREADABLE as error:
        raise _damaged(path, atomic.reason(error)) from None


def traces(path: Path) -> list[Recording]:
    """Return the traces that a file has notes on, without reading these; none when damaged."""
    with contextlib.suppress(OSError, *_UNREADABLE):
        if (data := _content(path)) is not None:
            return msgspec.json.decode(data, type=_Head).traces
    return []


def _content(path: Path) -> bytes | None:
    """Return the bytes of a plain file, None of one that is too large; OSError for another kind.

    A link may lead anywhere: a device has no size and no end, and a pipe waits for a writer.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "it is no plain file")
    with path.open("rb") as whole:
        data = whole.read(MAX_BYTES + 1)
    return data if len(data) <= MAX_BYTES else None


def _checked(whole: dict[str, Any]) -> Kept:
    told = msgspec.convert(whole, type=_File)
    known, unread = [], 0
    for number, note in enumerate(told.notes):
        try:
            known.append(read(note))
        except msgspec.ValidationError as error:
            if told.schema_version == SCHEMA_VERSION:
                raise msgspec.ValidationError(f"note {number + 1}: {error}") from None
            unread += 1
    extra = {k: v for k, v in whole.items() if k not in _KNOWN}
    return Kept(merge(known), frozenset(told.traces), told.schema_version, extra, unread)


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path} is no readable file of notes ({reason}); it is left as it is: mend it, or move it "
        "away to begin anew."
    )


def add(path: Path, notes: Iterable[Note], traces: Iterable[Recording] = ()) -> Kept:
    """Merge notes into a file, whatever others have written to it meanwhile; return the whole.

    Raises
    ------
    InputError
        What is there can't be read, is of a later version, or would get too large.
    OSError
        It can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        found = load(path)
        if found.version > SCHEMA_VERSION:
            raise InputError(newer(path, found))
        merged = merge(found.notes, notes)
        whole = replace(found, notes=merged, traces=found.traces | frozenset(traces))
        if whole != found or not path.exists():
            _write(path, whole)
        return whole


def newer(path: Path, found: Kept) -> str:
    """Say that a file is of a later version, and what that means."""
    left = f", and {found.unread} of its notes are of a kind unknown here" if found.unread else ""
    return (
        f"{path} has schema version {found.version}, and this version of Workbench writes "
        f"{SCHEMA_VERSION}, so it is only read{left}; update Workbench to change its notes."
    )


def _write(path: Path, whole: Kept) -> None:
    told = {
        **whole.extra,
        "schema_version": whole.version,
        "traces": [msgspec.to_builtins(t) for t in sorted(whole.traces, key=_by_rank)],
        "notes": [plain(note) for note in whole.notes],
    }
    data = msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n"
    if len(data) > MAX_BYTES or len(whole.notes) > MAX_NOTES:
        raise InputError(
            f"{path} would hold more than {MAX_BYTES // 10**6} MB or {MAX_NOTES:,} notes; shorten "
            "or remove some."
        )
    atomic.replace_file(path, data)


def _by_rank(trace: Recording) -> tuple[int, str]:
    return -1 if trace.rank is None else trace.rank, trace.sha256


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other writers out; a file system without locks leaves only the merge."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
