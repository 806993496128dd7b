"""The cache's folder: where it is, what it holds, how large it may grow.

`WORKBENCH_CACHE` names another folder or is `off`. `WORKBENCH_CACHE_MAX_GB` (default 10) bounds the
size in GB of 10^9 bytes; what was used least recently goes first.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import platformdirs
import polars as pl

from workbench.errors import UsageError, WorkbenchError
from workbench.trace import atomic, container, mapped, store
from workbench.trace.fingerprint import reader_version

FOLDER_SETTING, SIZE_SETTING = "WORKBENCH_CACHE", "WORKBENCH_CACHE_MAX_GB"
DEFAULT_GB = 10.0
OFF = "off"
PRIVATE = 0o700
COLUMNS = {
    "name": pl.String(),
    "format": pl.String(),
    "events": pl.Int64(),
    "size_bytes": pl.Int64(),
    "used": pl.Datetime("ms", "UTC"),
    "current": pl.Boolean(),
    "source": pl.String(),
    "sha256": pl.String(),
}
ARRAYS = ".arrays"
"""Files that other stages keep in an entry (`cached_arrays`)."""
_FRAMES, _PART = ".frames", atomic.PART
ABANDONED_S = 3600.0
_MOST_NOTES = 10_000
_DIGITS = 32


def folder() -> Path | None:
    """Return where the cache is, or would be; None when it is off."""
    setting = os.environ.get(FOLDER_SETTING, "").strip()
    if setting.lower() == OFF:
        return None
    base = setting or platformdirs.user_cache_dir("training-workbench")
    return Path(base).expanduser() / "traces"


def limit_bytes() -> int:
    """Return how many bytes the cache may take; UsageError when the setting is no number."""
    setting = os.environ.get(SIZE_SETTING, "").strip()
    try:
        return int(float(setting or DEFAULT_GB) * 1e9)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{SIZE_SETTING} is {setting!r}, which is no number of GB; set one, as in 10."
        ) from None


def usable() -> Path | None:
    """Return the cache's folder, made when it was not there; None when there can be none."""
    place = folder()
    if place is None or limit_bytes() <= 0:
        return None
    try:
        _make(place)
        return place if _is_mine(place) else None
    except OSError:
        return None


def trouble() -> str | None:
    """Say why nothing can be cached, or None when all is well."""
    place = folder()
    if place is None:
        return f"{FOLDER_SETTING} is {OFF}"
    if limit_bytes() <= 0:
        return f"{SIZE_SETTING} is 0"
    try:
        _make(place)
        probe = atomic.part_of(place / "probe")
        probe.write_bytes(b"x")
        probe.unlink()
        return None if _is_mine(place) else f"{place} belongs to another user"
    except OSError as error:
        return f"{place} can't be written: {atomic.reason(error)}"


def _make(place: Path) -> None:
    if not _entries(place).is_dir() or not index(place).is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        for part in (place, _entries(place), index(place)):
            part.mkdir(mode=PRIVATE, exist_ok=True)


def _is_mine(place: Path) -> bool:
    """Say whether no one else could have put an entry there."""
    return not hasattr(os, "geteuid") or place.stat().st_uid == os.geteuid()


def _entries(place: Path) -> Path:
    return place / "entries"


def index(place: Path) -> Path:
    """Return the folder of notes on files that were hashed."""
    return place / "index"


def entry(place: Path, sha: str) -> Path:
    """Return the folder of a content's entry, for the reader of today."""
    return _entries(place) / f"{sha[:_DIGITS]}-{reader_version()}"


def frames_of(entry: Path) -> Path:
    """Return the folder that holds an entry's Python frames, written when they are first built."""
    return entry.with_name(entry.name + _FRAMES)


def listing() -> pl.DataFrame:
    """Return a row for each cached trace, the most recently used first.

    `current` is false for what another version of the reader made, which is never used again by
    this one.
    """
    place = folder()
    rows = [row for path in _traces(place) if (row := _row(path))] if place else []
    return pl.DataFrame(rows, schema=COLUMNS).sort("used", descending=True, maintain_order=True)


def _traces(place: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in _entries(place).iterdir():
            if path.suffix not in {_FRAMES, _PART}:
                yield path


def _row(path: Path) -> dict[str, object] | None:
    try:
        manifest = store.read_manifest(path)
    except store.UNREADABLE:
        return None
    meta = manifest.meta
    return {
        "name": meta.path.name,
        "format": meta.format,
        "events": meta.events,
        "size_bytes": _size(path) + _size(frames_of(path)),
        "used": dt.datetime.fromtimestamp(_used(path), dt.UTC),
        "current": manifest.reader == reader_version(),
        "source": str(meta.path),
        "sha256": meta.sha256,
    }


def about() -> dict[str, object]:
    """Return what stands beside the list: folder, total and limit in bytes, and any trouble."""
    place = folder()
    return {
        "folder": None if place is None else str(place),
        "total_bytes": total_bytes(),
        "limit_bytes": limit_bytes(),
        "not_caching": trouble(),
    }


def total_bytes() -> int:
    """Return what the cache takes on disk, leftovers of crashed writers included."""
    place = folder()
    with contextlib.suppress(OSError):
        return sum(_size(p) for p in _entries(place).iterdir()) if place else 0
    return 0


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return sum(f.stat().st_size for f in path.iterdir())
    return 0


def _used(path: Path) -> float:
    for file in (path / store.MANIFEST, path):
        with contextlib.suppress(OSError):
            return file.stat().st_mtime
    return 0.0


def evict(entries: Path, limit: int, keep: Collection[str]) -> None:
    """Remove what was used least recently until the rest fits, never the traces named in `keep`.

    What crashed writers left goes after an hour.
    """
    with contextlib.suppress(OSError):
        found = [(_used(p), p, _size(p)) for p in entries.iterdir()]
        for used, path, _ in found:
            if path.suffix == _PART and used < time.time() - ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)
        total = sum(size for _, path, size in found if path.suffix != _PART)
        for _, path, size in sorted(found):
            kept = path.suffix == _PART or path.name.removesuffix(_FRAMES) in keep
            if total > limit and not kept:
                atomic.remove([path])
                total -= size
        _thin_out(index(entries.parent))


def _thin_out(notes: Path) -> None:
    """Forget all hashes when there are very many: each is soon made again."""
    if sum(1 for _ in itertools.islice(notes.iterdir(), _MOST_NOTES)) == _MOST_NOTES:
        for note in notes.iterdir():
            note.unlink(missing_ok=True)


def clear(source: Path | None = None) -> int:
    """Remove every entry, or those of one file; return how many traces went.

    Raises
    ------
    UsageError
        The cache is off, or holds nothing of this file.
    """
    place = folder()
    if place is None:
        raise UsageError(f"{FOLDER_SETTING} is {OFF}, so there is no cache to clear.")
    chosen = [p for p in _traces(place) if source is None or _made_from(p, source)]
    if source is not None and not chosen:
        raise UsageError(f"The cache holds nothing of {source}; `workbench cache` lists its files.")
    atomic.remove(p for path in chosen for p in (path, frames_of(path)))
    _forget({path.name for path in chosen}, place)
    if source is None:
        shutil.rmtree(_entries(place), ignore_errors=True)
        shutil.rmtree(index(place), ignore_errors=True)
    return len(chosen)


def _forget(entries: set[str], place: Path) -> None:
    """Remove arrays of several traces, as a job's, that also follow from some of these entries."""
    for path in _traces(place):
        for file in path.glob(f"*{ARRAYS}"):
            if entries.intersection(mapped.entries_of(file)):
                file.unlink(missing_ok=True)


def _made_from(path: Path, source: Path) -> bool:
    """Say whether an entry is of the file at this path, or of one with the same bytes."""
    try:
        meta = store.read_manifest(path).meta
    except store.UNREADABLE:
        return False
    if meta.path == source.resolve() or str(source) == meta.path.name:
        return True
    with contextlib.suppress(WorkbenchError):
        return container.sha256(source) == meta.sha256
    return False
