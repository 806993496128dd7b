"""`recoverable`: which operators spend most time above their roof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.analysis import roofline as rooflines

if TYPE_CHECKING:
    from workbench.analysis.only import Only
    from workbench.analysis.window import Range
    from workbench.costs.ceilings import Ceilings
    from workbench.costs.hardware import Hardware
    from workbench.trace.core import Source

SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "operator": pl.String(),
    "kind": pl.String(),
    "shapes": pl.String(),
    "calls": pl.Int64(),
    "time_ns": pl.Int64(),
    "roof_ns": pl.Int64(),
    "recoverable_ns": pl.Int64(),
    "share_of_device_time": pl.Float64(),
    "recoverable_share": pl.Float64(),
    "ratio_to_roof": pl.Float64(),
    "bound": pl.String(),
    "reason": pl.String(),
}
beside = rooflines.beside


def recoverable(
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
    """Return the rows of `roofline` by the device time above their roof, most first.

    recoverable_ns = max(0, time_ns - roof_ns), with roof_ns = the sum over calls of
    max(FLOPs / peak, bytes / bandwidth of the level that holds them); recoverable_share is of the
    device's busy time. It is a bound, not a promise: no kernel reaches its roof, time that runs
    beside other work does not shorten the step, and calls of a few microseconds are held up by
    latency that a roof does not know. Rows without a roof have null and the reason, and come last.
    `by`, `convention` and `only` are those of `roofline`; of a group, both are sums over its
    operators and shapes that have a roof, so one that lies above its roof takes nothing from the
    others.
    """
    options: dict[str, Any] = {"by": by, "convention": convention, "within": within, "only": only}
    options |= {"ceilings": ceilings, "hardware": hardware, "rank": rank, "device": device}
    frame = rooflines.roofline(source, window=window, step=step, **options)
    busy = pl.col("time_ns") / pl.col("share_of_device_time")
    ranked = frame.with_columns(
        recoverable_ns="above_roof_ns", recoverable_share=pl.col("above_roof_ns") / busy
    )
    wanted = list(SCHEMA)
    if by != "operator":
        wanted = ["group" if n == "operator" else n for n in wanted if n not in {"shapes", "bound"}]
    ranked = ranked.select(wanted)
    return ranked.sort("recoverable_ns", descending=True, nulls_last=True, maintain_order=True)
