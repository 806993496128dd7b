"""`roofline`: each operator's FLOPs and bytes a second against the roofs of its device.

Time is that of the activities that start in the window, whole, so that time and work belong
together: an operator's own (those it launched itself; its own segments under host execution) and
those of what it calls, as far as that has no model of its own. The shortest time that the roofs
allow is max(FLOPs / peak, bytes / bandwidth), and the ratio to the roof is that time / the time it
took (Williams, Waterman, Patterson, CACM 52(4), 2009).
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.analysis import columns, work
from workbench.analysis.coverage import coverage
from workbench.analysis.only import POINTS, Only, mask
from workbench.analysis.window import Range, Selection, select
from workbench.costs import cost, models
from workbench.costs.roofs import Held, Roofs, choose, hold, unheld

if TYPE_CHECKING:
    from workbench.costs.ceilings import Ceilings
    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Source

COLUMNS: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "operator": pl.String(),
    "kind": pl.String(),
    "shapes": pl.String(),
    "precision": pl.String(),
    "unit": pl.String(),
    "calls": pl.Int64(),
    "activities": pl.Int64(),
    "time_ns": pl.Int64(),
    "share_of_device_time": pl.Float64(),
    "flops": pl.Int64(),
    "bytes": pl.Int64(),
    "flops_per_byte": pl.Float64(),
    "achieved_flops_per_s": pl.Float64(),
    "achieved_bytes_per_s": pl.Float64(),
    "peak_flops_per_s": pl.Float64(),
    "memory_level": pl.String(),
    "level_bytes_per_s": pl.Float64(),
    "memory_bytes_per_s": pl.Float64(),
    "bound": pl.String(),
    "roof_ns": pl.Int64(),
    "above_roof_ns": pl.Int64(),
    "attainable_flops_per_s": pl.Float64(),
    "ratio_to_roof": pl.Float64(),
    "ratio_to_memory_roof": pl.Float64(),
    "roof_source": pl.String(),
    "reason": pl.String(),
}
"""`kind` is the family of the cost model, communication, copy or other; `bound` compute or memory;
`calls` is null for work that no operator is linked to; `reason` says why a ratio is null."""
GROUPS = {by: column for by, column in POINTS.items() if by != "operator"}
BY = tuple(POINTS)
GROUPED: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "group": pl.String(),
    "kind": pl.String(),
    "calls": pl.Int64(),
    "activities": pl.Int64(),
    "time_ns": pl.Int64(),
    "share_of_device_time": pl.Float64(),
    "flops": pl.Int64(),
    "bytes": pl.Int64(),
    "flops_per_byte": pl.Float64(),
    "achieved_flops_per_s": pl.Float64(),
    "achieved_bytes_per_s": pl.Float64(),
    "precision": pl.String(),
    "unit": pl.String(),
    "peak_flops_per_s": pl.Float64(),
    "memory_bytes_per_s": pl.Float64(),
    "held_ns": pl.Int64(),
    "roof_ns": pl.Int64(),
    "above_roof_ns": pl.Int64(),
    "ratio_to_roof": pl.Float64(),
    "roof_source": pl.String(),
    "reason": pl.String(),
}
"""`kind`, `precision`, `unit` and the peak are those of the work that took most of the time."""
_ROW = ["operator", "kind", "shapes", "precision", "unit", "call_flops", "call_bytes", "reason"]


def roofline(
    source: Source,
    *,
    by: str = "operator",
    convention: str = "default",
    ceilings: Ceilings | None = None,
    hardware: Hardware | None = None,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    only: Only | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, operator, shapes), longest first; see `COLUMNS`.

    Parameters
    ----------
    by
        `operator` (with its shapes), or one of `GROUPS`: operator `name`, `kind`, `kernel_family`
        (that of an operator's longest activity), `module`, `phase`, `device` (all in one row); then
        see `GROUPED`. The ratio of a group is time-weighted: the time that its roofs allow /
        `held_ns`, the time of the work that has a ratio; rates are of the work with known FLOPs.
    convention
        How FLOPs are counted: a name of `costs.cost.CONVENTIONS`.
    ceilings
        Measured roofs; used where the device's name is that of the measured one.
    hardware
        A data sheet to hold against in place of the recorded device's own.

    only
        The operators that own some of a part of the work, each with all of its time, so that time
        and work belong together; shares stay those of the device.

    Shares add up to the busy time of a device where nothing overlaps. Roofs that are not known
    leave the ratio null, with the reason; so do operators without a model.
    """
    (by,) = columns.chosen((by,), BY)
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    parts = []
    for part in chosen:
        roofs = choose(part.trace.meta, part.device, ceilings, hardware)
        parts.append(_device(part, roofs, convention, by, only))
    empty = pl.DataFrame(schema=COLUMNS if by == "operator" else GROUPED)
    return pl.concat([empty, *parts]).sort("time_ns", descending=True, maintain_order=True)


def beside(source: Source, *, convention: str = "default", **options: Any) -> dict[str, Any]:
    """Return what stands beside the rows: coverage by device, and how FLOPs were counted."""
    known = ("window", "step", "rank", "device", "within")
    covered = coverage(source, **{n: v for n, v in options.items() if n in known})
    return {"coverage": covered.to_dicts(), "flops": cost.convention(convention).says}


def _device(
    chosen: Selection, roofs: Roofs | str, convention: str, by: str, only: Only | None
) -> pl.DataFrame:
    ran = work.owned(chosen, convention)
    device_ns = work.union_ns(ran)
    if only:
        ran = _concerned(chosen, ran, only)
    calls = work.calls(ran, roofs, is_host=chosen.is_host)
    calls = work.explained(work.labelled(calls)).with_columns(everything=pl.lit("all"))
    key = [] if by == "operator" else [GROUPS[by]]
    rows = _rows(calls, list(dict.fromkeys([*_ROW, *key])))
    bounds = [asdict(_held(row, roofs)) for row in rows.iter_rows(named=True)]
    schema = {
        f.name: pl.Float64() if f.name == "roof_ns" else COLUMNS[f.name] for f in fields(Held)
    }
    held = rows.drop("reason").hstack(pl.DataFrame(bounds, schema=schema))
    held = held.with_columns(
        rank=pl.lit(chosen.rank, pl.Int32),
        device=pl.lit(chosen.device, pl.Int32),
        roof_ns=(pl.col("roof_ns") * pl.max_horizontal("calls", 1)).round(),
    )
    held = held.with_columns(
        above_roof_ns=(pl.col("time_ns") - pl.col("roof_ns")).clip(lower_bound=0)
    )
    if not key:
        return _shared(held, device_ns).select(pl.col(n).cast(t) for n, t in COLUMNS.items())
    grouped = _shared(_grouped(held, key[0]), device_ns)
    return grouped.select(pl.col(n).cast(t) for n, t in GROUPED.items())


def _concerned(chosen: Selection, ran: pl.DataFrame, only: Only) -> pl.DataFrame:
    """Keep all work of the operators that own some of a part, so that time and work still match."""
    mine = ran.filter(mask(chosen.trace, only).gather(ran["id"]))
    owned = pl.col("owner").is_in(mine["owner"].drop_nulls().implode())
    alone = pl.col("owner").is_null() & pl.col("id").is_in(mine["id"].implode())
    return ran.filter(owned.fill_null(value=False) | alone)


def _rows(calls: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Merge calls of the same operator, shapes and cost."""
    talks = pl.col("kind") == "communication"
    sent = pl.when(talks & (pl.col("message_bytes") > 0)).then("message_bytes")
    moved = pl.col("read_bytes") + pl.col("write_bytes")
    calls = calls.with_columns(
        call_flops=pl.when(~talks).then("flops"),
        call_bytes=pl.when(talks).then(sent).otherwise(moved),
    )
    rows = calls.group_by(keys, maintain_order=True).agg(
        pl.col("owner").count().cast(pl.Int64).alias("calls"),
        pl.col("activities").sum(),
        pl.col("time_ns").sum(),
    )
    times = pl.max_horizontal("calls", 1).cast(pl.Float64)
    seconds = pl.when(pl.col("time_ns") > 0).then(pl.col("time_ns") / 1e9)
    return rows.with_columns(
        calls=pl.when(pl.col("operator").is_not_null()).then("calls"),
        flops=_total("call_flops", times),
        bytes=_total("call_bytes", times),
        flops_per_byte=pl.col("call_flops") / pl.when(pl.col("call_bytes") > 0).then("call_bytes"),
        achieved_flops_per_s=pl.col("call_flops") * times / seconds,
        achieved_bytes_per_s=pl.col("call_bytes") * times / seconds,
    )


def _total(column: str, times: pl.Expr) -> pl.Expr:
    """Return count x calls, null where it does not fit 64 bits."""
    fits = pl.col(column) * times < float(models.MAX_COUNT)
    return pl.when(fits).then(pl.col(column) * times.cast(pl.Int64))


def _summed(column: str) -> pl.Expr:
    """Return the sum of counts, null where it does not fit 64 bits."""
    fits = pl.col(column).cast(pl.Float64).sum() < float(models.MAX_COUNT)
    return pl.when(fits).then(pl.col(column).sum())


def _held(row: dict[str, Any], roofs: Roofs | str) -> Held:
    if isinstance(roofs, str) or row["reason"] is not None:
        return unheld(roofs, row["reason"])
    return hold(
        roofs,
        precision=row["precision"],
        unit=row["unit"],
        call_flops=row["call_flops"],
        call_bytes=row["call_bytes"],
        call_ns=row["time_ns"] / max(row["calls"] or 1, 1),
    )


def _shared(rows: pl.DataFrame, device_ns: int) -> pl.DataFrame:
    whole = pl.lit(device_ns or None, pl.Float64)
    return rows.with_columns(share_of_device_time=pl.col("time_ns") / whole)


def _grouped(held: pl.DataFrame, key: str) -> pl.DataFrame:
    """Add up the rows of each group; a rate is the ratio of sums over the rows that know both."""
    time = pl.col("time_ns")
    computes, moves = pl.col("flops").is_not_null(), pl.col("bytes").is_not_null()
    longest = pl.col("kind", "precision", "unit", "peak_flops_per_s").sort_by("time_ns").last()
    summed = held.group_by("rank", "device", pl.col(key).cast(pl.String).alias("group")).agg(
        longest,
        pl.col("calls", "activities", "time_ns", "roof_ns", "above_roof_ns").sum(),
        pl.col("memory_bytes_per_s", "roof_source").first(),
        pl.col("reason").sort_by("time_ns").last(),
        flops=_summed("flops"),
        bytes=_summed("bytes"),
        held_ns=time.filter(pl.col("ratio_to_roof").is_not_null()).sum(),
        both_flops=pl.col("flops").filter(computes & moves).cast(pl.Float64).sum(),
        both_bytes=pl.col("bytes").filter(computes & moves).cast(pl.Float64).sum(),
        computing_s=time.filter(computes).sum() / 1e9,
        moving_s=time.filter(moves).sum() / 1e9,
    )
    return summed.with_columns(
        flops=_known("flops", "computing_s"),
        bytes=_known("bytes", "moving_s"),
        roof_ns=_known("roof_ns", "held_ns"),
        above_roof_ns=_known("above_roof_ns", "held_ns"),
        flops_per_byte=pl.col("both_flops") / pl.when(pl.col("both_bytes") > 0).then("both_bytes"),
        achieved_flops_per_s=pl.col("flops")
        / pl.when(pl.col("computing_s") > 0).then("computing_s"),
        achieved_bytes_per_s=pl.col("bytes") / pl.when(pl.col("moving_s") > 0).then("moving_s"),
        ratio_to_roof=_known("roof_ns", "held_ns") / pl.col("held_ns"),
        reason=pl.when(pl.col("held_ns") == 0).then("reason"),
    )


def _known(column: str, time: str) -> pl.Expr:
    """Return a sum, null where no row that has time knows it."""
    return pl.when(pl.col(time) > 0).then(column)
