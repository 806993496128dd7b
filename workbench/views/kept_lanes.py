"""The lanes of a trace or job, kept in the cache in drawing order and mapped when they are shown.

So a timeline of a trace that was seen before reads none of its tables and holds none of its events
in memory. Only tables that come from the cache as a reader left them have lanes there (see
`trace.cached_arrays`); what a file holds is checked, and made anew when it fails.
"""

from __future__ import annotations

import functools
import hashlib
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from workbench.trace import cached_arrays
from workbench.views import lod_summary, theme
from workbench.views.lanes import Lane, Lanes
from workbench.views.lod_summary import Summary
from workbench.views.trace_lanes import TABLES, activity_lanes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from workbench.trace.cache import Entry
    from workbench.trace.core import Source
    from workbench.trace.mapped import Mapped

SMALLEST = 100_000
"""Lanes of fewer events are made about as fast as they are found."""
EVENTS = ("start", "dur", "name", "id", "step")
COLUMNS = ("row_lane", "offset", "inner", "colours", "steps", *EVENTS)
TYPES = {
    "start": {"i8"},
    "dur": {"u4", "i8"},
    "name": {"u2", "u4"},
    "id": {"u4"},
    "step": {"i4"},
    "steps": {"i4"},
    "row_lane": {"i8"},
    "offset": {"i8"},
    "inner": {"u1"},
    "colours": {"u1"},
    "before": {"i8"},
    "ahead": {"u2"},
    "longest": {"u8"},
    "instants": {"i8"},
    "sample": {"i8"},
    "sampled": {"i8"},
}
_MADE_BY = (
    "kept_lanes", "lanes", "layers", "lod", "lod_summary", "packing", "theme", "trace_lanes",
)  # fmt: skip


@dataclass(frozen=True)
class About:
    """What a file holds beside its arrays."""

    lanes: tuple[Lane, ...]
    origin_ns: int
    names: tuple[str, ...]
    kinds: tuple[str | None, ...]
    families: tuple[str | None, ...]


def lanes_of(source: Source, tables: Sequence[str] = TABLES) -> Lanes:
    """Return `activity_lanes`, from the cache where they are in it; else leave them there."""
    entries = cached_arrays.entries(source, tables)
    if sum(e.rows(t) for e in entries for t in tables) < SMALLEST:
        return activity_lanes(source, tables)
    name, key = f"lanes.{version()}", _key(source, tables, entries)
    if (found := _read(entries, name, key)) is not None:
        return found
    made = activity_lanes(source, tables)
    cached_arrays.keep(entries, name, key, _about(made), _arrays(made))
    # what was written needs no memory of its own
    kept = _read(entries, name, key)
    return made if kept is None else kept


@functools.cache
def version() -> str:
    """Name what makes and reads lanes: a digest of its sources."""
    return cached_arrays.version(*(Path(__file__).with_name(f"{name}.py") for name in _MADE_BY))


def _key(source: Source, tables: Sequence[str], entries: tuple[Entry, ...]) -> str:
    """Tell apart what lanes follow from: contents, reader, metadata, and the tables asked for."""
    metas = [repr(replace(t.meta, path=Path())) for t in source.ranks]
    parts = [[e.folder.name for e in entries], list(tables), metas]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _about(lanes: Lanes) -> bytes:
    return msgspec.json.encode(About(*(getattr(lanes, f.name) for f in fields(About))))


def _arrays(lanes: Lanes) -> dict[str, NDArray[Any]]:
    whole = {n: np.asarray(getattr(lanes, n)) for n in COLUMNS}
    whole["inner"] = lanes.inner.astype(np.uint8)
    return whole | lanes.engine.summary._asdict()


def _read(entries: tuple[Entry, ...], name: str, key: str) -> Lanes | None:
    found = cached_arrays.read(entries, name, key)
    with suppress(ValueError, TypeError, msgspec.MsgspecError):
        return None if found is None else _checked(found)
    return None


def _checked(found: Mapped) -> Lanes:
    """Put lanes together; raise ValueError where sizes, types or bounds do not fit each other.

    Order and bounds of the events themselves were checked when they were written, and the file's
    checksum says that they are those. Sweeping over ten million of them once more would take longer
    than all the rest of opening.
    """
    about, a = msgspec.json.decode(found.about, type=About), found.arrays
    if {n: x.dtype.str[1:] in TYPES.get(n, ()) for n, x in a.items()} != dict.fromkeys(TYPES, True):
        raise ValueError("it holds other arrays than those of lanes")
    summary = Summary(*(a[n] for n in Summary._fields))
    events, texts = len(a["start"]), len(about.names)
    _check_rows(a, events, len(about.lanes))
    if (
        {len(a[n]) for n in EVENTS} != {events}
        or {texts} != {len(x) for x in (about.kinds, about.families, a["colours"])}
        or int(a["colours"].max(initial=0)) >= len(theme.LIGHT.palette)
        or int(a["name"].max(initial=0)) >= max(texts, 1)
        or not lod_summary.fits(summary, events, a["offset"])
    ):
        raise ValueError("its arrays do not fit each other")
    given: dict[str, Any] = {f.name: getattr(about, f.name) for f in fields(About)}
    given |= {n: a[n] for n in COLUMNS} | {"inner": a["inner"] != 0}
    return Lanes(**given, summary=summary)


def _check_rows(arrays: Mapping[str, NDArray[Any]], events: int, lanes: int) -> None:
    offset, row_lane = arrays["offset"], arrays["row_lane"]
    if (
        len(offset) != len(row_lane) + 1
        or len(arrays["inner"]) != len(row_lane)
        or (int(offset[0]), int(offset[-1])) != (0, events)
        or (np.diff(offset) < 0).any()
        or (np.diff(row_lane) < 0).any()
        or not ((row_lane >= 0) & (row_lane < lanes)).all()
    ):
        raise ValueError("its rows are out of bounds")
