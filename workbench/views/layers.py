"""Frames of events into lanes: numbers for lanes and names, rows without overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from workbench.errors import UsageError, unknown_name
from workbench.views import packing, theme
from workbench.views.lanes import NO_STEP, Lane, Lanes
from workbench.views.numbering import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_EVENT = {
    "lane": pl.UInt32,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "name": pl.UInt32,
    "id": pl.UInt32,
    "step": pl.Int32,
}


class Layer(NamedTuple):
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

    return assemble([layer(frame, table, None, by, label)])


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


def layer(
    frame: pl.DataFrame,
    table: str,
    rank: int | None,
    by: Sequence[str],
    label: Callable[[Mapping[str, Any]], str],
    *,
    group: Callable[[Mapping[str, Any]], str] = lambda _: "",
) -> Layer:
    """Give the lanes and the texts of a frame of events numbers."""
    defaults = {"kind": pl.String, "family": pl.String, "step": pl.Int32}
    missing = [pl.lit(None, dtype).alias(c) for c, dtype in defaults.items() if c not in frame]
    if "id" not in frame:
        missing.append(pl.int_range(pl.len(), dtype=pl.UInt32).alias("id"))
    frame = frame.with_columns(missing)
    # renamed, since the caller's lane columns may be called lane, name or kind
    own = [f"by {i}" for i in range(len(by))]
    frame = frame.with_columns(pl.col(c).alias(o) for c, o in zip(by, own, strict=True))
    lane, keys = numbered(frame, own)
    keys = keys.with_row_index("lane").sort(own)
    place = np.argsort(keys["lane"].to_numpy()).astype(np.uint32)
    text, texts = numbered(frame, ["kind", "family", "name"])
    numbers = {"lane": pl.Series(place[lane]), "name": pl.Series(text)}
    events = frame.with_columns(**numbers).select(pl.col(c).cast(t) for c, t in _EVENT.items())
    named = [dict(zip(by, k, strict=True)) for _, *k in keys.rows()]
    lanes = [Lane(label(k), table, rank, stream=_stream(k), group=group(k)) for k in named]
    return Layer(lanes, events, texts.cast(pl.String))


def _stream(key: Mapping[str, Any]) -> int | None:
    """Return the stream that a lane is of; host execution keeps its thread in that column."""
    stream = None if key.get("on_host") else key.get("stream")
    return stream if isinstance(stream, int) else None


def assemble(layers: Sequence[Layer]) -> Lanes:
    """Put layers below each other; events that overlap in a lane go on rows of their own."""
    lanes = [lane for made in layers for lane in made.lanes]
    events, texts = _stack(layers)
    start, dur = (events[c].to_numpy() for c in ("start_ns", "dur_ns"))
    packed = packing.pack(events["lane"].to_numpy(), start, dur, len(lanes))
    origin = int(start.min()) if len(start) else 0
    long = len(dur) and int(dur.max()) >= 2**32
    short_names = texts.height < 2**16
    name = events["name"].to_numpy()[packed.order]
    start, dur = start[packed.order], dur[packed.order]
    return Lanes(
        tuple(
            replace(lane, hidden=int(hidden))
            for lane, hidden in zip(lanes, packed.hidden, strict=True)
        ),
        origin,
        packed.lane,
        packed.offset,
        start - origin,
        dur.astype(np.int64 if long else np.uint32),
        name.astype(np.uint16) if short_names else name,
        events["id"].to_numpy()[packed.order],
        events["step"].fill_null(NO_STEP).to_numpy()[packed.order],
        tuple("" if name is None else name for name in texts["name"]),
        np.array([theme.index(k, f, n or "") for k, f, n in texts.iter_rows()], np.uint8),
        tuple(texts["kind"]),
        tuple(texts["family"]),
        steps=events["step"].drop_nulls().unique().sort().to_numpy(),
        inner=packing.inner(packed, start, start + dur),
    )


def _stack(layers: Sequence[Layer]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Put the events and texts of all layers below each other, their numbers shifted."""
    events = [pl.DataFrame(schema=_EVENT)]
    texts = [pl.DataFrame(schema=dict.fromkeys(("kind", "family", "name"), pl.String))]
    lanes = names = 0
    for made in layers:
        events.append(
            made.events.with_columns(
                (pl.col("lane") + lanes).cast(pl.UInt32), (pl.col("name") + names).cast(pl.UInt32)
            )
        )
        texts.append(made.texts)
        lanes, names = lanes + len(made.lanes), names + made.texts.height
    return pl.concat(events), pl.concat(texts)
