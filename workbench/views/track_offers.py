"""Which quantities the tables of a recording know over time, without reading them once more.

To see that takes tables of gigabytes, and a timeline shall stand before those are read. So what was
found is kept in the cache beside the tables that it follows from.
"""

from __future__ import annotations

import functools
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import polars as pl

from workbench.trace import cached_arrays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.trace.cache import Entry
    from workbench.trace.core import Source, Trace

TABLES = ("activities", "memory", "counters")
SMALLEST = 100_000
"""Fewer rows are looked through about as fast as what is kept is found."""
OCCUPANCY, QUEUE, COUNTER = "occupancy", "queue depth", "counter"
ALLOCATED, RESERVED = "memory allocated", "memory reserved"
TABLE_OF = {
    OCCUPANCY: "activities",
    QUEUE: "activities",
    ALLOCATED: "memory",
    RESERVED: "memory",
    COUNTER: "counters",
}
TOTALS = {ALLOCATED: "total_allocated", RESERVED: "total_reserved"}
"""Columns of the table `memory`."""


class Offer(NamedTuple):
    """One quantity of one device, or of the host where that is null."""

    of: str
    """How its curve is made: one of the names above."""
    quantity: str
    unit: str
    device: int | None


class Known(NamedTuple):
    """What the tables of one rank know over time, and the devices of its activities."""

    offers: list[Offer]
    devices: list[int]


def offered(source: Source) -> list[Known]:
    """Return what each rank's tables know."""
    entries = cached_arrays.entries(source, TABLES)
    if sum(e.rows(t) for e in entries for t in TABLES) < SMALLEST:
        return [_known(trace) for trace in source.ranks]
    name, key = f"tracks.{_version()}", _key(entries)
    if (kept := _read(entries, name, key)) is not None:
        return kept
    made = [_known(trace) for trace in source.ranks]
    cached_arrays.keep(entries, name, key, msgspec.json.encode(made), {})
    return made


def _read(entries: tuple[Entry, ...], name: str, key: str) -> list[Known] | None:
    found = cached_arrays.read(entries, name, key)
    with suppress(msgspec.MsgspecError):
        kept = None if found is None else msgspec.json.decode(found.about, type=list[Known])
        return kept if kept is not None and len(kept) == len(entries) else None
    return None


@functools.cache
def _version() -> str:
    return cached_arrays.version(Path(__file__))


def _key(entries: tuple[Entry, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode([e.folder.name for e in entries])).hexdigest()


def _known(trace: Trace) -> Known:
    devices = [device for device in _devices(trace.activities) if device is not None]
    return Known(list(_found(trace)), devices)


def _found(trace: Trace) -> Iterator[Offer]:
    on_device = pl.col("device").is_not_null()
    for device in _devices(trace.activities.filter(pl.col("occupancy").is_not_null() & on_device)):
        yield Offer(OCCUPANCY, OCCUPANCY, "%", device)
    for device in _devices(trace.activities.filter(pl.col("launch").is_not_null() & on_device)):
        yield Offer(QUEUE, QUEUE, "launches", device)
    if trace.meta.timed and not trace.memory["t_ns"].null_count():
        for quantity, column in TOTALS.items():
            for device in _devices(trace.memory.filter(pl.col(column).is_not_null())):
                yield Offer(quantity, quantity, "B", device)
    keys = ["device", "name", "unit"]
    names = trace.counters.select(pl.col(keys[0]), pl.col(*keys[1:]).cast(pl.String)).unique()
    for device, name, unit in names.sort(*keys, nulls_last=True).iter_rows():
        yield Offer(COUNTER, str(name), unit or "", device)


def _devices(frame: pl.DataFrame) -> list[int | None]:
    devices: list[int | None] = frame["device"].unique().sort(nulls_last=True).to_list()
    return devices
