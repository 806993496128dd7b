"""Which quantities a trace knows over time, each as a curve to draw below its device's lanes.

Occupancy and queue depth follow from the activities, memory from the allocator's record, counters
from their table, and power, clocks and utilisation from what was sampled beside a recorded run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from workbench.analysis.queue import queue_depth
from workbench.capture.samples import sampled
from workbench.views import track_offers
from workbench.views.curve import Curve, Values
from workbench.views.lod import Window
from workbench.views.replies import MAX_PIXELS, Reply
from workbench.views.trace_lanes import group_of, prefix_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from workbench.intervals import Times
    from workbench.trace.core import Source, Trace
    from workbench.views.lanes import Lanes
    from workbench.views.track_offers import Offer

FIRST = ("power", "memory allocated", "queue depth", "occupancy", "utilisation")
"""What is shown before anything else."""
MAX_SHOWN, MAX_OTHERS = 6, 4
"""Tracks shown unless others are chosen: of `FIRST`, and together with others. There are dozens."""
LARGE = 1_000_000
"""Rows of a table beyond which its curves, seconds and gigabytes, wait to be chosen."""
PAUSE = 5
"""Samples further apart than so many times their median distance leave a stretch unknown."""
NAN = float("nan")
SCHEMA = {
    "track": pl.String,
    "unit": pl.String,
    "min": pl.Float64,
    "mean": pl.Float64,
    "max": pl.Float64,
}


class Samples(NamedTuple):
    """Times in ns of the trace, in order, and what holds from each on."""

    t: Times
    value: Values


@dataclass(frozen=True)
class Track:
    """One quantity of one device or host; its curve is made when it is first drawn."""

    name: str
    quantity: str
    unit: str
    group: str
    on_host: bool
    make: Callable[[], Samples] = field(repr=False)
    shift_ns: int = 0
    """From the trace's time to that of the first event."""
    span_ns: int = 1
    is_large: bool = False
    """Whether it is made of so many rows that it is drawn only when it is chosen."""

    @cached_property
    def curve(self) -> Curve:
        """Return the quantity from the first event to the end of the last one."""
        t, value = self.make()
        t = t + self.shift_ns
        begin = max(int(np.searchsorted(t, 0, "right")) - 1, 0)
        end = int(np.searchsorted(t, self.span_ns))
        t, value = np.clip(t[begin:end], 0, None), value[begin:end]
        return Curve(np.append(t, self.span_ns), np.append(value, NAN))


def tracks(source: Source, lanes: Lanes) -> tuple[Track, ...]:
    """Return what there is to draw, rank by rank, the most looked-at quantities first."""
    found: list[Track] = []
    if not len(lanes.start):
        return ()
    for trace, known in zip(source.ranks, track_offers.offered(source), strict=True):
        place = (source, lanes, trace)
        rows = [_row(trace, offer) for offer in known.offers]
        on: list[int | None] = [*known.devices]
        on += [None] if trace is source.ranks[0] else []
        rows += list(_sampled(trace, lanes.engine.span_ns, on))
        rows.sort(key=lambda row: _importance(row.quantity))
        found += [_track(place, row) for row in rows]
    return tuple(found)


def shown(found: Sequence[Track]) -> list[str]:
    """Return the names of the tracks that are drawn unless told otherwise.

    Quantity by quantity, each on all devices, as long as there are few; hosts where no device has
    any; none that is made of very many rows.
    """
    out: list[str] = []
    quick = [t for t in found if not t.is_large]
    offered = [t for t in quick if not t.on_host] or quick
    quantities = dict.fromkeys(sorted((t.quantity for t in offered), key=_importance))
    for quantity in quantities:
        names = [t.name for t in offered if t.quantity == quantity]
        if len(out) + len(names) > (MAX_SHOWN if quantity in FIRST else MAX_OTHERS):
            break
        out += names
    return out


def table(found: Sequence[Track], start: int, end: int) -> pl.DataFrame:
    """Return `track unit min mean max` of [start, end), ns from the first event.

    `mean` is weighted by time; null where nothing of the stretch is known.
    """
    rows = [(t.name, t.unit, *t.curve.stretch(start, end)) for t in found]
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    return frame.with_columns(pl.col("min", "mean", "max").fill_nan(None))


def reply(found: Sequence[Track], request: Mapping[str, Any]) -> Reply:
    """Answer what some tracks hold in each pixel of a window.

    Request: `base a b width` as `replies.view` has them, `tracks` (positions). Header: the same,
    and `limits` of each over the whole recording, null where nothing is known. Buffers: for each
    track float32 least, mean and largest values, NaN where unknown.
    """
    base, a, b = int(request["base"]), float(request["a"]), float(request["b"])
    width = min(max(int(request["width"]), 1), MAX_PIXELS)
    chosen = [int(k) for k in request["tracks"] if 0 <= int(k) < len(found)]
    curves = [found[k].curve for k in chosen]
    window = Window(base, a, max(a, b), 0, 0)
    header = {"type": "tracks", "base": str(base), "a": a, "b": b, "width": width}
    header |= {k: request.get(k) for k in ("view", "seq")}
    header |= {"tracks": chosen, "limits": [curve.limits for curve in curves]}
    bands = [np.concatenate(curve.bands(window, width)) for curve in curves]
    return Reply(header, [band.astype("<f4").tobytes() for band in bands])


class _Row(NamedTuple):
    quantity: str
    unit: str
    device: int | None
    make: Callable[[], Samples]
    is_large: bool = False


def _track(place: tuple[Source, Lanes, Trace], row: _Row) -> Track:
    source, lanes, trace = place
    group = group_of(trace, prefix_of(source, trace), row.device)
    shift = trace.meta.origin_ns - source.origin_ns - lanes.origin_ns
    return Track(
        f"{group} · {row.quantity}",
        row.quantity,
        row.unit,
        group,
        row.device is None,
        row.make,
        shift,
        lanes.engine.span_ns,
        row.is_large,
    )


def _importance(quantity: str) -> int:
    return FIRST.index(quantity) if quantity in FIRST else len(FIRST)


def _row(trace: Trace, offer: Offer) -> _Row:
    make = {
        track_offers.OCCUPANCY: _mean_occupancy,
        track_offers.QUEUE: _depth,
        track_offers.COUNTER: _counter,
    }.get(offer.of, _memory)
    rows = trace.rows(track_offers.TABLE_OF[offer.of])
    made = partial(make, trace, offer)
    return _Row(offer.quantity, offer.unit, offer.device, made, rows > LARGE)


def _mean_occupancy(trace: Trace, offer: Offer) -> Samples:
    """Return the mean over running kernels at each moment; unknown while none of them runs."""
    mine = trace.activities.filter(
        pl.col("occupancy").is_not_null(), pl.col("device") == offer.device, pl.col("dur_ns") > 0
    )
    start, dur = mine["start_ns"].to_numpy(), mine["dur_ns"].to_numpy()
    share = np.rint(mine["occupancy"].cast(pl.Float64).to_numpy() * 1e6).astype(np.int64)
    at = np.concatenate((start, start + dur))
    order = np.argsort(at, kind="stable")
    total = np.cumsum(np.concatenate((share, -share))[order])
    running = np.cumsum(np.repeat(np.array([1, -1]), len(start))[order])
    at = at[order]
    last = np.append(at[1:] != at[:-1], True)[: len(at)]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(running > 0, total / running / 1e4, NAN)
    return Samples(at[last], mean[last])


def _depth(trace: Trace, offer: Offer) -> Samples:
    """Return `queue_depth` of a device; before its first call and after the last nothing waits."""
    found = queue_depth(trace, window="all", device=offer.device)
    found = found.filter(pl.col("stream").is_null())
    t, depth = found["t_ns"].to_numpy(), found["depth"].cast(pl.Float64).to_numpy()
    before = np.iinfo(np.int64).min // 4
    return Samples(np.concatenate(([before], t)), np.concatenate(([0.0], depth)))


def _memory(trace: Trace, offer: Offer) -> Samples:
    column = track_offers.TOTALS[offer.quantity]
    return _column(trace.memory.filter(pl.col(column).is_not_null()), offer, column)


def _counter(trace: Trace, offer: Offer) -> Samples:
    unit = pl.col("unit").cast(pl.String).fill_null("")
    named = (pl.col("name").cast(pl.String) == offer.quantity) & (unit == offer.unit)
    return _column(trace.counters.filter(named), offer, "value")


def _column(frame: pl.DataFrame, offer: Offer, column: str) -> Samples:
    mine = frame.filter(pl.col("device").eq_missing(pl.lit(offer.device, pl.Int32)))
    mine = mine.sort("t_ns", maintain_order=True)
    return Samples(mine["t_ns"].to_numpy(), mine[column].cast(pl.Float64).to_numpy())


def _sampled(trace: Trace, span_ns: int, devices: list[int | None]) -> Iterator[_Row]:
    """Return what was sampled beside the run; the host's part stands with its first rank."""
    every = sampled(trace.meta.path.parent)
    every = every.filter(pl.col("device").is_in(devices, nulls_equal=True))
    every = every.with_columns(t_ns=pl.col("t_unix_ns") - trace.meta.origin_ns)
    for key, frame in every.group_by(["device", "name", "unit"], maintain_order=True):
        # a trace without an absolute time lies decades before its samples
        if frame["t_ns"][-1] >= 0 and frame["t_ns"][0] <= span_ns:
            device, name, unit = key
            yield _Row(str(name), str(unit), device, partial(_with_pauses, frame))


def _with_pauses(frame: pl.DataFrame) -> Samples:
    """Hold each sample until the next; where sampling pauses, and after its end, nothing is known.

    A value is taken to hold for the median distance of two samples then.
    """
    t, value = frame["t_ns"].to_numpy(), frame["value"].to_numpy()
    if len(t) < 2:  # noqa: PLR2004
        return Samples(t, value)
    apart = np.diff(t)
    usual = max(1, int(np.median(apart)))
    ends = np.flatnonzero(np.append(apart > PAUSE * usual, True))
    return Samples(np.insert(t, ends + 1, t[ends] + usual), np.insert(value, ends + 1, NAN))
