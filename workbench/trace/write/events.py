"""A part of a trace as events of the profiler's dialect.

Tables are written one after the other, each in its own order: readers number threads by their first
appearance, and settle ties by the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from workbench.trace.kineto.categories import ACCELERATOR_CATEGORIES
from workbench.trace.write import device, host
from workbench.trace.write.part import Part
from workbench.trace.write.shared import Block, literal, span, word
from workbench.trace.write.text import event

_TELLING = tuple(c for c in ACCELERATOR_CATEGORIES if c is not None)
"""Domains of ranges that tell a reader of an accelerator."""
_AFTER_HOSTS = 1_000
"""Sort position of device 0: below the processes of the host."""


def blocks(part: Part) -> Iterator[Block]:
    """Return everything that a part holds, as events."""
    work = device.with_lanes(part)
    yield from _metadata(part, work)
    yield _recording(part)
    yield _accelerator(part, work)
    yield host.ranges(part)
    launches = host.launches(part, work)
    yield device.ranges(part, launches)
    yield Block(launches, host.launch_event())
    yield host.ops(part)
    yield host.frames(part)
    work = device.linked(part, work, launches)
    yield device.activities(work)
    yield from device.flows(work)
    yield host.memory(part)
    yield device.counters(part)


def _recording(part: Part) -> Block:
    begin, end = part.recording
    rows = pl.DataFrame({"start_ns": [begin], "dur_ns": [end - begin]}).with_columns(
        name=word("PyTorch Profiler (0)"), pid=word("Spans"), tid=word("PyTorch Profiler")
    )
    return Block(rows.filter(pl.col("dur_ns") > 0), event(span(word("Trace"))))


def _accelerator(part: Part, work: pl.DataFrame) -> Block:
    """Keep a trace whose device activity is unknown from reading as one without a device."""
    ranges = part.tables["ranges"]
    marks = ranges["thread"].is_null() | ranges["domain"].cast(pl.String).is_in(_TELLING)
    silent = not (work.height or part.tables["launches"].height or marks.any())
    told = part.meta.device_kind != "cpu" and silent and part.tables["ops"].height > 0
    reason = literal(part.meta.device_reason or "no device activity")
    rows = pl.DataFrame({"start_ns": [part.recording[0]], "dur_ns": [0]}).with_columns(
        name=pl.lit(reason), pid=word("Spans"), tid=word("accelerator")
    )
    return Block(rows.filter(pl.lit(told)), event(span(word("cuda_profiler_range"))))


def _metadata(part: Part, work: pl.DataFrame) -> Iterator[Block]:
    """Name processes and tracks, and put the host before the devices."""
    rows = [*_host_names(part), *_device_names(part, work)]
    frame = pl.DataFrame(rows, schema=["kind", "pid", "tid", "field", "value"], orient="row")
    args = pl.concat_str(pl.lit("{"), "field", pl.lit(":"), "value", pl.lit("}"))
    place = {"name": pl.col("kind"), "pid": pl.col("pid"), "tid": pl.col("tid")}
    if rows:
        yield Block(frame, event({"ph": word("M"), **place, "args": args}))


def _names(
    pid: str, tid: str, what: str, name: str | None, place: int
) -> Iterator[tuple[str, ...]]:
    if name is not None:
        yield f'"{what}_name"', pid, tid, '"name"', literal(name)
    yield f'"{what}_sort_index"', pid, tid, '"sort_index"', str(place)


def _host_names(part: Part) -> Iterator[tuple[str, ...]]:
    threads = part.meta.threads
    for place, pid in enumerate(dict.fromkeys(t.pid for t in threads)):
        yield from _names(literal(pid), "0", "process", f"host process {pid}", place)
    for place, thread in enumerate(threads):
        yield from _names(literal(thread.pid), literal(thread.tid), "thread", thread.name, place)


def _device_names(part: Part, work: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    known = {d.index: d.name for d in part.meta.devices}
    kind = part.meta.device_kind
    for index in work["device"].drop_nulls().unique().sort():
        name = f"{kind} device {index}" + (f": {known[index]}" if known.get(index) else "")
        yield from _names(str(index), "0", "process", name, _AFTER_HOSTS + index)
    tracks = work.select("device", "stream", "lane", "track").unique().drop_nulls()
    in_order = tracks.sort("device", "stream", "lane")
    for place, (index, stream, lane, track) in enumerate(in_order.iter_rows()):
        name = f"stream {stream}" + (f" ({lane + 1})" if lane else "")
        yield from _names(str(index), str(track), "thread", name, place)
