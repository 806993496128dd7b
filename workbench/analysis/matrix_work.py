"""Matrix products of a device's steps: FLOPs by step, precision and whether they are model work."""

from __future__ import annotations

import polars as pl

from workbench.analysis.window import Selection
from workbench.costs import levels, models, precision
from workbench.costs.cost import convention
from workbench.costs.roofs import Roofs
from workbench.trace.core import Trace

MODEL_FLOPS = "model"
"""Convention of operators (`costs.cost`): without the scores that a fused backward runs again."""
SCHEMA: dict[str, pl.DataType] = {
    "step": pl.Int32(),
    "op": pl.UInt32(),
    "family": pl.String(),
    "precision": pl.String(),
    "model_flops": pl.Int64(),
    "hardware_flops": pl.Int64(),
}


def whole_steps(chosen: Selection) -> pl.DataFrame:
    """Return the complete steps of a device that are no tail: those whose duration counts."""
    steps = chosen.trace.steps.filter(pl.col("device").eq_missing(chosen.device))
    wanted = pl.col("step").is_in(list(chosen.steps or ()))
    return steps.filter(wanted & pl.col("complete") & ~pl.col("tail"))


def launched(chosen: Selection, steps: pl.Series) -> pl.DataFrame:
    """Return the device's activities that were launched in some steps."""
    return chosen.trace.activities.filter(
        pl.col("device").eq_missing(chosen.device) & pl.col("step").is_in(steps.implode())
    )


def is_linked(chosen: Selection, steps: pl.Series) -> bool:
    """Say whether any of them is tied to an operator; without, no FLOPs can be told."""
    return launched(chosen, steps)["op"].count() > 0


def prices(trace: Trace) -> pl.DataFrame:
    """Return `op unit precision model_flops hardware_flops` for operators with counted FLOPs."""
    every = models.prices_on_device(trace)
    carrying = levels.carrying(trace.ops, every).drop_nulls("flops")
    return carrying.select(
        "op",
        "unit",
        "precision",
        model_flops=convention(MODEL_FLOPS).flops(),
        hardware_flops=convention("default").flops(),
    )


def matrix_work(
    chosen: Selection, priced: pl.DataFrame, steps: pl.Series, roofs: Roofs | str
) -> pl.DataFrame:
    """Return a row for each operator of the steps that ran matrix products on the device.

    Operators of unit `matrix` that own an activity launched in one of the steps. hardware_flops:
    what ran; model_flops: less recomputation (the phase, and the scores that a fused attention's
    backward computes again). `family` is that of the operator's longest activity.
    """
    trace, ran = chosen.trace, launched(chosen, steps)
    products = priced.filter(pl.col("unit") == "matrix")
    owner = levels.owners(trace.ops["parent"], products["op"], ran["op"])
    calls = _calls(ran.with_columns(op=owner).join(products, on="op", how="semi"), trace.ops)
    is_again = pl.col("phase") == "recomputation"
    in_doubt = precision.may_be_tf32(roofs, is_host=chosen.is_host)
    found = calls.join(products, on="op", how="inner").with_columns(
        precision=precision.told() if in_doubt else pl.col("precision"),
        model_flops=pl.when(is_again).then(0).otherwise("model_flops"),
    )
    return found.select(pl.col(n).cast(t) for n, t in SCHEMA.items()).sort("op")


def _calls(ran: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each owner: step, phase, family, and what its kernels' names tell."""
    calls = (
        ran.sort("dur_ns", descending=True)
        .group_by("op", maintain_order=True)
        .agg(
            pl.col("step").first(),
            pl.col("family").first(),
            **precision.hints(),
        )
    )
    return calls.join(ops.select(pl.col("id").alias("op"), "phase"), on="op", how="left")
