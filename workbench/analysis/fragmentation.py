"""`fragmentation`: how much of what the allocator holds from a device the program can't use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.analysis.pools import DEVICE, pools
from workbench.analysis.window import check

if TYPE_CHECKING:
    from workbench.trace.core import Source, Trace

NEEDS = ("segments",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "kind": pl.String(),
    "pool": pl.String(),
    "stream": pl.Int64(),
    "segments": pl.Int64(),
    "reserved_bytes": pl.Int64(),
    "allocated_bytes": pl.Int64(),
    "active_bytes": pl.Int64(),
    "requested_bytes": pl.Int64(),
    "free_bytes": pl.Int64(),
    "releasable_bytes": pl.Int64(),
    "inactive_split_bytes": pl.Int64(),
    "largest_free_bytes": pl.Int64(),
    "rounding_bytes": pl.Int64(),
    "fragmented_share": pl.Float64(),
    "reason": pl.String(),
}
TOTALS_ONLY = (
    "only totals at the last allocation are recorded; take a snapshot with "
    "torch.cuda.memory._dump_snapshot(PATH) for segments and blocks"
)
NO_BLOCKS = "the snapshot lists no blocks, so the largest free one is unknown"
_GROUP = ("device", "kind", "pool", "stream")
_SIZES = {
    "reserved": "bytes",
    "allocated": "allocated",
    "active": "active",
    "requested": "requested",
}


def fragmentation(
    source: Source, *, rank: int | None = None, device: int | None = None
) -> pl.DataFrame:
    """Return the state of each device's memory at the end, by kind, pool and stream of segments.

    Memory is reserved in segments and handed out in blocks of them.

    - `free_bytes` = reserved - active. Of it `releasable_bytes` lie in segments without any active
      block, which can be given back; `inactive_split_bytes` are the gaps in all others.
    - `fragmented_share` = inactive split / reserved: what only an allocation of the right size can
      use. `largest_free_bytes` is the largest one that fits without reserving more.
    - `rounding_bytes` = allocated - requested: what was handed out beyond what was asked for.

    A value is null where a segment lacks it. A recording without segments has one row for each
    device, with what was reserved and allocated after its last allocation or free, and the reason.
    Source: torch.cuda.memory_stats (inactive_split_bytes) and c10's CUDACachingAllocator.
    """
    check(source, rank=rank, device=device)
    frames = [
        _of_segments(trace) if trace.segments.height else _of_totals(trace)
        for trace in source.ranks
        if rank is None or trace.meta.rank == rank
    ]
    found = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    return found if device is None else found.filter(pl.col("device") == device)


def _of_segments(trace: Trace) -> pl.DataFrame:
    empty, used = pl.col("active") == 0, pl.col("active") > 0
    table = trace.segments.with_columns(
        kind=pl.col("kind").cast(pl.String),
        releasable=pl.when(empty).then("bytes").when(used).then(0),
        split=pl.when(empty).then(0).when(used).then(pl.col("bytes") - pl.col("active")),
        # a segment in which nothing is active is one free block, listed or not
        largest=pl.when(empty).then("bytes").otherwise("largest_free"),
        rounding=pl.col("allocated") - pl.col("requested"),
    )
    grouped = table.group_by(*_GROUP).agg(
        _whole(pl.col(column)).alias(f"{name}_bytes") for name, column in _SIZES.items()
    )
    more = table.group_by(*_GROUP).agg(
        segments=pl.len(),
        releasable_bytes=_whole(pl.col("releasable")),
        inactive_split_bytes=_whole(pl.col("split")),
        largest_free_bytes=pl.when(pl.col("largest").null_count() == 0).then(
            pl.col("largest").max()
        ),
        rounding_bytes=_whole(pl.col("rounding")),
    )
    joined = grouped.join(more, on=_GROUP, nulls_equal=True)
    share = pl.col("inactive_split_bytes") / pl.col("reserved_bytes")
    made = (
        joined.with_columns(free_bytes=pl.col("reserved_bytes") - pl.col("active_bytes"))
        .with_columns(
            rank=pl.lit(trace.meta.rank),
            fragmented_share=pl.when(pl.col("reserved_bytes") > 0).then(share),
            reason=pl.when(pl.col("largest_free_bytes").is_null()).then(pl.lit(NO_BLOCKS)),
        )
        .sort(
            "device",
            "reserved_bytes",
            "kind",
            "pool",
            "stream",
            descending=[False, True, False, False, False],
        )
    )
    return made.select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _whole(column: pl.Expr) -> pl.Expr:
    """Add up a column, or say null when a part of it is unknown."""
    return pl.when(column.null_count() == 0).then(column.sum())


def _of_totals(trace: Trace) -> pl.DataFrame:
    rows = []
    for pool in pools(trace, window="all"):
        if pool.place != DEVICE or pool.reserved is None or not pool.has_totals:
            continue
        reserved, allocated = int(pool.reserved[-1]), int(pool.level[-1])
        rows.append(
            {
                "rank": pool.rank,
                "device": pool.device,
                "reserved_bytes": reserved,
                "allocated_bytes": allocated,
                "reason": TOTALS_ONLY,
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)
