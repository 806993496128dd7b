"""`collectives`: what each collective moved, how fast, and how long it waited for other ranks."""

from __future__ import annotations

import polars as pl

from workbench import intervals
from workbench.analysis.window import Range, Selection, select, spans
from workbench.trace.core import Source
from workbench.trace.schema import COMPUTE_KINDS

SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "name": pl.String(),
    "requested": pl.String(),
    "group": pl.String(),
    "group_size": pl.Int32(),
    "seq": pl.Int64(),
    "dtype": pl.String(),
    "bytes": pl.Int64(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "algorithm_bytes_per_s": pl.Float64(),
    "bus_bytes_per_s": pl.Float64(),
}
NS = 10**9


def collectives(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each collective that starts in the window, in order of start.

    `algorithm_bytes_per_s` = bytes / duration on this rank. `bus_bytes_per_s` is that times
    2(n-1)/n for an all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for
    broadcast, reduce and point to point (nccl-tests, PERFORMANCE.md), n the group's size; null
    where bytes or n are unknown. On a `Job` whose ranks recorded members and sequence number:
    `wait_ns` = last start - own start, `transfer_ns` = last start to own end. Both are null when
    the other ranks' records are missing.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_of(s, s.trace.meta.origin_ns - source.origin_ns) for s in chosen]
    if not frames:
        return pl.DataFrame(schema=SCHEMA)
    found = _across_ranks(pl.concat(frames))
    seconds = pl.when(pl.col("dur_ns") > 0).then(pl.col("dur_ns") / NS)
    algorithm = pl.col("bytes") / seconds
    frame = found.with_columns(
        algorithm_bytes_per_s=algorithm, bus_bytes_per_s=algorithm * bus_factor()
    )
    return frame.sort("start_ns", "rank").select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def bus_factor() -> pl.Expr:
    """Return the ratio of bus to algorithm bandwidth, from the columns `name` and `group_size`."""
    n = pl.col("group_size")
    name = pl.col("name")
    share = (n - 1) / n
    return (
        pl.when(name == "all_reduce")
        .then(2 * share)
        .when(name.is_in(["all_gather", "reduce_scatter", "all_to_all"]))
        .then(share)
        .when(name.is_in(["broadcast", "reduce", "send", "recv", "send_recv"]))
        .then(1.0)
    )


def _of(chosen: Selection, shift_ns: int) -> pl.DataFrame:
    """Return one device's collectives with their exposed time."""
    counted = chosen.counted().filter(pl.col("kind") == "collective")
    bare = intervals.difference(chosen.times("collective"), chosen.times(*COMPUTE_KINDS))
    exposed = intervals.covered(bare, *spans(counted))
    mine = counted.select("step", activity="id", exposed_ns=pl.Series(exposed))
    text = ("name", "requested", "group", "dtype")
    return (
        chosen.trace.collectives.join(mine, on="activity", how="inner", maintain_order="left")
        .with_columns(pl.col(c).cast(pl.String) for c in text)
        .with_columns(
            rank=pl.lit(chosen.rank, pl.Int32()),
            device=pl.lit(chosen.device, pl.Int32()),
            start_ns=pl.col("start_ns") + shift_ns,
        )
    )


def _across_ranks(found: pl.DataFrame) -> pl.DataFrame:
    """Add what a collective waited and transferred, by members and sequence across ranks."""
    members = pl.col("members").str.json_decode(pl.List(pl.Int64)).list.len()
    same = ["group", "members", "seq", "name"]
    last = (
        found.drop_nulls(["members", "seq"])
        .group_by(same)
        .agg(
            last_start_ns=pl.col("start_ns").max(),
            all_there=(pl.col("rank").n_unique() == members.first())
            & (pl.len() == members.first()),
        )
        .filter("all_there")
    )
    joined = found.join(last, on=same, how="left", maintain_order="left")
    return joined.with_columns(
        wait_ns=pl.col("last_start_ns") - pl.col("start_ns"),
        transfer_ns=pl.col("start_ns") + pl.col("dur_ns") - pl.col("last_start_ns"),
    )
