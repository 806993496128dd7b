"""Traces that were read before, kept as Parquet in the user's cache folder.

An entry is named after the SHA-256 of the file's bytes and the version of the reader, so a changed
file or a changed reader finds nothing and reads anew. Whatever goes wrong with the cache, the
source is read instead: a damaged entry is made again, and a folder that can't be written costs
time only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from workbench.errors import InputError
from workbench.trace import atomic, cachefolder, fingerprint, store
from workbench.trace.core import Trace

SMALLEST = 64 << 10
"""A smaller file opens about as fast as its entry would."""
_in_use: set[str] = set()
"""Entries that this process opened: their tables may still be read."""

Read = Callable[[Path], Trace]


class Entry(store.Tables):
    """The tables of a cached trace as a reader left them."""


def fetch(path: Path, read: Read) -> Trace:
    """Return the trace of a file from the cache, or read it and keep it there.

    Raises
    ------
    InputError
        The file can't be read.
    UsageError
        A setting of the cache is no number.
    """
    place = cachefolder.usable()
    try:
        if place is None or path.stat().st_size < SMALLEST:
            return read(path)
        sha = fingerprint.sha256(path, cachefolder.index(place))
    except (OSError, InputError):
        return read(path)  # which says what is wrong
    entry = cachefolder.entry(place, sha)
    with contextlib.suppress(*store.UNREADABLE):
        return _from_entry(entry, path, read, sha)
    trace = read(path)
    return _keep(trace, entry) if trace.meta.sha256 == sha else trace


def _from_entry(entry: Path, path: Path, read: Read, sha: str) -> Trace:
    """Open an entry; its tables and frames are read from it, or else from the source again."""
    manifest = store.read_manifest(entry)
    if manifest.reader != fingerprint.reader_version() or manifest.meta.sha256 != sha:
        raise ValueError(f"{entry} is the entry of another file")

    def again() -> Trace:
        return _read_again(entry, path, read, sha)

    def frames() -> pl.DataFrame:
        stored = _stored_frames(entry)
        return again().frames if stored is None else stored

    tables = Entry(entry, manifest, again)
    host_steps = tables.load(store.HOST_STEPS_TABLE)
    _in_use.add(entry.name)
    _mark_used(entry)
    return Trace(replace(manifest.meta, path=path), tables, frames, host_steps)


def _read_again(entry: Path, path: Path, read: Read, sha: str) -> Trace:
    """Read the source of an entry that has gone, is damaged or lacks the frames; mend the entry."""
    try:
        fresh = read(path)
    except InputError as error:
        raise InputError(f"More of {path} is needed than the cache holds. {error}") from None
    if fresh.meta.sha256 != sha:
        raise InputError(
            f"{path} has changed since it was opened, and more of it is needed than the cache "
            "holds; open it again."
        )
    return _keep(fresh, entry)


def _keep(trace: Trace, entry: Path) -> Trace:
    """Write an entry, and have the Python frames written beside it once they are built."""
    tables = {**trace.tables, store.HOST_STEPS_TABLE: trace.host_steps}
    _in_use.add(entry.name)
    _write(entry, trace, tables)
    with contextlib.suppress(*store.UNREADABLE):
        manifest = store.read_manifest(entry)
        if manifest.meta.sha256 == trace.meta.sha256:
            trace = replace(trace, tables=Entry(entry, manifest, loaded=tables))
    build = trace.build_frames
    if build is None:
        return trace

    def keep_frames() -> pl.DataFrame:
        frames = build()
        _write(cachefolder.frames_of(entry), trace, {store.FRAMES: frames})
        return frames

    return replace(trace, build_frames=keep_frames)


def _write(entry: Path, trace: Trace, tables: dict[str, pl.DataFrame]) -> None:
    """Write tables as an entry; one that is whole already stays, and a failure costs nothing."""
    if _whole(entry):
        return
    limit = cachefolder.limit_bytes()
    try:
        atomic.remove([entry])
        with atomic.new_folder(entry) as part:  # fails where another writer was first
            part.chmod(cachefolder.PRIVATE)
            meta = replace(trace.meta, path=trace.meta.path.resolve())
            written = store.write_tables(part, meta, tables, fingerprint.reader_version())
            if written.bytes > limit:
                raise OSError("larger than the cache may be")
    except store.UNWRITABLE:
        return
    cachefolder.evict(entry.parent, limit, _in_use)


def make_room(entries: Path) -> None:
    """Remove what was used least recently, after something else was put into an entry."""
    cachefolder.evict(entries, cachefolder.limit_bytes(), _in_use)


def _whole(entry: Path) -> bool:
    """Say whether every table of an entry can be read."""
    try:
        manifest = store.read_manifest(entry)
        for name in manifest.tables:
            store.read_table(entry, name, manifest)
    except store.UNREADABLE:
        return False
    return True


def _stored_frames(entry: Path) -> pl.DataFrame | None:
    folder = cachefolder.frames_of(entry)
    with contextlib.suppress(*store.UNREADABLE):
        frames = store.read_table(folder, store.FRAMES, store.read_manifest(folder))
        _mark_used(folder)
        return frames
    return None


def _mark_used(entry: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(entry / store.MANIFEST)
