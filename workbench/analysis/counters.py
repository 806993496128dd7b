"""`counters`: what hardware counters measured of each kernel, beside what its operator had to do.

FLOPs by type and bytes by memory level come from the counters (`workbench.costs.counted`), the
model from the operator that launched the kernel in a recording of the same program. Counters are
collected kernel by kernel, at a clock and with caches that the tool sets: Nsight Compute empties
the caches before each kernel unless told otherwise (`--cache-control none`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.analysis import launch_match
from workbench.analysis.counter_words import explained
from workbench.analysis.window import check
from workbench.costs import counted, models, shapes
from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Device, Source, Trace

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
_WHOSE: dict[str, pl.DataType] = {
    "operator": pl.String(),
    "shapes": pl.String(),
    "model": pl.String(),
    "model_precision": pl.String(),
    "model_unit": pl.String(),
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
SCHEMA = pl.Schema(_PLACE | _WHOSE | _DID | _MODEL)
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


def collected(
    source: Source, counters: Trace | None, *, rank: int | None, device: int | None
) -> list[pl.DataFrame]:
    """Return the counted launches of each device, with what a recording knows of them.

    Columns: those of `counted.measured`; `rank device name blocks threads_per_block dur_ns`;
    `recorded` (row in the recording's activities), `recorded_ns`, `kernels`; `owner operator shapes
    model model_precision model_unit call_flops call_bytes siblings` of the operator that owns it.
    """
    check(source, rank=rank, device=device)
    chosen = [t for t in source.ranks if rank is None or t.meta.rank == rank]
    if counters is None:
        found = [(t, _launches(t)) for t in chosen if t.kernel_counters.height]
        parts = [
            _unrecorded(part, t.meta.rank)
            for t, launches in found
            for (number,), part in launches.group_by("device", maintain_order=True)
            if device is None or number == device
        ]
        return parts
    if len(chosen) > 1:
        raise UsageError(
            "The counters are of one process, and the recording has several ranks; choose one "
            "with --rank."
        )
    return [_recorded(_launches(counters), t, device) for t in chosen]


def devices_of(source: Source, counters: Trace | None, device: int | None) -> Sequence[Device]:
    """Return the devices whose roofs may hold: those of the counters, then of the recording."""
    traces = [t for t in (counters, *source.ranks) if t is not None]
    every = [d for t in traces for d in t.meta.devices]
    return [d for d in every if d.index == device] or every


def _launches(trace: Trace) -> pl.DataFrame:
    """Return counted launches in order, with sizes: by blocks, or by threads where told so."""
    about = launch_match.sized(trace.activities).select(
        pl.col("id").alias("activity"), pl.col("name").cast(pl.String), "device", "dur_ns",
        "blocks", "threads_per_block",
    )  # fmt: skip
    told = {"Grid_Size": "threads", "Workgroup_Size": "group"}
    name = pl.col("name").cast(pl.String)
    sizes = trace.kernel_counters.filter(name.is_in(list(told))).select(
        "activity", name.replace(told), pl.col("value").cast(pl.Int64, strict=False)
    )
    wide = sizes.pivot("name", on_columns=list(told.values()), index="activity", values="value")
    joined = counted.measured(trace).join(about, on="activity", how="left", maintain_order="left")
    joined = joined.join(wide, on="activity", how="left", maintain_order="left")
    group = pl.when(pl.col("group") > 0).then("group")
    return joined.with_columns(
        pl.coalesce("blocks", pl.col("threads") // group).alias("blocks"),
        pl.coalesce("threads_per_block", group).alias("threads_per_block"),
    ).drop("threads", "group")


_OF_RECORDING: dict[str, pl.DataType] = {
    "recorded": pl.UInt32(),
    "recorded_ns": pl.Int64(),
    "kernels": pl.Int64(),
    "owner": pl.UInt32(),
    "siblings": pl.UInt32(),
    **_WHOSE,
    "call_flops": pl.Int64(),
    "call_bytes": pl.Int64(),
}


def _unrecorded(launches: pl.DataFrame, rank: int | None) -> pl.DataFrame:
    nothing = [pl.lit(None, dtype).alias(n) for n, dtype in _OF_RECORDING.items()]
    return launches.with_columns(pl.lit(rank, pl.Int32()).alias("rank"), *nothing)


def _recorded(launches: pl.DataFrame, trace: Trace, device: int | None) -> pl.DataFrame:
    """Add to counted launches the kernels of a recording and the operators that own them."""
    known = _kernels(trace, device)
    found = launch_match.matched(launches, known)
    of_kernel = known.select(pl.int_range(pl.len()).alias("row"), *_OF_RECORDING, "on").drop(
        "kernels"
    )
    joined = launches.with_columns(found.alias("row")).join(
        of_kernel, on="row", how="left", maintain_order="left"
    )
    return joined.with_columns(
        pl.coalesce("on", "device").alias("device"),
        pl.lit(trace.meta.rank, pl.Int32()).alias("rank"),
        pl.lit(known.height, pl.Int64()).alias("kernels"),
    ).drop("row", "on")


def _kernels(trace: Trace, device: int | None) -> pl.DataFrame:
    """Return the kernels of a recording in order of start, with the operator that owns each."""
    kernels = trace.activities.filter(pl.col("kind").is_in(["kernel", "collective"]))
    if not trace.meta.timed:
        kernels = kernels.clear()
    if device is not None:
        kernels = kernels.filter(pl.col("device") == device)
    kernels = launch_match.sized(kernels.sort("start_ns", maintain_order=True))
    costs = models.operators(trace)
    owner = models.owners(trace.ops["parent"], costs["op"], kernels["op"])
    told = costs.select(
        "model",
        pl.col("op").alias("owner"),
        pl.col("precision").alias("model_precision"),
        pl.col("unit").alias("model_unit"),
        pl.col("flops").alias("call_flops"),
        (pl.col("read_bytes") + pl.col("write_bytes")).alias("call_bytes"),
    )
    joined = kernels.with_columns(owner).join(told, on="owner", how="left", maintain_order="left")
    joined = joined.join(_operators(trace, owner), on="owner", how="left", maintain_order="left")
    return joined.with_columns(
        pl.col("name").cast(pl.String),
        pl.col("id").alias("recorded"),
        pl.col("dur_ns").alias("recorded_ns"),
        pl.col("device").alias("on"),
        pl.lit(None, pl.Int64).alias("kernels"),
        pl.len().over("owner").cast(pl.UInt32).alias("siblings"),
    )


def _operators(trace: Trace, owner: pl.Series) -> pl.DataFrame:
    """Return name and text of the shapes of the operators that own kernels."""
    ops = trace.ops.select(
        pl.col("id").alias("owner"),
        pl.col("name").cast(pl.String).alias("operator"),
        pl.col("input_dims", "input_types").cast(pl.String),
    ).filter(pl.col("owner").is_in(owner.drop_nulls().unique().implode()))
    keys = ops.select("input_dims", "input_types").unique()
    texts = [_label(dims, types) for dims, types in keys.iter_rows()]
    keys = keys.with_columns(pl.Series("shapes", texts, dtype=pl.String))
    on = ["input_dims", "input_types"]
    return ops.join(keys, on=on, nulls_equal=True, how="left").select("owner", "operator", "shapes")


def _label(dims: str | None, types: str | None) -> str | None:
    try:
        return shapes.label(shapes.parse(dims, types))
    except shapes.ShapeError:
        return None


def _rows(work: pl.DataFrame, by: str) -> pl.DataFrame:
    units = _by_operator(work) if by == "operator" else _by_kernel(work)
    keys = [n for n in (*_PLACE, *_WHOSE, "siblings", "untold") if n in units.columns]
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
    first = [n for n in ("rank", "device", "recorded", "kernels", *_WHOSE, "siblings",
                         "call_flops", "call_bytes")]  # fmt: skip
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
    some = pl.any_horizontal(pl.col(c).is_not_null() for c in classes)
    most = pl.max_horizontal(classes)
    leading = pl.coalesce(
        *(pl.when((pl.col(c) == most) & (most > 0)).then(pl.lit(c)) for c in classes),
        pl.lit(None, pl.String),
    )
    rows = rows.with_columns(
        pl.when(some).then(pl.sum_horizontal(classes)).alias("flops"),
        leading.alias("leading"),
        pl.coalesce("dur_ns", "recorded_ns").alias("time_ns"),
        pl.when(pl.col("dur_ns").is_not_null())
        .then(pl.lit("counters"))
        .when(pl.col("recorded_ns").is_not_null())
        .then(pl.lit("recording"))
        .alias("time_source"),
        *(_of(classes, lambda c, p=p: c.startswith(f"{p}_")).alias(f"{p}_flops")  # type: ignore[misc]
          for p in PRECISIONS),
        _of(classes, lambda c: "_matrix_" in c).alias("matrix_flops"),
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


def _of(classes: list[str], which: object) -> pl.Expr:
    """Return the sum of some types that were collected; null when none of them was."""
    some = [pl.col(c) for c in classes if which(c)]  # type: ignore[operator]
    known = pl.any_horizontal(c.is_not_null() for c in some)
    return pl.when(known).then(pl.sum_horizontal(some))


def _ratio(above: str, below: str, name: str) -> pl.Expr:
    return (pl.col(above) / pl.when(pl.col(below) > 0).then(below)).alias(name)
