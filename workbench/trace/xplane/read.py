"""`read`: one XPlane file to a `Trace`."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from workbench.errors import InputError
from workbench.intervals import Times
from workbench.trace import container, nesting, raw, schema, wire
from workbench.trace.assemble import EARLIEST_NS, LATEST_NS, Threads, placed
from workbench.trace.attribution import attribute
from workbench.trace.core import Device, Trace, TraceMeta
from workbench.trace.problems import Problem
from workbench.trace.times import MISSING
from workbench.trace.xplane import tables
from workbench.trace.xplane.space import INT, TEXT, Plane, Space, decode

_DEVICE = re.compile(r"/device:(\w+):(\d{1,9})")
_KINDS = {"AMD": "rocm", "Nvidia": "cuda", "NVIDIA": "cuda"}
STATS = {
    "correlation_id": INT,
    "step_num": INT,
    "hlo_op": TEXT,
    "hlo_module": TEXT,
    "kernel_details": TEXT,
    "memcpy_details": TEXT,
    "memset_details": TEXT,
}
_PS_PER_NS = 1000
_START_TIME = "profile_start_time"


def read(path: Path) -> Trace:
    """Read one file: streams of every device, runtime calls, operators and Python frames.

    Times are a line's start in ns plus an offset in ps; start and duration are rounded to whole ns
    separately, half to even.

    Raises
    ------
    InputError
        The file is missing, cut short or no XSpace; one sentence says which.
    """
    data = container.read(path)
    try:
        space = decode(data)
        events = _events(space)
    except wire.WireError as e:
        raise InputError(
            f"{path} is a damaged XPlane file: {e}; record it again or copy it whole."
        ) from None
    threads = Threads()
    found = tables.split(events, space, threads)
    aggregated = int(events["aggregated"].sum())
    ready = placed(found)
    devices = _devices(space.planes)
    start, producer = _started(space.planes)
    meta = TraceMeta(
        path=path,
        format="xplane",
        sha256=container.sha256(path),
        origin_ns=ready.origin_ns + start,
        threads=threads.list(),
        devices=devices,
        producer=producer,
        events=events.height,
        device_kind=_device_kind(space.planes, devices),
    )
    bare = raw.RawTrace(
        meta=meta,
        activities=ready.tables["activities"],
        launches=ready.tables["launches"],
        ops=ready.tables["ops"],
        ranges=ready.tables["ranges"],
        memory=raw.empty(raw.MEMORY),
        recording=ready.recording,
        accelerator=bool(devices),
        problems=[*ready.problems, *_aggregated(aggregated)],
    )
    return attribute(bare, partial(_frames, ready.tables["frames"]), reader="XPlane")


def _events(space: Space) -> pl.DataFrame:
    """Return every event with its absolute time, what kind of plane it is in, and its stats."""
    events = space.events()
    starts = [x.timestamp_ns for x in space.lines] or [0]
    sane = [s if EARLIEST_NS <= s <= LATEST_NS else int(MISSING) for s in starts]
    line = events["line"].to_numpy()
    base = np.array(sane, np.int64)[line]
    start = _whole_ns(events["offset_ps"].to_numpy(), base)
    duration = _whole_ns(events["dur_ps"].to_numpy(), np.zeros_like(base))
    devices = [int(m[2]) if (m := _DEVICE.match(p.name)) else None for p in space.planes]
    of_line = pl.Series([devices[x.plane] for x in space.lines] or [None], dtype=pl.Int64)
    return events.with_columns(
        pl.col("name").fill_null(""),
        start_ns=pl.Series(np.where(base == MISSING, MISSING, start), dtype=pl.Int64),
        dur_ns=pl.Series(duration, dtype=pl.Int64),
        device=of_line.gather(events["line"]),
        **space.stats(STATS),
    )


def _whole_ns(ps: Times, base_ns: Times) -> Times:
    """Return base + ps in whole ns, half to even."""
    whole, rest = np.divmod(ps, _PS_PER_NS)
    ns = base_ns + whole
    up = (2 * rest > _PS_PER_NS) | ((2 * rest == _PS_PER_NS) & (ns % 2 == 1))
    rounded: Times = ns + up
    return rounded


def _devices(planes: list[Plane]) -> tuple[Device, ...]:
    named = [(int(m[2]), p) for p in planes if (m := _DEVICE.match(p.name))]
    return tuple(Device(n, None, dict(p.stats)) for n, p in sorted(named, key=lambda x: x[0]))


def _device_kind(planes: list[Plane], devices: tuple[Device, ...]) -> str:
    """Name the sort of accelerator: by the plane when it is no GPU, else by its vendor."""
    sorts = {m[1].lower() for p in planes if (m := _DEVICE.match(p.name))}
    vendors = {str(d.properties.get("device_vendor")) for d in devices}
    if sorts and "gpu" not in sorts:
        return min(sorts)
    return next((_KINDS[v] for v in sorted(vendors) if v in _KINDS), "cuda")


def _started(planes: list[Plane]) -> tuple[int, dict[str, object]]:
    """Return the absolute time that lines are relative to, and the profiler's own marks."""
    marks = {n: v for p in planes for n, v in p.stats.items() if p.name == "Task Environment"}
    start = marks.get(_START_TIME, 0)
    return start if isinstance(start, int) and 0 <= start <= LATEST_NS else 0, dict(marks)


def _aggregated(count: int) -> list[Problem]:
    if not count:
        return []
    effect = "they stand for many occurrences without a time and are in no table"
    return [Problem("aggregated_events", count, "an event with num_occurrences", effect)]


def _frames(frames: pl.DataFrame) -> pl.DataFrame:
    """Nest Python calls on their threads."""
    thread, start = frames["thread"].to_numpy(), frames["start_ns"].to_numpy()
    end = start + frames["dur_ns"].to_numpy()
    order = nesting.order(thread, start, end)
    parent = pl.Series(nesting.parents(thread[order], start[order], end[order]), dtype=pl.Int64)
    return frames[order].with_columns(
        id=pl.int_range(frames.height, dtype=schema.ID),
        parent=parent.set(parent == nesting.NONE, None).cast(schema.ID),
    )
