"""`counter_roofline`: counted kernels against the roof of each memory level that they went through.

One point a level: the same FLOPs over the bytes that the level moved (the hierarchical roofline of
Yang, Kurth, Williams, Concurrency and Computation 32(20), 2020). A kernel whose points lie far
apart reuses its data in the caches between them; where they fall together, nothing is reused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.analysis import counters as found
from workbench.analysis.counted_launches import devices_of
from workbench.costs import counted

if TYPE_CHECKING:
    from workbench.costs.counted import Ceiling
    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Source, Trace

NEEDS = ("counters",)
beside = found.beside
_TAKEN = (
    "rank", "device", "kernel", "blocks", "threads_per_block", "operator", "shapes", "launches",
    "time_ns", "time_source", "precision", "unit", "flops",
)  # fmt: skip
SCHEMA = pl.Schema(
    {n: found.SCHEMA[n] for n in _TAKEN[:8]}
    | {"level": pl.String()}
    | {n: found.SCHEMA[n] for n in _TAKEN[8:]}
    | {
        "bytes": pl.Int64(),
        "flops_per_byte": pl.Float64(),
        "share_of_time": pl.Float64(),
        "achieved_flops_per_s": pl.Float64(),
        "achieved_bytes_per_s": pl.Float64(),
        "peak_flops_per_s": pl.Float64(),
        "level_bytes_per_s": pl.Float64(),
        "bound": pl.String(),
        "ratio_to_roof": pl.Float64(),
        "roof_source": pl.String(),
        "reason": pl.String(),
    }
)
"""`level` is l1, l2 or memory; `bound` compute or memory: which of the two takes longer."""


def counter_roofline(
    source: Source,
    *,
    counters: Trace | None = None,
    hardware: Hardware | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return a row for each row of `counters` and memory level, longest first.

    Parameters
    ----------
    counters
        A file of counters, opened, to lay beside a recording. Without it, the source's own.
    hardware
        A data sheet to hold against in place of the recorded device's own.

    roof_ns = max(FLOPs / peak, bytes / bandwidth of the level), ratio_to_roof = roof_ns / time_ns.
    Roofs are those that rocprofiler-compute's benchmark reached (all levels) or the data sheet's
    (main memory alone); an unknown one leaves the ratio null, with the reason. Peaks are those of
    the type and unit with the most FLOPs; work without FLOPs is held against the bandwidth alone.
    """
    rows = found.counters(source, counters=counters, rank=rank, device=device)
    parts = [
        _of_device(part, _ceiling(source, counters, number, hardware))
        for (number,), part in rows.group_by("device", maintain_order=True)
    ]
    whole = pl.concat([pl.DataFrame(schema=SCHEMA), *parts])
    return whole.sort("time_ns", descending=True, nulls_last=True, maintain_order=True)


def _ceiling(
    source: Source, counters: Trace | None, device: Any, hardware: Hardware | None
) -> Ceiling | str:
    return counted.ceiling(devices_of(source, counters, device), hardware)


def _of_device(rows: pl.DataFrame, roofs: Ceiling | str) -> pl.DataFrame:
    whole = rows["time_ns"].sum() or None
    levels = [
        rows.select(
            *_TAKEN,
            pl.lit(level).alias("level"),
            pl.col(f"{level}_bytes").alias("bytes"),
            pl.col(f"{level}_flops_per_byte").alias("flops_per_byte"),
            "achieved_flops_per_s",
            (pl.col("time_ns") / pl.lit(whole, pl.Float64)).alias("share_of_time"),
        )
        for level in counted.LEVELS
    ]
    points = _with_roofs(pl.concat(levels), roofs)
    seconds = pl.when(pl.col("time_ns") > 0).then(pl.col("time_ns") / 1e9)
    by_compute = pl.col("flops") / pl.col("peak_flops_per_s")
    by_memory = pl.col("bytes") / pl.col("level_bytes_per_s")
    idle = pl.col("flops") == 0
    roof = (
        pl.when(idle)
        .then(by_memory)
        .otherwise(
            pl.when(by_compute.is_not_null() & by_memory.is_not_null()).then(
                pl.max_horizontal(by_compute, by_memory)
            )
        )
    )
    bound = pl.when(idle | (by_memory > by_compute)).then(pl.lit("memory"))
    return (
        points.with_columns(
            (pl.col("bytes") / seconds).alias("achieved_bytes_per_s"),
            pl.when(roof.is_not_null()).then(bound.otherwise(pl.lit("compute"))).alias("bound"),
            (roof / seconds).alias("ratio_to_roof"),
        )
        .with_columns(_reason(roofs).alias("reason"))
        .select(pl.col(n).cast(t) for n, t in SCHEMA.items())
    )


def _with_roofs(points: pl.DataFrame, roofs: Ceiling | str) -> pl.DataFrame:
    if isinstance(roofs, str):
        unknown = ("peak_flops_per_s", "level_bytes_per_s")
        nothing = [pl.lit(None, pl.Float64).alias(n) for n in unknown]
        return points.with_columns(*nothing, pl.lit(None, pl.String).alias("roof_source"))
    kinds = points.select("precision", "unit").unique().drop_nulls()
    peaks = [roofs.peak(*kind) for kind in kinds.iter_rows()]
    kinds = kinds.with_columns(pl.Series("peak_flops_per_s", peaks, dtype=pl.Float64))
    return points.join(
        kinds, on=["precision", "unit"], how="left", maintain_order="left"
    ).with_columns(
        pl.col("level")
        .replace_strict(dict(roofs.bytes_per_s), default=None, return_dtype=pl.Float64)
        .alias("level_bytes_per_s"),
        pl.lit(roofs.source).alias("roof_source"),
    )


def _reason(roofs: Ceiling | str) -> pl.Expr:
    where = roofs if isinstance(roofs, str) else roofs.source
    no_roof = (
        pl.lit(where)
        if isinstance(roofs, str)
        else (
            pl.when(pl.col("level_bytes_per_s").is_null())
            .then(pl.format("no bandwidth of {} in {}", "level", pl.lit(where)))
            .when(pl.col("peak_flops_per_s").is_null() & (pl.col("flops") > 0))
            .then(pl.format("no peak of {} ({}) in {}", "precision", "unit", pl.lit(where)))
        )
    )
    return (
        pl.when(pl.col("ratio_to_roof").is_not_null())
        .then(None)
        .when(pl.col("time_ns").is_null())
        .then(pl.lit("no duration"))
        .when(pl.col("flops").is_null())
        .then(pl.lit("FLOPs not collected"))
        .when(pl.col("bytes").is_null())
        .then(pl.format("bytes of {} not collected", "level"))
        .otherwise(no_roof)
    )
