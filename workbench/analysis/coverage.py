"""`coverage`: how much of the device's time the FLOP and byte models speak for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from workbench.analysis import work
from workbench.analysis.window import Range, Selection, select
from workbench.trace.schema import COPY_KINDS

if TYPE_CHECKING:
    from workbench.trace.core import Source

SCHEMA: dict[str, pl.DataType] = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "device_ns": pl.Int64(),
    "linked_ns": pl.Int64(),
    "linked_pct": pl.Float64(),
    "shaped_ns": pl.Int64(),
    "modelled_ns": pl.Int64(),
    "coverage_pct": pl.Float64(),
}


def coverage(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return, for each (rank, device), how much of the time the FLOP and byte models speak for.

    coverage_pct = modelled time / time of kernels linked to an operator with recorded shapes
    (collectives with known bytes count in both). Modelled is work with known FLOPs or bytes, views,
    and under host execution the own time of a wrapper whose work is counted inside. linked_pct =
    linked time / device time. Times are unions over the activities that start in the window; a
    percentage of nothing is null.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    return pl.DataFrame([_covered(s) for s in chosen], schema=SCHEMA)


def _covered(chosen: Selection) -> dict[str, object]:
    ran = work.owned(chosen)
    is_kernel = ~pl.col("kind").is_in(COPY_KINDS)
    known_bytes = pl.col("message_bytes").is_not_null()
    shaped = is_kernel & (pl.col("input_dims").is_not_null() | known_bytes)
    modelled = shaped & (work.is_modelled() | known_bytes)
    device_ns = work.union_ns(ran)
    linked_ns = work.union_ns(ran.filter(pl.col("owner").is_not_null()))
    shaped_ns = work.union_ns(ran.filter(shaped))
    modelled_ns = work.union_ns(ran.filter(modelled))
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
