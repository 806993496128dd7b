"""`roofline`: each operator's FLOPs and bytes a second against the roofs of its device.

Time is that of the activities that start in the window, whole, so that time and work belong
together: an operator's own (those it launched itself; its own segments under host execution) and
those of what it calls, as far as that has no model of its own. Ratio to the roof = achieved
FLOP/s / min(peak, bandwidth x FLOPs per byte) (Williams, Waterman, Patterson, CACM 52(4), 2009).
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import intervals
from workbench.analysis.window import Selection, select, spans
from workbench.costs import attention, matmul, models, precision, shapes
from workbench.costs.roofs import Held, Roofs, choose, hold, unheld
from workbench.trace.schema import ACTIVITY_KINDS, COPY_KINDS

if TYPE_CHECKING:
    from workbench.costs.ceilings import Ceilings
    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Source, Trace

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
    "attainable_flops_per_s": pl.Float64(),
    "ratio_to_roof": pl.Float64(),
    "ratio_to_memory_roof": pl.Float64(),
    "roof_source": pl.String(),
    "reason": pl.String(),
}
"""`bound` is compute or memory; `kind` matmul, attention, communication, copy or other; `calls` is
null for work that no operator is linked to; `reason` says why a ratio is null."""
COVERAGE: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "device_ns": pl.Int64(),
    "linked_ns": pl.Int64(),
    "linked_pct": pl.Float64(),
    "shaped_ns": pl.Int64(),
    "modelled_ns": pl.Int64(),
    "coverage_pct": pl.Float64(),
}
_OWNER = [
    "owner",
    "operator",
    "input_dims",
    "input_types",
    "flops",
    "read_bytes",
    "write_bytes",
    "precision",
    "unit",
]
_ROW = ["operator", "kind", "shapes", "precision", "unit", "call_flops", "call_bytes", "reason"]


def roofline(
    source: Source,
    *,
    ceilings: Ceilings | None = None,
    hardware: Hardware | None = None,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, operator, shapes), longest first; see `COLUMNS`.

    Parameters
    ----------
    ceilings
        Measured roofs; used where the device's name is that of the measured one.
    hardware
        A data sheet to hold against in place of the recorded device's own.

    Shares add up to the busy time of a device where nothing overlaps. Roofs that are not known
    leave the ratio null, with the reason; so do operators without a FLOP model.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device)
    parts = [_device(s, choose(s.trace.meta, s.device, ceilings, hardware)) for s in chosen]
    empty = pl.DataFrame(schema=COLUMNS)
    return pl.concat([empty, *parts]).sort("time_ns", descending=True, maintain_order=True)


def coverage(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return, for each (rank, device), how much of the time the FLOP and byte models speak for.

    coverage_pct = modelled time / time of kernels linked to an operator with recorded shapes
    (collectives with known bytes count in both); linked_pct = linked time / device time. Times are
    unions over the activities that start in the window; a percentage of nothing is null.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device)
    return pl.DataFrame([_covered(s) for s in chosen], schema=COVERAGE)


def _covered(chosen: Selection) -> dict[str, object]:
    work = _work(chosen)
    is_kernel = ~pl.col("kind").is_in(COPY_KINDS)
    known_bytes = pl.col("message_bytes").is_not_null()
    modelled = is_kernel & (pl.col("flops").is_not_null() | known_bytes)
    shaped = is_kernel & (pl.col("input_dims").is_not_null() | known_bytes)
    device_ns = _union_ns(work)
    linked_ns = _union_ns(work.filter(pl.col("owner").is_not_null()))
    shaped_ns = _union_ns(work.filter(shaped | modelled))
    modelled_ns = _union_ns(work.filter(modelled))
    return {
        "rank": chosen.rank,
        "device": chosen.device,
        "device_ns": device_ns,
        "linked_ns": linked_ns,
        "linked_pct": 100 * linked_ns / device_ns if device_ns else None,
        "shaped_ns": shaped_ns,
        "modelled_ns": modelled_ns,
        "coverage_pct": 100 * modelled_ns / shaped_ns if shaped_ns else None,
    }


def _union_ns(frame: pl.DataFrame) -> int:
    return intervals.length(intervals.union(*spans(frame)))


def _work(chosen: Selection) -> pl.DataFrame:
    """Return the activities that count, each with the operator that owns it and its cost."""
    trace, counted = chosen.trace, chosen.counted()
    costs = models.operators(trace)
    owner = models.owners(trace.ops["parent"], costs["op"], counted["op"])
    names = ["name", "input_dims", "input_types"]
    ops = trace.ops.select(pl.col("id").alias("owner"), *names).rename({"name": "operator"})
    sent = trace.collectives.select("activity", pl.col("bytes").alias("message_bytes"))
    return (
        counted.select("id", "kind", "name", "start_ns", "dur_ns")
        .with_columns(owner)
        .join(ops, on="owner", how="left", maintain_order="left")
        .join(costs.rename({"op": "owner"}), on="owner", how="left", maintain_order="left")
        .join(
            sent.drop_nulls().unique("activity"),
            left_on="id",
            right_on="activity",
            how="left",
            maintain_order="left",
        )
    )


def _device(chosen: Selection, roofs: Roofs | str) -> pl.DataFrame:
    work = _work(chosen)
    calls = _explained(_labelled(_calls(work, roofs, is_host=chosen.is_host)), chosen.trace)
    rows = _rows(calls, _union_ns(work))
    bounds = [asdict(_held(row, roofs)) for row in rows.iter_rows(named=True)]
    held = pl.DataFrame(bounds, schema={f.name: COLUMNS[f.name] for f in fields(Held)})
    place = pl.lit(chosen.rank).alias("rank"), pl.lit(chosen.device).alias("device")
    whole = rows.drop("reason").with_columns(*place).hstack(held)
    return whole.select(pl.col(n).cast(t) for n, t in COLUMNS.items())


def _calls(work: pl.DataFrame, roofs: Roofs | str, *, is_host: bool) -> pl.DataFrame:
    """Return a row for each owning operator, with the union of its activities' time.

    Work without an operator is one row for each kind of activity.
    """
    alone = pl.col("kind").to_physical().cast(pl.Int64) - len(ACTIVITY_KINDS)
    key = pl.when(pl.col("owner").is_null()).then(alone).otherwise(pl.col("owner").cast(pl.Int64))
    keyed = work.with_columns((key.rank("dense").cast(pl.Int64) - 1).alias("group"))
    calls = keyed.group_by("group").agg(
        *(pl.col(c).first() for c in _OWNER),
        pl.len().alias("activities"),
        pl.col("message_bytes").sum().alias("message_bytes"),
        (pl.col("kind") == "collective").any().alias("talks"),
        pl.col("kind").is_in(COPY_KINDS).all().alias("copies"),
    )
    groups = keyed["group"].to_numpy()
    time = intervals.grouped_length(groups, *spans(keyed), calls.height)
    calls = calls.sort("group").with_columns(pl.Series("time_ns", time), _kind())
    has_tf32 = not is_host and not isinstance(roofs, str) and roofs.peak("tf32", "matrix")
    return _with_tf32(calls, keyed) if has_tf32 else calls


def _with_tf32(calls: pl.DataFrame, keyed: pl.DataFrame) -> pl.DataFrame:
    """Tell TF32 from fp32 by the names of the kernels, where they tell."""
    in_doubt = keyed.filter((pl.col("precision") == "fp32") & (pl.col("unit") == "matrix"))
    name = pl.col("name").cast(pl.String)
    told = in_doubt.group_by("group").agg(
        name.str.contains(precision.TF32_NAME).any().alias("tf32"),
        name.str.contains(precision.FP32_NAME).any().alias("fp32"),
    )
    found = precision.resolved(pl.col("tf32"), pl.col("fp32"))
    calls = calls.join(told, on="group", how="left", maintain_order="left")
    return calls.with_columns(
        pl.when(pl.col("tf32").is_null()).then("precision").otherwise(found).alias("precision")
    )


def _kind() -> pl.Expr:
    name = pl.col("operator").cast(pl.String).str.strip_suffix("_")
    return (
        pl.when(name.is_in(list(matmul.MODELS)))
        .then(pl.lit("matmul"))
        .when(name.is_in(list(attention.MODELS)))
        .then(pl.lit("attention"))
        .when("talks")
        .then(pl.lit("communication"))
        .when("copies")
        .then(pl.lit("copy"))
        .otherwise(pl.lit("other"))
        .alias("kind")
    )


def _labelled(calls: pl.DataFrame) -> pl.DataFrame:
    """Add the text of the shapes, written once for each distinct call."""
    calls = calls.with_columns(pl.col("operator").cast(pl.String))
    keys = calls.select("input_dims", "input_types").unique(maintain_order=True)
    texts = [_label(dims, types) for dims, types in keys.iter_rows()]
    keys = keys.with_columns(pl.Series("shapes", texts, dtype=pl.String))
    return calls.join(
        keys, on=["input_dims", "input_types"], nulls_equal=True, how="left", maintain_order="left"
    )


def _label(dims: str | None, types: str | None) -> str | None:
    try:
        return shapes.label(shapes.parse(dims, types))
    except shapes.ShapeError:
        return None


def _explained(calls: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Add why an operator has no FLOPs; null for those that have."""
    priced = models.prices(trace).drop_nulls("reason")
    failed = priced.select(pl.col("op").alias("owner"), pl.col("reason").alias("failed"))
    calls = calls.join(failed, on="owner", how="left", maintain_order="left")
    modelled = [n for n in calls["operator"].unique().drop_nulls() if models.model_of(n)]
    reason = (
        pl.when(pl.col("flops").is_not_null())
        .then(None)
        .when(pl.col("owner").is_null())
        .then(pl.lit("no operator is linked to it"))
        .when(pl.col("kind") == "communication")
        .then(pl.lit("communication is held against links, not memory"))
        .when(pl.col("failed").is_not_null())
        .then(pl.col("failed"))
        .when(pl.col("operator").is_in(modelled))
        .then(pl.lit("its work is counted in an operator that it calls"))
        .otherwise(pl.lit("no FLOP model"))
    )
    return calls.with_columns(reason.alias("reason"))


def _rows(calls: pl.DataFrame, device_ns: int) -> pl.DataFrame:
    """Merge calls of the same operator, shapes and cost."""
    moved = pl.col("read_bytes") + pl.col("write_bytes")
    talks = pl.col("kind") == "communication"
    sent = pl.when(talks & (pl.col("message_bytes") > 0)).then("message_bytes")
    calls = calls.with_columns(
        pl.col("flops").alias("call_flops"),
        pl.when(talks).then(sent).otherwise(moved).alias("call_bytes"),
    )
    rows = calls.group_by(_ROW, maintain_order=True).agg(
        pl.col("owner").count().cast(pl.Int64).alias("calls"),
        pl.col("activities").sum(),
        pl.col("time_ns").sum(),
    )
    calls_or_null = pl.when(pl.col("operator").is_not_null()).then("calls")
    seconds = pl.when(pl.col("time_ns") > 0).then(pl.col("time_ns") / 1e9)
    times = pl.max_horizontal("calls", 1).cast(pl.Float64)
    return rows.with_columns(
        calls_or_null.alias("calls"),
        (pl.col("time_ns") / pl.lit(device_ns or None, pl.Float64)).alias("share_of_device_time"),
        _total("call_flops", times).alias("flops"),
        _total("call_bytes", times).alias("bytes"),
        (pl.col("call_flops") / pl.when(pl.col("call_bytes") > 0).then("call_bytes")).alias(
            "flops_per_byte"
        ),
        (pl.col("call_flops") * times / seconds).alias("achieved_flops_per_s"),
        (pl.col("call_bytes") * times / seconds).alias("achieved_bytes_per_s"),
    )


def _total(column: str, times: pl.Expr) -> pl.Expr:
    """Return count x calls, null where it does not fit 64 bits."""
    fits = pl.col(column) * times < float(models.MAX_COUNT)
    return pl.when(fits).then(pl.col(column) * times.cast(pl.Int64))


def _held(row: dict[str, Any], roofs: Roofs | str) -> Held:
    if isinstance(roofs, str) or row["reason"] is not None:
        return unheld(roofs, row["reason"])
    return hold(
        roofs,
        precision=row["precision"],
        unit=row["unit"],
        call_flops=row["call_flops"],
        call_bytes=row["call_bytes"],
        flops_per_s=row["achieved_flops_per_s"],
    )
