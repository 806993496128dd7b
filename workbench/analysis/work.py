"""What ran on a device, with the operator that owns it and what that operator had to do.

An activity belongs to the nearest operator around its launch that carries a count: what a modelled
operator calls is part of its time. Time is that of the activities that start in the window, whole,
so that time and work belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench import intervals
from workbench.analysis.copies import direction
from workbench.analysis.window import Selection, spans
from workbench.costs import levels, models, precision, shapes
from workbench.trace.schema import ACTIVITY_KINDS, COPY_KINDS

if TYPE_CHECKING:
    from workbench.costs.roofs import Roofs

_OP = ["name", "input_dims", "input_types", "phase", "module"]
_OWNER = [
    "owner",
    "operator",
    *_OP[1:],
    "flops",
    "read_bytes",
    "write_bytes",
    "precision",
    "unit",
    "model",
    "failed",
    "delegates",
]
DELEGATED = "its work is counted in an operator that it calls"


def owned(chosen: Selection, convention: str = "default") -> pl.DataFrame:
    """Return the activities that count, each with its `owner` and what that one cost.

    `failed` says why a count of it is not known; `delegates`: it has a model, and its work is
    counted in operators that it calls, so the time is its own host time.
    Columns: `id kind name family start_ns dur_ns owner operator input_dims input_types phase
    module flops read_bytes write_bytes precision unit model failed delegates message_bytes`.
    """
    trace, counted = chosen.trace, chosen.counted()
    priced = models.prices_on_device(trace)
    costs = levels.counted(trace.ops, priced, convention)
    owner = levels.owners(trace.ops["parent"], levels.working(costs), counted["op"])
    told = priced.select(
        owner="op",
        failed=pl.coalesce("reason", "unknown"),
        delegates=levels.delegating(trace.ops["parent"], priced, costs),
    )
    ops = trace.ops.select("id", *_OP).rename({"id": "owner", "name": "operator"})
    sent = trace.collectives.select(id="activity", message_bytes="bytes").drop_nulls()
    frame = counted.select("id", "kind", "name", "family", "start_ns", "dur_ns")
    frame = frame.with_columns(owner)
    for table in (ops, costs.rename({"op": "owner"}), told):
        frame = frame.join(table, on="owner", how="left", maintain_order="left")
    return frame.join(sent.unique("id"), on="id", how="left", maintain_order="left")


def is_modelled() -> pl.Expr:
    """Say which of `owned` the cost models speak for."""
    bytes_known = (pl.col("read_bytes") + pl.col("write_bytes")).is_not_null()
    return bytes_known | (pl.col("flops") > 0) | pl.col("delegates")


def union_ns(frame: pl.DataFrame) -> int:
    """Return the length of the union of activities."""
    return intervals.length(intervals.union(*spans(frame)))


def calls(work: pl.DataFrame, roofs: Roofs | str, *, is_host: bool) -> pl.DataFrame:
    """Return a row for each owning operator: `time_ns` of its activities' union, kind, precision.

    Work without an operator is one row for each kind of activity. `kind` is the family of the cost
    model, communication, copy or other; `kernel_family` that of the activity that took longest;
    `activity_kind` that of its first activity, which tells work without an operator apart.
    """
    alone = pl.col("kind").to_physical().cast(pl.Int64) - len(ACTIVITY_KINDS)
    key = pl.when(pl.col("owner").is_null()).then(alone).otherwise(pl.col("owner").cast(pl.Int64))
    keyed = work.with_columns((key.rank("dense").cast(pl.Int64) - 1).alias("group"))
    grouped = keyed.group_by("group").agg(
        *(pl.col(c).first() for c in _OWNER),
        pl.len().alias("activities"),
        pl.col("message_bytes").sum(),
        activity_kind=pl.col("kind").first(),
        kernel_family=pl.col("family").sort_by("dur_ns").last(),
        talks=(pl.col("kind") == "collective").any(),
        copies=pl.col("kind").is_in(COPY_KINDS).all(),
    )
    grouped = grouped.join(_over_link(keyed), on="group", how="left").sort("group")
    time = intervals.grouped_length(keyed["group"].to_numpy(), *spans(keyed), grouped.height)
    grouped = grouped.with_columns(pl.Series("time_ns", time), kind=_kind())
    if not precision.may_be_tf32(roofs, is_host=is_host):
        return grouped
    in_doubt = keyed.filter((pl.col("precision") == "fp32") & (pl.col("unit") == "matrix"))
    hints = in_doubt.group_by("group").agg(**precision.hints())
    grouped = grouped.join(hints, on="group", how="left", maintain_order="left")
    return grouped.with_columns(precision=precision.told())


def _kind() -> pl.Expr:
    return (
        pl.when("talks")
        .then(pl.lit("communication"))
        .when(pl.col("model").is_not_null())
        .then("model")
        .when("copies")
        .then(pl.lit("copy"))
        .otherwise(pl.lit("other"))
    )


def _over_link(keyed: pl.DataFrame) -> pl.DataFrame:
    """Say which groups hold a copy between host and device."""
    copied = keyed.filter(pl.col("kind") == "copy").select("group", pl.col("name").cast(pl.String))
    ways = {n: direction(n) in {"HtoD", "DtoH"} for n in copied["name"].unique()}
    over = pl.col("name").replace_strict(ways, default=False, return_dtype=pl.Boolean)
    return copied.group_by("group").agg(over_link=over.any())


def labelled(calls: pl.DataFrame) -> pl.DataFrame:
    """Add the text of the shapes, written once for each distinct call."""
    calls = calls.with_columns(pl.col("operator").cast(pl.String))
    keys = calls.select("input_dims", "input_types").unique(maintain_order=True)
    texts = [_label(dims, types) for dims, types in keys.cast(pl.String()).iter_rows()]
    keys = keys.with_columns(pl.Series("shapes", texts, dtype=pl.String))
    return calls.join(
        keys, on=["input_dims", "input_types"], nulls_equal=True, how="left", maintain_order="left"
    )


def _label(dims: str | None, types: str | None) -> str | None:
    try:
        return shapes.label(shapes.parse(dims, types))
    except shapes.ShapeError:
        return None


def _in_doubt() -> pl.Expr:
    """Say where a count is missing that the roof depends on."""
    no_bytes = (pl.col("read_bytes") + pl.col("write_bytes")).is_null()
    return no_bytes | (pl.col("flops").is_null() & (pl.col("unit") == "matrix"))


def explained(calls: pl.DataFrame) -> pl.DataFrame:
    """Add `reason`: why a call cannot be held against a roof; null for those that can."""
    reason = (
        pl.when(pl.col("kind") == "communication")
        .then(pl.lit("communication is held against links, not memory"))
        .when(pl.col("owner").is_null())
        .then(pl.lit("no operator is linked to it"))
        .when(pl.col("model") == levels.VIEW)
        .then(pl.lit("it makes or describes a tensor, or leaves all work to what it calls"))
        .when("over_link")
        .then(pl.lit("a copy between host and device is held against the link, not memory"))
        .when(pl.col("model").is_not_null() & ~(_in_doubt() & pl.col("failed").is_not_null()))
        .then(None)
        .when("delegates")
        .then(pl.lit(DELEGATED))
        .when(pl.col("failed").is_not_null())
        .then("failed")
        .otherwise(pl.lit("no model of its FLOPs and bytes"))
    )
    return calls.with_columns(reason=reason)
