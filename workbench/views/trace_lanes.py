"""The lanes of a `Trace` or `Job`: which there are, and what they are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.errors import unknown_name
from workbench.views.layers import Layer, assemble, layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from workbench.trace.core import Source, Trace
    from workbench.views.lanes import Lanes

TABLES = ("steps", "activities", "ranges", "ops")
"""Tables that a timeline shows unless it is told otherwise."""
DEVICE_WORDS = {"cuda": "GPU", "rocm": "GPU", "cpu": "CPU"}
HOST = "CPU"
NO_STREAM = (2**32 - 1, -1)
"""What CUPTI writes as the stream of a wait for a whole device or for an event."""
_THREAD_WITH_ID = re.compile(r"^thread \d+ \((.*)\)$")


def activity_lanes(source: Source, tables: Iterable[str] = TABLES) -> Lanes:
    """Make the lanes of a trace or job, rank by rank.

    Steps by device; activities by stream, by host thread for host execution, host collectives by
    their library; annotations and operators by host thread, nested. Each stands in the group of its
    device or of its rank's host. Times are those of the source (of a job: from its earliest
    origin). `launches` may be asked for too.
    """
    makers = {
        "steps": _steps,
        "activities": _activities,
        "ranges": _ranges,
        "launches": _launches,
        "ops": _ops,
    }
    origin = source.origin_ns
    layers = []
    for trace in source.ranks:
        prefix = prefix_of(source, trace)
        for table in tables:
            if table not in makers:
                raise unknown_name("timeline table", table, makers)
            made = makers[table](trace, prefix)
            shift = pl.col("start_ns") + (trace.meta.origin_ns - origin)
            layers.append(made._replace(events=made.events.with_columns(shift)))
    return assemble(layers)


def prefix_of(source: Source, trace: Trace) -> str:
    """Return what the labels of a trace's lanes begin with: its rank, where there are several."""
    return f"rank {trace.meta.rank} · " if len(source.ranks) > 1 else ""


def group_of(trace: Trace, prefix: str, device: int | None) -> str:
    """Return the group of what belongs to a device, or to the host where that is null."""
    return prefix + device_label(trace, device)


def _steps(trace: Trace, prefix: str) -> Layer:
    several = trace.steps["device"].n_unique() > 1
    frame = trace.steps.with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("id"),
        pl.format("step {}", "step").alias("name"),
        pl.lit("step").alias("kind"),
    )

    def label(key: Mapping[str, Any]) -> str:
        return prefix + (f"{device_label(trace, key['device'])} · steps" if several else "steps")

    return layer(
        frame, "steps", trace.meta.rank, ["device"], label, group=_by_device(trace, prefix)
    )


def _activities(trace: Trace, prefix: str) -> Layer:
    """Give host collectives a lane of their own: they run beside the thread that asked for them."""
    host_collective = (pl.col("source") == "host") & (pl.col("kind") == "collective")
    library = pl.col("name").cast(pl.String).str.extract(r"^(\w+):").fill_null("collectives")
    known = trace.activities if trace.meta.timed else trace.activities.clear()
    if not known.select(host_collective.any()).item():
        library = pl.lit("")  # spares the names of ten million kernels as text
    frame = known.with_columns(
        pl.when(host_collective).then(library).otherwise(pl.lit("")).alias("library"),
        pl.when(~host_collective).then("stream").alias("stream"),
        pl.when(pl.col("source") == "host").then(pl.lit(1)).otherwise(pl.lit(0)).alias("on_host"),
    )

    def label(key: Mapping[str, Any]) -> str:
        if key["library"]:
            return prefix + str(key["library"])
        if key["on_host"] and key["device"] is None:
            return prefix + _thread(trace, key["stream"])
        stream = "" if key["stream"] is None else f" · stream {key['stream']}"
        return prefix + device_label(trace, key["device"]) + stream

    by = ["on_host", "library", "device", "stream"]
    return layer(frame, "activities", trace.meta.rank, by, label, group=_by_device(trace, prefix))


def _ranges(trace: Trace, prefix: str) -> Layer:
    """Show annotations except those that steps and collectives already stand for."""
    frame = trace.ranges.filter(
        ~pl.col("domain").cast(pl.String).is_in(["step", "gloo", "nccl"])
    ).with_columns(
        pl.when(~pl.col("stream").is_in(NO_STREAM)).then("stream"),
        kind=pl.lit("range"),
        domain=pl.col("domain").cast(pl.String),
    )

    def label(key: Mapping[str, Any]) -> str:
        where = _thread(trace, key["thread"])
        if key["thread"] is None:
            stream = "" if key["stream"] is None else f" · stream {key['stream']}"
            where = device_label(trace, key["device"]) + stream
        return f"{prefix}{where} · {key['domain']} ranges"

    by = ["thread", "device", "stream", "domain"]
    return layer(frame, "ranges", trace.meta.rank, by, label, group=_by_device(trace, prefix))


def _launches(trace: Trace, prefix: str) -> Layer:
    frame = trace.launches.with_columns(kind=pl.lit("launch"))
    return _threads(trace, prefix, frame, "launches", "launches")


def _ops(trace: Trace, prefix: str) -> Layer:
    """Show operators, as far as they have a place in time."""
    placed = trace.ops if trace.meta.timed else trace.ops.clear()
    return _threads(trace, prefix, placed, "ops", "operators")


def _threads(trace: Trace, prefix: str, frame: pl.DataFrame, table: str, word: str) -> Layer:
    def label(key: Mapping[str, Any]) -> str:
        return f"{prefix}{_thread(trace, key['thread'])} · {word}"

    return layer(frame, table, trace.meta.rank, ["thread"], label, group=_by_device(trace, prefix))


def _by_device(trace: Trace, prefix: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda key: group_of(trace, prefix, key.get("device"))


def device_label(trace: Trace, device: int | None) -> str:
    """Return what a device is called on the timeline; null is the host."""
    if device is None:
        return HOST
    kind = trace.meta.device_kind
    return f"{DEVICE_WORDS.get(kind, kind.upper())} {device}"


def _thread(trace: Trace, index: int | None) -> str:
    if index is None:
        return HOST
    known = 0 <= index < len(trace.meta.threads)
    name = (trace.meta.threads[index].name if known else None) or ""
    name = _THREAD_WITH_ID.sub(r"\1", name)
    return f"CPU thread {index}" + (f" ({name})" if name else "")
