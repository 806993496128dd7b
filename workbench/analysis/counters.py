"""`counters`: what hardware counters measured of each kernel, beside what its operator had to do.

FLOPs by type and bytes by memory level come from the counters (`workbench.costs.counted`), the
model from the operator that launched the kernel in a recording of the same program. Counters are
collected kernel by kernel, at a clock and with caches that the tool sets: Nsight Compute empties
the caches before each kernel unless told otherwise (`--cache-control none`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.analysis.counted_launches import WHOSE, collected
from workbench.analysis.counter_words import explained
from workbench.costs import counted
from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.trace.core import Source, Trace

NEEDS = ("counters",)
BY = ("kernel", "operator")
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4")
_PLACE: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "kernel": pl.String(),
    "blocks": pl.Int64(),
    "threads_per_block": pl.Int64(),
}
_DID: dict[str, pl.DataType] = {
    "launches": pl.Int64(),
    "time_ns": pl.Int64(),
    "time_source": pl.String(),
    "flops": pl.Int64(),
    "precision": pl.String(),
    "unit": pl.String(),
    **{f"{p}_flops": pl.Int64() for p in PRECISIONS},
    "matrix_flops": pl.Int64(),
    "memory_read_bytes": pl.Int64(),
    "memory_write_bytes": pl.Int64(),
    "memory_bytes": pl.Int64(),
    "l2_bytes": pl.Int64(),
    "l1_bytes": pl.Int64(),
    "memory_flops_per_byte": pl.Float64(),
    "l2_flops_per_byte": pl.Float64(),
    "l1_flops_per_byte": pl.Float64(),
    "achieved_flops_per_s": pl.Float64(),
    "achieved_bytes_per_s": pl.Float64(),
}
_MODEL: dict[str, pl.DataType] = {
    "model_flops": pl.Int64(),
    "model_bytes": pl.Int64(),
    "flops_ratio": pl.Float64(),
    "bytes_ratio": pl.Float64(),
    "difference": pl.String(),
    "reason": pl.String(),
}
SCHEMA = pl.Schema(_PLACE | WHOSE | _DID | _MODEL)
"""`time_source`: counters, or recording where the counters have no durations. `precision` and
`unit` are those with the most FLOPs; ratios are counted / modelled; `difference` says in words
where the two disagree, and `reason` what is not known."""
MATCHES: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "launches": pl.Int64(),
    "matched": pl.Int64(),
    "kernels": pl.Int64(),
    "unmatched_names": pl.String(),
}
_NAMED = 3


def counters(
    source: Source,
    *,
    counters: Trace | None = None,
    by: str = "kernel",
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, kernel, sizes, operator, shapes), longest first.

    Parameters
    ----------
    counters
        A file of counters, opened, to lay beside a recording. Without it, the source's own.
    by
        `kernel`; `operator` lays all kernels that an operator launched together, and holds their
        sum against its model. By kernel, an operator's model stands beside its kernel only where
        it launched one.

    FLOPs and bytes are sums over the launches. An intensity is FLOPs / bytes at that level, rates
    are sums over `time_ns`; ratios counted / modelled. Launches that match no kernel of the
    recording have no operator, and `reason` says so.

    Raises
    ------
    UsageError
        An unknown `by`, or rank or device; a recording of several ranks without the choice of one.
    """
    if by not in BY:
        raise UsageError(f"by is {by!r}; choose kernel or operator.")
    parts = [_rows(work, by) for work in collected(source, counters, rank=rank, device=device)]
    whole = pl.concat([pl.DataFrame(schema=SCHEMA), *parts])
    return whole.sort("time_ns", descending=True, nulls_last=True, maintain_order=True)


def matches(
    source: Source,
    *,
    counters: Trace | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return how many counted launches were found among the kernels of a recording.

    `kernels` counts those of the recording, `unmatched_names` the first kernels without a match.
    """
    rows = []
    for work in collected(source, counters, rank=rank, device=device):
        lost = work.filter(pl.col("recorded").is_null())["name"].unique(maintain_order=True)
        rows.append(
            {
                "rank": work["rank"].first(),
                "device": work["device"].first(),
                "launches": work.height,
                "matched": work["recorded"].count(),
                "kernels": work["kernels"].first(),
                "unmatched_names": "; ".join(lost.head(_NAMED)) or None,
            }
        )
    return pl.DataFrame(rows if counters is not None else [], schema=MATCHES)


def beside(
    source: Source, *, counters: Trace | None = None, by: str = "kernel", **place: int | None
) -> dict[str, object]:
    """Return what stands beside the rows: how many launches were found in the recording."""
    del by  # the launches are the same, however they are put together
    if counters is None:
        return {}
    found = matches(source, counters=counters, rank=place.get("rank"), device=place.get("device"))
    return {"matches": found.to_dicts()}


def _rows(work: pl.DataFrame, by: str) -> pl.DataFrame:
    units = _by_operator(work) if by == "operator" else _by_kernel(work)
    keys = [n for n in (*_PLACE, *WHOSE, "siblings", "untold") if n in units.columns]
    known = [c for c in counted.table().columns if c in units.columns]
    rows = units.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("launches"),
        *(_all(c) for c in (*known, "dur_ns", "recorded_ns", "call_flops", "call_bytes")),
        pl.col("recorded").count().alias("matched"),
        pl.col("kernels").first(),
    )
    rows = explained(_derived(rows))
    return rows.select(
        (pl.col(n).round() if rows[n].dtype == pl.Float64 and t == pl.Int64() else pl.col(n)).cast(
            t, strict=False
        )
        for n, t in SCHEMA.items()
    )


def _all(column: str) -> pl.Expr:
    """Return the sum of a column; null where any launch's value is unknown."""
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum()).alias(column)


def _by_kernel(work: pl.DataFrame) -> pl.DataFrame:
    """Return launches; the model of an operator that launched several kernels is of none."""
    alone = pl.col("siblings").is_null() | (pl.col("siblings") == 1)
    return work.with_columns(
        pl.col("name").alias("kernel"),
        pl.when(alone).then("call_flops").alias("call_flops"),
        pl.when(alone).then("call_bytes").alias("call_bytes"),
        pl.when(~alone).then("siblings").fill_null(1).alias("siblings"),
        pl.lit(0, pl.UInt32).alias("untold"),
    )


def _by_operator(work: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each call of an operator, its kernels together; launches of none alone."""
    known = counted.table().columns
    key = pl.when(pl.col("owner").is_null()).then(-1 - pl.int_range(pl.len())).otherwise("owner")
    first = ("rank", "device", "recorded", "kernels", *WHOSE, "siblings", "call_flops",
             "call_bytes")  # fmt: skip
    return (
        work.with_columns(key.cast(pl.Int64).alias("call"))
        .group_by("call", maintain_order=True)
        .agg(
            *(pl.col(n).first() for n in first),
            pl.col("name").str.join(" + ").alias("kernel"),
            *(pl.when(pl.len() == 1).then(pl.col(n).first()).alias(n)
              for n in ("blocks", "threads_per_block")),
            *(_all(n) for n in (*known, "dur_ns", "recorded_ns")),
            (pl.col("siblings").first().fill_null(1) - pl.len()).alias("untold"),
        )
        .with_columns(pl.lit(1, pl.UInt32).alias("siblings"))
    )  # fmt: skip


def _derived(rows: pl.DataFrame) -> pl.DataFrame:
    """Add totals, the leading type, time, intensities, rates and ratios."""
    classes = [q.column for q in counted.table().flops]
    most = pl.max_horizontal(classes)
    leading = pl.coalesce(
        *(pl.when((pl.col(c) == most) & (most > 0)).then(pl.lit(c)) for c in classes),
        pl.lit(None, pl.String),
    )
    rows = rows.with_columns(
        _of(classes).alias("flops"),
        leading.alias("leading"),
        pl.coalesce("dur_ns", "recorded_ns").alias("time_ns"),
        pl.when(pl.col("dur_ns").is_not_null())
        .then(pl.lit("counters"))
        .when(pl.col("recorded_ns").is_not_null())
        .then(pl.lit("recording"))
        .alias("time_source"),
        *(_of([c for c in classes if c.startswith(f"{p}_")]).alias(f"{p}_flops")
          for p in PRECISIONS),
        _of([c for c in classes if "_matrix_" in c]).alias("matrix_flops"),
    )  # fmt: skip
    seconds = pl.when(pl.col("time_ns") > 0).then(pl.col("time_ns") / 1e9)
    split = pl.col("leading").str.split("_")
    return rows.with_columns(
        split.list.get(0, null_on_oob=True).alias("precision"),
        split.list.get(1, null_on_oob=True).alias("unit"),
        *(_ratio("flops", f"{v}_bytes", f"{v}_flops_per_byte") for v in counted.LEVELS),
        (pl.col("flops") / seconds).alias("achieved_flops_per_s"),
        (pl.col("memory_bytes") / seconds).alias("achieved_bytes_per_s"),
        pl.col("call_flops").alias("model_flops"),
        pl.col("call_bytes").alias("model_bytes"),
        _ratio("flops", "call_flops", "flops_ratio"),
        _ratio("memory_bytes", "call_bytes", "bytes_ratio"),
    )


def _of(classes: list[str]) -> pl.Expr:
    """Return the sum of those types that were collected; null when none of them was."""
    known = pl.any_horizontal(pl.col(c).is_not_null() for c in classes)
    return pl.when(known).then(pl.sum_horizontal(classes))


def _ratio(above: str, below: str, name: str) -> pl.Expr:
    return (pl.col(above) / pl.when(pl.col(below) > 0).then(below)).alias(name)
