"""Sampled GPU metrics as counters."""

from __future__ import annotations

import polars as pl

from workbench.trace import raw
from workbench.trace.records import shaped
from workbench.trace.sqlite import Database

SAMPLES = "GPU_METRICS"
NAMES = "TARGET_INFO_GPU_METRICS"
_KEY = {"typeId": pl.Int64(), "metricId": pl.Int64()}
_TIMES = {"timestamp": pl.Int64(), "rawTimestamp": pl.Int64()}
_GPU_BITS = 0xFF
"""The lowest byte of a sample's type is the number of its GPU."""


def counters(database: Database, of_gpu: dict[int, int]) -> pl.DataFrame:
    """Return the samples, times as recorded; the unit is what the name has in brackets."""
    rows = database.read(SAMPLES, _KEY | _TIMES | {"value": pl.Float64()})
    names = database.read(NAMES, _KEY | {"metricName": pl.String()})
    names = names.drop_nulls(["metricId", "metricName"])
    key = ["typeId", "metricId"] if names["typeId"].count() else ["metricId"]
    names = names.select(*key, "metricName").unique(key, keep="first")
    rows = rows.join(names, on=key, how="left", maintain_order="left")
    gpu = pl.col("typeId") & _GPU_BITS
    device = gpu.replace_strict(of_gpu, default=gpu, return_dtype=pl.Int64) if of_gpu else gpu
    other = pl.concat_str(pl.lit("metric "), pl.col("metricId")).fill_null("metric")
    rows = rows.with_columns(
        t_ns=pl.coalesce(*_TIMES),
        device=device,
        name=pl.coalesce("metricName", other),
        unit=pl.col("metricName").str.extract(r"\[([^\[\]]+)\]$"),
    )
    return shaped(raw.COUNTERS, rows.drop_nulls("value"))
