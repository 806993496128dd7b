"""The launches that were counted, each with the kernel of a recording and the operator it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.analysis import launch_match
from workbench.analysis.window import check
from workbench.costs import counted, levels, models, shapes
from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.trace.core import Device, Source, Trace

WHOSE: dict[str, pl.DataType] = {
    "operator": pl.String(),
    "shapes": pl.String(),
    "model": pl.String(),
    "model_precision": pl.String(),
    "model_unit": pl.String(),
}


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
        return [
            _unrecorded(part, t.meta.rank)
            for t, launches in found
            for (number,), part in launches.group_by("device", maintain_order=True)
            if device is None or number == device
        ]
    if len(chosen) > 1:
        raise UsageError(
            "The counters are of one process, and the recording has several ranks; choose one "
            "with --rank."
        )
    return [_recorded(_launches(counters), t, device) for t in chosen]


def devices_of(source: Source, counters: Trace | None, device: int | None) -> Sequence[Device]:
    """Return the devices whose roofs may hold: those of the counters, then of the recording."""
    traces = [t for t in (counters, *source.ranks) if t is not None]
    found = [d for t in traces if (d := t.meta.described(device)) is not None]
    return found or [d for t in traces for d in t.meta.devices]


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
    **WHOSE,
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
    costs = levels.counted(trace.ops, models.prices_on_device(trace), "default")
    owner = levels.owners(trace.ops["parent"], levels.working(costs), kernels["op"])
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
        pl.when(pl.col("owner").is_not_null())
        .then(pl.len().over("owner"))
        .cast(pl.UInt32)
        .alias("siblings"),
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
