"""`sequences`: runs of kernels that a stream repeats, candidates for fusion among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis import ngrams
from workbench.analysis.window import Range, Selection, select, spans
from workbench.errors import UsageError, unknown_name
from workbench.intervals import Times
from workbench.trace import nesting
from workbench.trace.core import Source, Trace
from workbench.trace.nesting import NONE, Rows

NEEDS = ("accelerator",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "fusible": pl.Boolean(),
    "length": pl.Int64(),
    "count": pl.Int64(),
    "kernel_ns": pl.Int64(),
    "gap_ns": pl.Int64(),
    "mean_ns": pl.Float64(),
    "share": pl.Float64(),
    "first_start_ns": pl.Int64(),
    "families": pl.String(),
    "kernels": pl.String(),
}
_MEASURED = ("length", "count", "kernel_ns", "gap_ns", "first_start_ns", "families", "kernels")
FUSIBLE = (
    "elementwise",
    "norm",
    "reduction",
    "softmax",
    "layout",
    "random",
    "quantization",
)
"""Families whose kernels move each element once and do little with it: memory bounds them."""
MOST = 100
BETWEEN = " | "


def sequences(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    length: tuple[int, int] = (2, 16),
    under: str | None = None,
    fusible: bool | None = None,
) -> pl.DataFrame:
    """Return the runs of kernels that repeat on the streams of each (rank, device), longest first.

    A run is `length[0]` to `length[1]` kernels or sets in a row on a stream, in order of start,
    that begin in the window and in one device step; copies and collectives cut runs. With `under`
    it is of those that one call of that operator launched, descendants included. Of all runs that
    repeat, those are chosen that take the most kernel time, times (n - 1) / n for n kernels, and
    share none with a run chosen before, so the rows add up (`workbench.analysis.ngrams:tiled`); at
    most 100.

    `count` is the number of occurrences; `kernel_ns` the sum of their kernels' durations clipped to
    the window, `share` of the sum of all activities of the device; `mean_ns` = kernel_ns / count;
    `gap_ns` the time between each kernel's end and the next one's start inside the runs. Names in
    `kernels` stand in order; `first_start_ns` is where the first occurrence begins.

    `fusible` runs are a tiling of their own, of kernels that memory bounds (the families in
    `FUSIBLE`) with nothing else between them: fused, what one writes for the next need not go
    through memory. The other rows are runs that hold another kernel too. True or false picks one
    sort; what fusing would save is not estimated.
    """
    if not 1 < length[0] <= length[1]:
        raise UsageError(f"length must be (least, most) from 2 up, not {length}.")
    found = select(source, window=window, step=step, rank=rank, device=device, within=within)
    if under is not None:
        _check(source, under)
    parts = []
    for chosen in (s for s in found if not s.is_host):
        order = _order(chosen, under, chosen.trace.meta.origin_ns - source.origin_ns)
        parts += [
            _rows(order, length, fusible=sort) for sort in (True, False) if fusible in {None, sort}
        ]
    if not parts:
        return pl.DataFrame(schema=SCHEMA)
    by = ["rank", "device", "kernel_ns", "kernels"]
    return pl.concat(parts).sort(by, descending=[False, False, True, False])


def _check(source: Source, under: str) -> None:
    names = {n for t in source.ranks for n in t.ops["name"].unique().cast(pl.String)}
    if under not in names:
        raise unknown_name("operator", under, names)


class _Order(NamedTuple):
    """A device's activities by stream and start, and what of them may stand in a run."""

    chosen: Selection
    activities: pl.DataFrame
    clipped: Times
    name: Rows
    segment: Rows
    inside: NDArray[np.bool_]
    """Of those, the ones that `under` asks for."""
    shift_ns: int


def _order(chosen: Selection, under: str | None, shift_ns: int) -> _Order:
    acts = chosen.counted().sort("stream", "start_ns", maintain_order=True)
    physical = acts["name"].to_physical()
    names = physical.unique(maintain_order=True)
    name = physical.replace_strict(names, np.arange(len(names)), return_dtype=pl.Int64).to_numpy()
    inside = np.ones(acts.height, np.bool_)
    segment = _segments(chosen, acts)
    if under is not None:
        call = _calls(chosen.trace, under)[nesting.ids(acts["op"])]
        inside = call != NONE
        segment = np.cumsum((np.diff(call, prepend=NONE) != 0) | (np.diff(segment, prepend=0) != 0))
    clipped = intervals.covered(chosen.inside, *spans(acts))
    return _Order(chosen, acts, clipped, name, segment, inside, shift_ns)


def _rows(order: _Order, length: tuple[int, int], *, fusible: bool) -> pl.DataFrame:
    acts = order.activities
    joins = _joins(acts, fusible=fusible) & order.inside
    token = np.where(joins, order.name, NONE)
    wanted = joins if fusible else ~_joins(acts, fusible=True)
    runs = ngrams.tiled(token, order.segment, order.clipped, wanted, length=length, most=MOST)
    start, end = spans(acts)
    found = [_row(order, start, end, r) for r in runs]
    whole = int(order.chosen.clipped_ns().sum())
    return (
        pl.DataFrame(found, schema={n: t for n, t in SCHEMA.items() if n in _MEASURED})
        .with_columns(
            rank=pl.lit(order.chosen.rank),
            device=pl.lit(order.chosen.device),
            fusible=pl.lit(fusible),
            mean_ns=pl.col("kernel_ns") / pl.col("count"),
            share=pl.col("kernel_ns") / (whole or None),
        )
        .select(pl.col(n).cast(t) for n, t in SCHEMA.items())
    )


def _row(order: _Order, start: Times, end: Times, run: ngrams.Gram) -> dict[str, object]:
    places = run.at[:, None] + np.arange(run.length)
    gaps = np.maximum(start[places[:, 1:]] - end[places[:, :-1]], 0)
    first = places[np.argmin(start[run.at])]
    acts = order.activities[int(first[0]) : int(first[-1]) + 1]
    return {
        "length": run.length,
        "count": len(run.at),
        "kernel_ns": int(order.clipped[places].sum()),
        "gap_ns": int(gaps.sum()),
        "first_start_ns": int(start[first[0]]) + order.shift_ns,
        "families": BETWEEN.join(str(f) for f in acts["family"]),
        "kernels": BETWEEN.join(acts["name"].cast(pl.String)),
    }


def _joins(acts: pl.DataFrame, *, fusible: bool) -> NDArray[np.bool_]:
    """Say which activities may be part of a run."""
    if not fusible:
        return acts["kind"].is_in(["kernel", "set"]).to_numpy()
    memory_bound = acts["family"].cast(pl.String).is_in(FUSIBLE).fill_null(value=False)
    return ((acts["kind"] == "kernel") & memory_bound).to_numpy()


def _segments(chosen: Selection, acts: pl.DataFrame) -> Rows:
    """Give a number to each stretch that no run crosses: a device step on a stream."""
    steps = chosen.trace.steps.filter(pl.col("device").eq_missing(chosen.device))
    step = np.searchsorted(np.sort(steps["start_ns"].to_numpy()), acts["start_ns"], "right")
    stream = acts["stream"].rank("dense").cast(pl.Int64).fill_null(0).to_numpy()
    change = (np.diff(stream, prepend=NONE) != 0) | (np.diff(step, prepend=NONE) != 0)
    return np.cumsum(change)


def _calls(trace: Trace, under: str) -> Rows:
    """Return the outermost call of that name around each operator, or -1; -1 once more last."""
    wanted = (trace.ops["name"].cast(pl.String) == under).to_numpy()
    parent = nesting.ids(trace.ops["parent"])
    inner = np.append(nesting.nearest(parent, wanted), NONE)
    call = inner.copy()
    while True:
        above = np.where(call == NONE, NONE, inner[np.append(parent, NONE)[call]])
        if (above == NONE).all():
            return call
        call = np.where(above == NONE, call, above)
