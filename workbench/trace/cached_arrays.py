"""Arrays that follow from cached tables, kept in the cache beside them: `mapped` files.

What they follow from is told by the tables themselves: only those that stand in an entry unchanged
have a place here. Tables that were put together, cut or made up have none, whatever their metadata
claim.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import ChainMap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.trace import atomic, cache, cachefolder, mapped, store
from workbench.trace.core import Source

_DIGITS = 12
SUFFIX, ABANDONED_S = cachefolder.ARRAYS, cachefolder.ABANDONED_S


def version(*sources: Path) -> str:
    """Name what makes arrays: a digest of the files of code that do, and of numpy's version."""
    digest = hashlib.sha256(np.__version__.encode())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def entries(source: Source, tables: Iterable[str]) -> tuple[cache.Entry, ...]:
    """Return the cache entries that hold these tables of each rank; none if any rank has none."""
    names = {*tables}
    found = [_entry(trace.tables, names) for trace in source.ranks]
    return tuple(e for e in found if e is not None) if None not in found else ()


def _entry(tables: Mapping[str, pl.DataFrame], names: set[str]) -> cache.Entry | None:
    """Look behind tables that others were laid over, as `open` does with the problems."""
    if isinstance(tables, ChainMap):
        *over, last = tables.maps
        return None if any(names & {*m} for m in over) else _entry(last, names)
    return tables if isinstance(tables, cache.Entry) else None


def read(entries: tuple[cache.Entry, ...], name: str, key: str) -> mapped.Mapped | None:
    """Map the arrays that `keep` put there; None when there are none, or damaged ones."""
    with contextlib.suppress(*mapped.UNREADABLE):
        return mapped.read(_path(entries, name, key), key)
    return None


def keep(
    entries: tuple[cache.Entry, ...],
    name: str,
    key: str,
    about: bytes,
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write arrays beside the first entry; what can't be written costs time only.

    `name` says what they are and by which version: files of other versions go. `key` tells apart
    what one version makes of the same entries.
    """
    path = _path(entries, name, key)
    limit = cachefolder.limit_bytes()
    if sum(a.nbytes for a in arrays.values()) > limit:
        return
    with contextlib.suppress(*store.UNWRITABLE):
        _remove_others(path.parent, name)
        mapped.write(path, key, tuple(e.folder.name for e in entries), about, arrays)
        cache.make_room(path.parent.parent)


def _remove_others(folder: Path, name: str) -> None:
    """Remove the files of other versions, and what writers that crashed left."""
    what = name.partition(".")[0]
    old = [f for f in folder.glob(f"{what}.*{SUFFIX}") if not f.name.startswith(f"{name}.")]
    abandoned = time.time() - ABANDONED_S
    old += [f for f in folder.glob(f".*{atomic.PART}") if f.stat().st_mtime < abandoned]
    for file in old:
        file.unlink(missing_ok=True)


def _path(entries: tuple[cache.Entry, ...], name: str, key: str) -> Path:
    return entries[0].folder / f"{name}.{key[:16]}{SUFFIX}"
