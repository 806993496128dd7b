"""`kernels`: device time by name, the longest first."""

from __future__ import annotations

import polars as pl

from workbench.analysis.window import Range, Selection, select
from workbench.trace import schema
from workbench.trace.core import Source

SCHEMA = {
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
    "min_ns": pl.Int64(),
    "max_ns": pl.Int64(),
}


def kernels(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, kind, family, name), by total time.

    `total_ns` sums durations clipped to the window, so concurrent kernels count each; `share` is
    of the sum over all rows of the device. `count`, mean, median, min and max are of activities
    that start in the window. Under host execution a row is an operator name: `count` is of
    distinct operators, the durations are those of their segments. `family` is what the name says
    of the work (`workbench.trace.families`): `other` for a kernel that the table does not know,
    null for a host operator without work of its own.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_by_name(s) for s in chosen]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _by_name(chosen: Selection) -> pl.DataFrame:
    starts_inside = pl.col("id").is_in(chosen.counted()["id"].implode())
    durations = pl.col("dur_ns").filter(starts_inside)
    # a host operator has a row for each stretch between its children; it is one thing all the same
    thing = pl.coalesce("op", "id") if chosen.is_host else pl.col("id")
    grouped = (
        chosen.activities.with_columns(chosen.clipped_ns())
        .group_by("kind", pl.col("family").cast(pl.String), pl.col("name").cast(pl.String))
        .agg(
            count=thing.filter(starts_inside).n_unique(),
            total_ns=pl.col("clipped_ns").sum(),
            mean_ns=durations.mean(),
            median_ns=durations.median(),
            min_ns=durations.min(),
            max_ns=durations.max(),
        )
        .sort("total_ns", "name", descending=[True, False])
    )
    return grouped.select(
        pl.lit(chosen.rank, pl.Int32()).alias("rank"),
        pl.lit(chosen.device, pl.Int32()).alias("device"),
        "kind",
        "family",
        "name",
        pl.col("count").cast(pl.Int64),
        "total_ns",
        (pl.col("total_ns") / pl.col("total_ns").sum()).fill_nan(None).alias("share"),
        "mean_ns",
        "median_ns",
        "min_ns",
        "max_ns",
    )
