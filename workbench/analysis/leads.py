"""`leads`: what of a step is not compute at its roof, most time first, with the longest instance.

What to look at first, as far as the recording says: times are upper bounds of what could be won.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.analysis.idle import idle
from workbench.analysis.only import Only, narrowed
from workbench.analysis.overlap import exposed
from workbench.analysis.recoverable import recoverable
from workbench.analysis.waterfall import waterfall_mean
from workbench.analysis.window import Range, Selection, select
from workbench.trace import schema
from workbench.trace.schema import COPY_KINDS

if TYPE_CHECKING:
    from workbench.costs.ceilings import Ceilings
    from workbench.trace.core import Source

NEEDS = ("activity", "steps")
ABOVE_ROOF = "above_roof"
SCHEMA: dict[str, Any] = {
    "lead": pl.String(),
    "time_ns": pl.Float64(),
    "share": pl.Float64(),
    "name": pl.String(),
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "activity": schema.ID,
}
_FOUND = list(SCHEMA)[3:]
"""Columns that tell the longest instance."""


def leads(
    source: Source,
    *,
    ceilings: Ceilings | None = None,
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each part of the mean step but compute, and for compute above its roof.

    `lead` is exposed_communication, exposed_copy, a cause of idle time (`idle_causes`), or
    above_roof. `time_ns` is its mean over the complete steps and devices (`waterfall_mean`), and
    `share` = that / the mean step. For above_roof it is the sum of recoverable_ns (`recoverable`) /
    steps of all devices: it lies within compute, all others beside it, so these alone may be added.

    The other columns tell the longest instance, with its `activity`: the stretch of exposed
    communication (what fills most of it), the copy, the gap (what ends it, null at the end of the
    window; `name` is what the host was in, where that is known), or the longest activity of the
    operator that is most above its roof (`name`).
    """
    options: dict[str, Any] = {"step": step, "rank": rank, "device": device, "within": within}
    mean = waterfall_mean(source, **options)
    if mean.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    places = mean.select("rank", "device").n_unique()
    whole = float(mean["mean_ns"].sum()) / places
    parts = mean.filter(pl.col("part").cast(pl.String) != "compute")
    named = pl.coalesce("cause", pl.col("part").cast(pl.String)).alias("lead")
    found = parts.group_by(named).agg(time_ns=pl.col("mean_ns").sum() / places)
    found = found.filter(pl.col("time_ns") > 0)
    instances = pl.concat(
        [_exposed(source, options), _copies(source, options), _gaps(source, options)]
    )
    found = found.join(instances, on="lead", how="left")
    found = pl.concat([found, _above(source, ceilings, options)], how="diagonal_relaxed")
    found = found.with_columns(share=pl.col("time_ns") / whole)
    found = found.sort("time_ns", "lead", descending=[True, False])
    return found.select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _instances(frame: pl.DataFrame) -> pl.DataFrame:
    types = {"lead": pl.String(), **{n: SCHEMA[n] for n in _FOUND}}
    return frame.select(pl.col(n).cast(t) for n, t in types.items())


def _exposed(source: Source, options: dict[str, Any]) -> pl.DataFrame:
    """Return the longest stretch of exposed communication."""
    longest = exposed(source, **options).head(1)
    return _instances(longest.with_columns(lead=pl.lit("exposed_communication"), name="collective"))


def _copies(source: Source, options: dict[str, Any]) -> pl.DataFrame:
    """Return the longest copy; how much of it others hide is not looked at."""
    every = [_longest(s, COPY_KINDS, source.origin_ns) for s in select(source, **options)]
    return _best("exposed_copy", every)


def _gaps(source: Source, options: dict[str, Any]) -> pl.DataFrame:
    """Return the longest gap of each cause."""
    first = idle(source, **options).unique("cause", keep="first", maintain_order=True)
    name = pl.coalesce("blocked_by", "ended_by")
    return _instances(first.with_columns(lead="cause", name=name))


def _above(source: Source, ceilings: Ceilings | None, options: dict[str, Any]) -> pl.DataFrame:
    """Return compute above its roof, with the longest activity of the operator that has most."""
    rows = recoverable(source, ceilings=ceilings, **options).drop_nulls("recoverable_ns")
    chosen = select(source, **options)
    steps = sum(len(s.steps or ()) for s in chosen)
    if not rows["recoverable_ns"].sum() or not steps:
        return pl.DataFrame(schema={"lead": pl.String(), "time_ns": pl.Float64()})
    best = rows.row(0, named=True)
    point = ("operator", best["operator"], best["shapes"])
    mine = narrowed(chosen, Only(point=point, rank=best["rank"]))
    found = _best(ABOVE_ROOF, [_longest(s, (), source.origin_ns) for s in mine])
    time_ns = float(rows["recoverable_ns"].sum()) / steps
    return found.with_columns(time_ns=pl.lit(time_ns), name=pl.lit(best["operator"]))


def _longest(chosen: Selection, kinds: tuple[str, ...], origin_ns: int) -> pl.DataFrame:
    """Return the longest activity of some kinds, or of any, that starts in the window."""
    counted = chosen.counted()
    if kinds:
        counted = counted.filter(pl.col("kind").is_in(kinds))
    shift = chosen.trace.meta.origin_ns - origin_ns
    return counted.top_k(1, by="dur_ns").select(
        "step",
        "dur_ns",
        name=pl.col("name").cast(pl.String),
        rank=pl.lit(chosen.rank, pl.Int32()),
        device=pl.lit(chosen.device, pl.Int32()),
        start_ns=pl.col("start_ns") + shift,
        activity="id",
    )


def _best(lead: str, found: list[pl.DataFrame]) -> pl.DataFrame:
    each = pl.concat(
        [pl.DataFrame(schema={n: SCHEMA[n] for n in _FOUND}), *found], how="diagonal_relaxed"
    )
    return _instances(each.sort("dur_ns", descending=True).head(1).with_columns(lead=pl.lit(lead)))
