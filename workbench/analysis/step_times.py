"""`step_times`: how long a step takes, how steady that is, and whether it drifts."""

from __future__ import annotations

import polars as pl

from workbench.analysis.steadiness import FEWEST_FOR_TREND, trend
from workbench.analysis.steps import steps
from workbench.trace.core import Source

NEEDS = ("steps",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "steps": pl.Int64(),
    "median_ns": pl.Float64(),
    "mad_ns": pl.Float64(),
    "mean_ns": pl.Float64(),
    "min_ns": pl.Int64(),
    "p95_ns": pl.Float64(),
    "max_ns": pl.Int64(),
    "outliers": pl.List(pl.Int32()),
    "steady_mean_ns": pl.Float64(),
    "first_ratio": pl.Float64(),
    "drift_ns": pl.Float64(),
    "is_drifting": pl.Boolean(),
    "reason": pl.String(),
}
NONE_WHOLE = "no complete step besides the last, whose end is not marked by a next one"
TOO_FEW = f"a drift needs {FEWEST_FOR_TREND} steps without the outliers"


def step_times(
    source: Source, *, rank: int | None = None, device: int | None = None
) -> pl.DataFrame:
    """Return one row for each (rank, device) that has steps.

    Of complete steps without the tail: median, median absolute deviation (not scaled), mean,
    smallest, largest and 95th percentile (linear between values). `outliers` are the step numbers
    that `steadiness.outliers` finds; `steady_mean_ns` is the mean without them; `first_ratio` is
    the first step over the median of the others less outliers. `drift_ns` is the median change from
    a step to the next without outliers, and `is_drifting` says whether it is more than chance
    (`steadiness.trend`); both are null, with the reason, for few steps.
    """
    table = steps(source, rank=rank, device=device)
    rows = [_row(part) for part in table.partition_by("rank", "device", maintain_order=True)]
    return pl.DataFrame(rows, schema=SCHEMA)


def _row(table: pl.DataFrame) -> dict[str, object]:
    place = {"rank": table["rank"][0], "device": table["device"][0]}
    judged = table.filter(pl.col("outlier").is_not_null())
    if judged.is_empty():
        return place | {"steps": 0, "reason": NONE_WHOLE}
    dur = judged["dur_ns"]
    steady = judged.filter(~pl.col("outlier"))
    found = trend(steady["step"].to_numpy(), steady["dur_ns"].to_numpy())
    others = steady.filter(pl.col("step") != judged["step"][0])["dur_ns"].median()
    return place | {
        "steps": judged.height,
        "median_ns": dur.median(),
        "mad_ns": (dur - dur.median()).abs().median(),
        "mean_ns": dur.mean(),
        "min_ns": dur.min(),
        "p95_ns": dur.quantile(0.95, "linear"),
        "max_ns": dur.max(),
        "outliers": judged.filter("outlier")["step"].to_list(),
        "steady_mean_ns": steady["dur_ns"].mean(),
        "first_ratio": dur[0] / others if others else None,
        "drift_ns": found.ns_per_step if found else None,
        "is_drifting": found.is_significant if found else None,
        "reason": None if found else TOO_FEW,
    }
