"""`launches` and `delays`: how long calls take, how long their work queues and runs."""

from __future__ import annotations

import polars as pl

from workbench.analysis import pairs
from workbench.analysis.only import Only, narrowed
from workbench.analysis.window import Range, Selection, select
from workbench.trace import schema
from workbench.trace.core import Source

NEEDS = ("accelerator", "launches")
PARTS = ("call", "queue", "execution")
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "kind": schema.LAUNCH_KIND,
    "name": pl.String(),
    "calls": pl.Int64(),
    "activities": pl.Int64(),
    "short": pl.Int64(),
    "inverted": pl.Int64(),
    **{
        f"{part}_{statistic}_ns": pl.Int64() if statistic in {"total", "max"} else pl.Float64()
        for part in PARTS
        for statistic in ("total", "mean", "median", "p95", "max")
    },
}
DELAY_SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "stream": pl.Int64(),
    "step": pl.Int32(),
    "activity": schema.ID,
    "kind": schema.KIND,
    "name": pl.String(),
    "launch_kind": schema.LAUNCH_KIND,
    "launch": pl.String(),
    "start_ns": pl.Int64(),
    "call_ns": pl.Int64(),
    "queue_ns": pl.Int64(),
    "call_to_start_ns": pl.Int64(),
    "execution_ns": pl.Int64(),
    "reason": pl.String(),
}


def launches(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    only: Only | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, kind and name of call), by total time of the calls.

    Of activities that start in the window, and of the calls that launched them: `call_…` is over
    distinct calls (a graph launch is one call and owns all its activities), the call's duration;
    `queue_…` over activities, max(0, start - call end); `execution_…` over activities, their whole
    duration. `short` counts calls whose work ran, added up, for less time than the call took: there
    the host is the limit. `inverted` counts activities that start before their call does, by clocks
    that differ: they have no queue time and are in no `queue_…`. Activities without a launch record
    have a row of their own, with `kind` and `name` null. Calls that no recorded activity belongs to
    are left out: their device is not known. p95 interpolates linearly. With `only`, activities are
    of that part of the work, and calls those that launched some of it.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_by_call(s) for s in narrowed(chosen, only) if not s.is_host]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _by_call(chosen: Selection) -> pl.DataFrame:
    keys = ("call_kind", "call")
    found = pairs.with_calls(chosen.trace, chosen.counted())
    calls = (
        found.drop_nulls("launch")
        .group_by("launch")
        .agg(pl.col(*keys, "call_ns").first(), ran_ns=pl.col("dur_ns").sum())
        .group_by(keys)
        .agg(
            calls=pl.len(),
            short=(pl.col("ran_ns") < pl.col("call_ns")).sum(),
            **_statistics("call", "call_ns"),
        )
    )
    work = found.group_by(keys).agg(
        activities=pl.len(),
        inverted=pl.col("inverted").sum(),
        **_statistics("queue", "queue_ns"),
        **_statistics("execution", "dur_ns"),
    )
    known = pl.col("call").is_not_null()
    return (
        work.join(calls, on=keys, how="left", nulls_equal=True)
        .sort("call_total_ns", "call", descending=[True, False], nulls_last=True)
        .with_columns(
            rank=pl.lit(chosen.rank, pl.Int32()),
            device=pl.lit(chosen.device, pl.Int32()),
            kind="call_kind",
            name="call",
            inverted=pl.when(known).then("inverted"),
        )
        .select(pl.col(n).cast(t) for n, t in SCHEMA.items())
    )


def _statistics(part: str, column: str) -> dict[str, pl.Expr]:
    values = pl.col(column).drop_nulls()
    return {
        f"{part}_total_ns": pl.when(values.len() > 0).then(values.sum()),
        f"{part}_mean_ns": values.mean(),
        f"{part}_median_ns": values.median(),
        f"{part}_p95_ns": values.quantile(0.95, "linear"),
        f"{part}_max_ns": values.max(),
    }


def delays(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each activity that starts in the window, in order of start.

    `call_ns` is its launch call's duration; `queue_ns` = max(0, start - call end);
    `call_to_start_ns` = start - call begin; `execution_ns` its duration. Without a launch record,
    or when it starts before its launch (the clocks of host and device differ), queue and
    `call_to_start_ns` are null and `reason` is the code of the problem, `launch_missing` or
    `clock_inversion`.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_each(s, s.trace.meta.origin_ns - source.origin_ns) for s in chosen if not s.is_host]
    found = pl.concat(frames) if frames else pl.DataFrame(schema=DELAY_SCHEMA)
    return found.sort("start_ns", "rank", "device", maintain_order=True)


def _each(chosen: Selection, shift_ns: int) -> pl.DataFrame:
    found = pairs.with_calls(chosen.trace, chosen.counted())
    return found.select(
        rank=pl.lit(chosen.rank, pl.Int32()),
        device=pl.lit(chosen.device, pl.Int32()),
        stream="stream",
        step="step",
        activity="id",
        kind="kind",
        name=pl.col("name").cast(pl.String),
        launch_kind="call_kind",
        launch="call",
        start_ns=pl.col("start_ns") + shift_ns,
        call_ns="call_ns",
        queue_ns="queue_ns",
        call_to_start_ns=pl.when(~pl.col("inverted")).then(
            pl.col("start_ns") - pl.col("call_start_ns")
        ),
        execution_ns="dur_ns",
        reason=pairs.reason(),
    )
