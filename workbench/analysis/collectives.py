"""`collectives`: what each collective moved, how fast, and how long it waited for other ranks."""

from __future__ import annotations

import polars as pl

from workbench import intervals
from workbench.analysis.parallel import dimensions
from workbench.analysis.window import Range, Selection, select, spans
from workbench.trace import clocks
from workbench.trace.core import Job, Source, Trace
from workbench.trace.schema import COMPUTE_KINDS

SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "name": pl.String(),
    "requested": pl.String(),
    "group": pl.String(),
    "dimension": pl.String(),
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
NEEDS = ("collectives",)
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
    where bytes or n are unknown. `dimension` is the parallelism that the group serves
    (`parallel.DIMENSIONS`), null when its description says nothing. On a `Job` whose ranks recorded
    members and sequence number: `wait_ns` = last start - own start, `transfer_ns` = last start to
    own end. Both are null when the other ranks' records are missing, or when no moment lies in all
    of them: then they are not of one collective, or the ranks' clocks differ by more than it
    lasted. When that holds for most of a group's collectives and the ranks' clock offsets explain
    it, the offsets are taken off for these two columns (`clocks.corrections`; the problem
    `clock_offset` says so). The collectives of an execution graph have no times; they stand in
    recorded order, unless a window, step or device was asked for.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_of(s, s.trace.meta.origin_ns - source.origin_ns) for s in chosen]
    if window == "steps" and (step, device, within) == (None, None, None):
        frames += [
            _untimed(t) for t in source.ranks if not t.meta.timed and rank in {None, t.meta.rank}
        ]
    if not frames:
        return pl.DataFrame(schema=SCHEMA)
    found = _across_ranks(pl.concat(frames, how="diagonal"), source)
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
        .join(dimensions(chosen.trace), on="group", how="left", maintain_order="left")
        .with_columns(
            rank=pl.lit(chosen.rank, pl.Int32()),
            device=pl.lit(chosen.device, pl.Int32()),
            start_ns=pl.col("start_ns") + shift_ns,
        )
    )


def _untimed(trace: Trace) -> pl.DataFrame:
    """Return the collectives of an execution graph, whose place in time is unknown."""
    text = ("name", "requested", "group", "dtype")
    named = trace.collectives.with_columns(pl.col(c).cast(pl.String) for c in text)
    return named.join(
        dimensions(trace), on="group", how="left", maintain_order="left"
    ).with_columns(
        step=pl.lit(None, pl.Int32()),
        exposed_ns=pl.lit(None, pl.Int64()),
        rank=pl.lit(trace.meta.rank, pl.Int32()),
        device=pl.lit(None, pl.Int32()),
    )


def _across_ranks(found: pl.DataFrame, source: Source) -> pl.DataFrame:
    """Add what a collective waited and transferred; all ranks count, whatever is looked at.

    A collective is the same on two ranks by members and sequence number. Where several groups of
    the same members number theirs alike, the group's name tells them apart.
    """
    every = pl.concat(
        [clocks.identified(t, t.meta.origin_ns - source.origin_ns) for t in source.ranks]
    )
    if isinstance(source, Job):
        ahead = source.clock_corrections
        every = every.join(ahead, on=["member_list", "rank"], how="left", maintain_order="left")
    else:
        every = every.with_columns(ahead_ns=pl.lit(None, pl.Int64()))
    every = every.with_columns(pl.col("ahead_ns").fill_null(0)).with_columns(
        pl.col("start_ns", "end_ns") - pl.col("ahead_ns")
    )
    keys = every.select("rank", "id", "member_list", "same_group", "ahead_ns")
    found = found.join(keys, on=["rank", "id"], how="left", nulls_equal=True, maintain_order="left")
    for same, last in ((["member_list", "seq"], "last_of_members"),
                       (["member_list", "seq", "same_group"], "last_of_group")):  # fmt: skip
        last_starts = _last_starts(every, same).rename({"last_start_ns": last})
        found = found.join(last_starts, on=same, how="left", maintain_order="left")
    last_start = pl.coalesce("last_of_members", "last_of_group")
    start = pl.col("start_ns") - pl.col("ahead_ns")
    return found.with_columns(
        wait_ns=last_start - start, transfer_ns=start + pl.col("dur_ns") - last_start
    )


def _last_starts(every: pl.DataFrame, same: list[str]) -> pl.DataFrame:
    """Return the last start of each collective that exactly its members recorded once each.

    Records that began after another had ended, or that are of different collectives, are not one
    collective, whatever their numbers: groups number theirs alike.
    """
    members = pl.col("member_list").first().list.len()
    once_each = (pl.col("rank").n_unique() == members) & (pl.len() == members)
    alike = pl.col("name").n_unique() == 1
    overlap = pl.col("start_ns").max() <= pl.col("end_ns").min()
    return (
        every.drop_nulls(["member_list", "seq"])
        .group_by(same)
        .agg(last_start_ns=pl.col("start_ns").max(), is_one=once_each & alike & overlap)
        .filter("is_one")
        .drop("is_one")
    )
