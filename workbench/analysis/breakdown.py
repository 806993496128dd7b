"""`breakdown`: where the window goes; the parts of each (rank, device) add up to it exactly."""

from __future__ import annotations

import polars as pl

from workbench.analysis.summary import Times, times
from workbench.analysis.window import Range, select
from workbench.trace.core import Source

PARTS = ("compute", "exposed_communication", "exposed_copy", "idle")
"""Disjoint, in the order in which they are painted: window = their sum."""
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "part": pl.Enum(PARTS),
    "time_ns": pl.Int64(),
    "share": pl.Float64(),
}


def breakdown(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return `rank device part time_ns share`, four rows a (rank, device).

    compute |C|; exposed communication |N - C|; exposed copy |M - C - N|; idle |W| - |A|.
    `share` is of the window, null when that is empty.
    """
    rows = [
        {"rank": s.rank, "device": s.device, **row}
        for s in select(source, window=window, step=step, rank=rank, device=device, within=within)
        for row in parts(times(s))
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def parts(measured: Times) -> list[dict[str, object]]:
    """Split measured times into the disjoint parts."""
    whole = measured.window_ns
    return [
        {"part": part, "time_ns": ns, "share": ns / whole if whole else None}
        for part in PARTS
        for ns in [getattr(measured, f"{part}_ns")]
    ]
