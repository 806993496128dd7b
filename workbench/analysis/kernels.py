"""`kernels`: device time by name, family, type or shape, the longest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from workbench import intervals
from workbench.analysis import columns, dtypes
from workbench.analysis.only import Only, narrowed
from workbench.analysis.window import Range, Selection, select
from workbench.costs import devices
from workbench.trace import nesting, schema
from workbench.trace.core import Source, Trace

BY = ("kind", "family", "name", "dtype", "grid", "block", "input_dims")
BY_NAME = ("kind", "family", "name")
KEYS: dict[str, Any] = {"kind": schema.KIND, **dict.fromkeys(BY[1:], pl.String())}
SCHEMA: dict[str, Any] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "kind": schema.KIND,
    "family": pl.String(),
    "name": pl.String(),
    "count": pl.Int64(),
    "total_ns": pl.Int64(),
    "share": pl.Float64(),
    "mean_ns": pl.Float64(),
    "median_ns": pl.Float64(),
    "p95_ns": pl.Float64(),
    "min_ns": pl.Int64(),
    "max_ns": pl.Int64(),
    "occupancy": pl.Float64(),
    "blocks_per_sm": pl.Float64(),
}
IN_THREADS = "hipExtModuleLaunchKernel"
"""HIP's call whose grid counts threads and not blocks; Kineto records it as it was passed."""


def kernels(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    only: Only | None = None,
    by: Sequence[str] = BY_NAME,
) -> pl.DataFrame:
    """Return a row for each (rank, device, kind, family, name), by total time.

    `total_ns` sums durations clipped to the window, so concurrent kernels count each; `share` is
    of the sum over all rows of the device. `count`, mean, median, p95, min and max are of
    activities that start in the window. Under host execution a row is an operator name: `count` is
    of distinct operators, the durations are those of their segments. `family` is what the name says
    of the work (`workbench.trace.families`): `other` for a kernel that the table does not know,
    null for a host operator without work of its own. `occupancy` (as the profiler estimates it) and
    `blocks_per_sm` (blocks of the grid / multiprocessors of the device) are means weighted by time
    in the window, over what was recorded; below 1, some multiprocessors have nothing to do.

    With `only`, rows and shares are of that part of the work.

    `by` groups by other columns, some of `BY`: `dtype`, the element type where the name or the
    operator's inputs leave no doubt; `grid` and `block` as `8x1x1`; `input_dims`, the shapes that
    the launching operator was called with.
    """
    keys = columns.chosen(by, BY)
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_grouped(s, keys) for s in narrowed(chosen, only)]
    return pl.concat(frames) if frames else pl.DataFrame(schema=_schema(keys))


def _schema(keys: tuple[str, ...]) -> dict[str, Any]:
    head = ("rank", "device")
    rest = {n: t for n, t in SCHEMA.items() if n not in KEYS and n not in head}
    return {n: SCHEMA[n] for n in head} | {n: KEYS[n] for n in keys} | rest


def _grouped(chosen: Selection, keys: tuple[str, ...]) -> pl.DataFrame:
    start = chosen.activities["start_ns"].to_numpy()
    starts_inside = pl.col("starts_inside")
    durations = pl.col("dur_ns").filter(starts_inside)
    # a host operator has a row for each stretch between its children; it is one thing all the same
    thing = pl.coalesce("op", "id") if chosen.is_host else pl.col("id")
    clipped = chosen.activities.with_columns(chosen.clipped_ns())
    grouped = (
        clipped.with_columns(
            starts_inside=pl.Series(intervals.contains(chosen.inside, start), dtype=pl.Boolean),
            blocks_per_sm=_blocks_per_sm(chosen.trace, chosen.device, clipped),
            **{k: _key(chosen.trace, clipped, k) for k in keys},
        )
        .group_by(keys)
        .agg(
            count=thing.filter(starts_inside).n_unique(),
            total_ns=pl.col("clipped_ns").sum(),
            mean_ns=durations.mean(),
            median_ns=durations.median(),
            p95_ns=durations.quantile(0.95, "linear"),
            min_ns=durations.min(),
            max_ns=durations.max(),
            occupancy=_weighted("occupancy"),
            blocks_per_sm=_weighted("blocks_per_sm"),
        )
        .sort("total_ns", *keys, descending=[True, *[False] * len(keys)])
    )
    share = (pl.col("total_ns") / pl.col("total_ns").sum()).fill_nan(None)
    return grouped.with_columns(
        rank=pl.lit(chosen.rank, pl.Int32()), device=pl.lit(chosen.device, pl.Int32()), share=share
    ).select(pl.col(n).cast(t) for n, t in _schema(keys).items())


def _key(trace: Trace, activities: pl.DataFrame, key: str) -> pl.Series | pl.Expr:
    """Return one column to group by."""
    if key == "dtype":
        return dtypes.of_activities(trace, activities)
    if key == "input_dims":
        op = nesting.ids(activities["op"])
        return nesting.gathered(trace.ops["input_dims"], op).cast(pl.String)
    if key in {"grid", "block"}:
        sizes = pl.col(key).arr.to_list().cast(pl.List(pl.String)).list.join("x")
        return pl.when(pl.col(key).is_not_null()).then(sizes)
    return pl.col(key) if key == "kind" else pl.col(key).cast(pl.String)


def _weighted(column: str) -> pl.Expr:
    """Return the mean weighted by time in the window, over rows where the column is known."""
    value, weight = pl.col(column).cast(pl.Float64), pl.col("clipped_ns")
    return ((value * weight).sum() / weight.filter(value.is_not_null()).sum()).fill_nan(None)


def _blocks_per_sm(
    trace: Trace, device: int | None, activities: pl.DataFrame
) -> pl.Series | pl.Expr:
    """Return blocks / multiprocessors; null where the grid is unknown, or counts threads."""
    processors = multiprocessors(trace, device)
    if processors is None:
        return pl.lit(None, pl.Float64)
    launch = nesting.ids(activities["launch"])
    calls = nesting.gathered(trace.launches["name"], launch).cast(pl.String)
    x, y, z = (pl.col("grid").arr.get(i).cast(pl.Int64) for i in range(3))
    blocks = x * y * z
    known = (blocks > 0) & (calls != IN_THREADS).fill_null(value=True)
    return activities.select(pl.when(known).then(blocks / processors)).to_series()


def multiprocessors(trace: Trace, device: int | None) -> int | None:
    """Return how many multiprocessors (AMD: compute units) a device has.

    As recorded, else by the device's part in data/hardware.csv; None when neither says.
    """
    found = trace.meta.described(device)
    return None if found is None else devices.multiprocessors(found)
