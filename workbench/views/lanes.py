"""Which lanes a timeline has, what they are called, and the events of each in drawing order.

`activity_lanes` reads a `Trace` or `Job`; `from_frame` takes any frame of events.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from workbench.errors import UsageError, unknown_name
from workbench.views import packing, theme
from workbench.views.lod import NONE, Engine, Index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from workbench.trace.core import Source, Trace

NO_STEP = -(2**31)
DEVICE_WORDS = {"cuda": "GPU", "rocm": "GPU", "cpu": "CPU"}
_THREAD_WITH_ID = re.compile(r"^thread \d+ \((.*)\)$")
_EVENT = {
    "lane": pl.UInt32,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "name": pl.UInt32,
    "id": pl.UInt32,
    "step": pl.Int32,
}


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane: what it is called and which table its events are rows of."""

    label: str
    table: str
    rank: int | None = None
    hidden: int = 0
    """Events left out because they would need too many rows."""
    stream: int | None = None
    """Stream of a device; null on the host."""


class Event(NamedTuple):
    """One event of a timeline; `id` is its row in the lane's table."""

    name: str
    lane: Lane
    row: int
    start_ns: int
    dur_ns: int
    id: int
    step: int | None


@dataclass(frozen=True)
class Lanes:
    """Events sorted by row and start; `start` to `step` have one entry an event."""

    lanes: tuple[Lane, ...]
    origin_ns: int
    """Time of the first event; `start` counts from it."""
    row_lane: Index
    """Lane of each row."""
    offset: Index
    """Row r holds the events [offset[r], offset[r + 1])."""
    start: Index
    dur: NDArray[np.integer]
    name: NDArray[np.unsignedinteger]
    id: NDArray[np.uint32]
    step: NDArray[np.int32]
    names: tuple[str, ...]
    """Texts that `name` counts."""
    colours: NDArray[np.uint8]
    """Position in `theme.Theme.palette` of each text."""
    kinds: tuple[str | None, ...] = ()
    """Kind of each text, as in the trace's tables; the same name may stand under several."""
    families: tuple[str | None, ...] = ()
    """Family of each text."""
    places: Index | None = None
    """Of a part: where its events stand in the whole."""
    whole_span_ns: int = 0
    """Of a part: the length of the whole."""

    @cached_property
    def engine(self) -> Engine:
        """Return the level-of-detail engine over these events."""
        return Engine(self.start, self.dur, self.offset, self.whole_span_ns)

    @cached_property
    def row(self) -> Index:
        """Return the row of each event."""
        return np.repeat(np.arange(len(self.row_lane)), np.diff(self.offset))

    def part(self, keep: NDArray[np.bool_]) -> Lanes:
        """Return some of the events on the same rows and the same extent."""
        at = np.flatnonzero(keep)
        return replace(
            self,
            offset=np.searchsorted(at, self.offset),
            start=self.start[at],
            dur=self.dur[at],
            name=self.name[at],
            id=self.id[at],
            step=self.step[at],
            places=at if self.places is None else self.places[at],
            whole_span_ns=self.engine.span_ns,
        )

    def place(self, i: int) -> int:
        """Return where an event stands in the whole; -1 stays -1."""
        return i if self.places is None or i == NONE else int(self.places[i])

    def position(self, place: int) -> int:
        """Return where an event of the whole stands here; -1 if this part leaves it out."""
        if self.places is None or place == NONE:
            return place
        k = int(np.searchsorted(self.places, place))
        return k if k < len(self.places) and self.places[k] == place else NONE

    def event(self, i: int) -> Event:
        """Return one event by its position."""
        row = int(np.searchsorted(self.offset, i, "right")) - 1
        step = int(self.step[i])
        return Event(
            self.names[self.name[i]],
            self.lanes[self.row_lane[row]],
            row,
            self.origin_ns + int(self.start[i]),
            int(self.dur[i]),
            int(self.id[i]),
            None if step == NO_STEP else step,
        )

    def find(self, table: str, row_id: int, rank: int | None = None) -> int:
        """Return the position of a table's row, its first part if it has several; -1 if none."""
        best = NONE
        for row, lane in enumerate(self.row_lane):
            if (self.lanes[lane].table, self.lanes[lane].rank) != (table, rank):
                continue
            lo, hi = int(self.offset[row]), int(self.offset[row + 1])
            hits = lo + np.flatnonzero(self.id[lo:hi] == row_id)
            best = min((best, *hits), key=self._start_or_never) if len(hits) else best
        return int(best)

    def _start_or_never(self, i: int) -> float:
        return float("inf") if i == NONE else int(self.start[i])


class _Layer(NamedTuple):
    """Lanes and their events, not packed yet."""

    lanes: list[Lane]
    events: pl.DataFrame
    texts: pl.DataFrame


def from_frame(frame: pl.DataFrame, *, by: Sequence[str], table: str = "events") -> Lanes:
    """Make one lane for each distinct value of the columns `by`.

    The frame needs `start_ns`, `dur_ns` (integer ns) and `name`; it may have `kind` and `family`
    (colour), `step`, and `id` (default: the row number). Raises UsageError on a missing column, a
    missing time or a negative duration.
    """
    _check(frame, by)

    def label(key: Mapping[str, Any]) -> str:
        return " · ".join(f"{name} {value}" for name, value in key.items())

    return _assemble([_layer(frame, table, None, by, label)])


def _check(frame: pl.DataFrame, by: Sequence[str]) -> None:
    if not by:
        raise UsageError("Name at least one column in `by` that tells the lanes apart.")
    for column in ("start_ns", "dur_ns", "name", *by):
        if column not in frame.columns:
            raise unknown_name("column", column, frame.columns)
    for column in ("start_ns", "dur_ns"):
        if not frame.schema[column].is_integer() or frame[column].null_count():
            raise UsageError(f"Column {column!r} of the events must be integer ns without nulls.")
    if frame.height and int(frame["dur_ns"].min()) < 0:  # type: ignore[arg-type]
        raise UsageError("An event has a negative duration; leave such events out.")


def activity_lanes(
    source: Source, tables: Iterable[str] = ("steps", "activities", "ranges", "ops")
) -> Lanes:
    """Make the lanes of a trace or job, rank by rank.

    Steps by device; activities by stream, by host thread for host execution, host collectives by
    their library; annotations and operators by host thread, nested. Times are those of the source
    (of a job: from its earliest origin). `launches` may be asked for too.
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
        prefix = f"rank {trace.meta.rank} · " if len(source.ranks) > 1 else ""
        for table in tables:
            if table not in makers:
                raise unknown_name("timeline table", table, makers)
            layer = makers[table](trace, prefix)
            shift = pl.col("start_ns") + (trace.meta.origin_ns - origin)
            layers.append(layer._replace(events=layer.events.with_columns(shift)))
    return _assemble(layers)


def _steps(trace: Trace, prefix: str) -> _Layer:
    several = trace.steps["device"].n_unique() > 1
    frame = trace.steps.with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("id"),
        pl.format("step {}", "step").alias("name"),
        pl.lit("step").alias("kind"),
    )

    def label(key: Mapping[str, Any]) -> str:
        return prefix + (f"{_device(trace, key['device'])} · steps" if several else "steps")

    return _layer(frame, "steps", trace.meta.rank, ["device"], label)


def _activities(trace: Trace, prefix: str) -> _Layer:
    """Give host collectives a lane of their own: they run beside the thread that asked for them."""
    host_collective = (pl.col("source") == "host") & (pl.col("kind") == "collective")
    library = pl.col("name").cast(pl.String).str.extract(r"^(\w+):").fill_null("collectives")
    known = trace.activities if trace.meta.timed else trace.activities.clear()
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
        return prefix + _device(trace, key["device"]) + stream

    by = ["on_host", "library", "device", "stream"]
    return _layer(frame, "activities", trace.meta.rank, by, label)


def _ranges(trace: Trace, prefix: str) -> _Layer:
    """Show annotations except those that steps and collectives already stand for."""
    frame = trace.ranges.filter(
        ~pl.col("domain").cast(pl.String).is_in(["step", "gloo", "nccl"])
    ).with_columns(kind=pl.lit("range"), domain=pl.col("domain").cast(pl.String))

    def label(key: Mapping[str, Any]) -> str:
        where = _thread(trace, key["thread"])
        if key["thread"] is None:
            stream = "" if key["stream"] is None else f" · stream {key['stream']}"
            where = _device(trace, key["device"]) + stream
        return f"{prefix}{where} · {key['domain']} ranges"

    by = ["thread", "device", "stream", "domain"]
    return _layer(frame, "ranges", trace.meta.rank, by, label)


def _launches(trace: Trace, prefix: str) -> _Layer:
    frame = trace.launches.with_columns(kind=pl.lit("launch"))
    return _threads(trace, prefix, frame, "launches", "launches")


def _ops(trace: Trace, prefix: str) -> _Layer:
    """Show operators, as far as they have a place in time."""
    placed = trace.ops if trace.meta.timed else trace.ops.clear()
    return _threads(trace, prefix, placed, "ops", "operators")


def _threads(trace: Trace, prefix: str, frame: pl.DataFrame, table: str, word: str) -> _Layer:
    def label(key: Mapping[str, Any]) -> str:
        return f"{prefix}{_thread(trace, key['thread'])} · {word}"

    return _layer(frame, table, trace.meta.rank, ["thread"], label)


def _device(trace: Trace, device: int | None) -> str:
    if device is None:
        return "CPU"
    kind = trace.meta.device_kind
    return f"{DEVICE_WORDS.get(kind, kind.upper())} {device}"


def _thread(trace: Trace, index: int | None) -> str:
    if index is None:
        return "CPU"
    known = 0 <= index < len(trace.meta.threads)
    name = (trace.meta.threads[index].name if known else None) or ""
    name = _THREAD_WITH_ID.sub(r"\1", name)
    return f"CPU thread {index}" + (f" ({name})" if name else "")


def _layer(
    frame: pl.DataFrame,
    table: str,
    rank: int | None,
    by: Sequence[str],
    label: Callable[[Mapping[str, Any]], str],
) -> _Layer:
    """Give the lanes and the texts of a frame of events numbers."""
    defaults = {"kind": pl.String, "family": pl.String, "step": pl.Int32}
    missing = [pl.lit(None, dtype).alias(c) for c, dtype in defaults.items() if c not in frame]
    if "id" not in frame:
        missing.append(pl.int_range(pl.len(), dtype=pl.UInt32).alias("id"))
    frame = frame.with_columns(missing)
    # renamed, since the caller's lane columns may be called lane, name or kind
    own = [f"by {i}" for i in range(len(by))]
    frame = frame.with_columns(pl.col(c).alias(o) for c, o in zip(by, own, strict=True))
    keys = frame.select(own).unique().sort(own).with_row_index("lane")
    texts = frame.select("kind", "family", "name").unique(maintain_order=True)
    texts = texts.with_row_index("text")
    events = _number(_number(frame, keys, own), texts, ["kind", "family", "name"]).select(
        pl.col("text" if c == "name" else c).cast(t).alias(c) for c, t in _EVENT.items()
    )
    named = [dict(zip(by, k, strict=True)) for _, *k in keys.rows()]
    lanes = [Lane(label(k), table, rank, stream=_stream(k)) for k in named]
    return _Layer(lanes, events, texts.select(pl.col("kind", "family", "name").cast(pl.String)))


def _stream(key: Mapping[str, Any]) -> int | None:
    """Return the stream that a lane is of; host execution keeps its thread in that column."""
    stream = None if key.get("on_host") else key.get("stream")
    return stream if isinstance(stream, int) else None


def _number(frame: pl.DataFrame, keys: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """Add the first column of `keys`, the number of each distinct value of the columns `on`."""
    number = keys.columns[0]
    left = frame.drop(number, strict=False)
    return left.join(keys, on=on, how="left", nulls_equal=True, maintain_order="left")


def _assemble(layers: Sequence[_Layer]) -> Lanes:
    lanes = [lane for layer in layers for lane in layer.lanes]
    events, texts = _stack(layers)
    start, dur = (events[c].to_numpy() for c in ("start_ns", "dur_ns"))
    packed = packing.pack(events["lane"].to_numpy(), start, dur, len(lanes))
    origin = int(start.min()) if len(start) else 0
    long = len(dur) and int(dur.max()) >= 2**32
    short_names = texts.height < 2**16
    name = events["name"].to_numpy()[packed.order]
    return Lanes(
        tuple(
            replace(lane, hidden=int(hidden))
            for lane, hidden in zip(lanes, packed.hidden, strict=True)
        ),
        origin,
        packed.lane,
        packed.offset,
        start[packed.order] - origin,
        dur[packed.order].astype(np.int64 if long else np.uint32),
        name.astype(np.uint16) if short_names else name,
        events["id"].to_numpy()[packed.order],
        events["step"].fill_null(NO_STEP).to_numpy()[packed.order],
        tuple("" if name is None else name for name in texts["name"]),
        np.array([theme.index(k, f, n or "") for k, f, n in texts.iter_rows()], np.uint8),
        tuple(texts["kind"]),
        tuple(texts["family"]),
    )


def _stack(layers: Sequence[_Layer]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Put the events and texts of all layers below each other, their numbers shifted."""
    events = [pl.DataFrame(schema=_EVENT)]
    texts = [pl.DataFrame(schema=dict.fromkeys(("kind", "family", "name"), pl.String))]
    lanes = names = 0
    for layer in layers:
        events.append(
            layer.events.with_columns(
                (pl.col("lane") + lanes).cast(pl.UInt32), (pl.col("name") + names).cast(pl.UInt32)
            )
        )
        texts.append(layer.texts)
        lanes, names = lanes + len(layer.lanes), names + layer.texts.height
    return pl.concat(events), pl.concat(texts)
