"""`groups`: how much communication of each process group hides behind compute."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis.parallel import dimensions
from workbench.analysis.window import Range, Selection, select, spans
from workbench.intervals import Intervals
from workbench.trace.core import Source
from workbench.trace.schema import COMPUTE_KINDS

NEEDS = ("collectives",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "group": pl.String(),
    "dimension": pl.String(),
    "group_size": pl.Int32(),
    "collectives": pl.Int64(),
    "bytes": pl.Int64(),
    "communication_ns": pl.Int64(),
    "overlap_ns": pl.Int64(),
    "exposed_ns": pl.Int64(),
    "alone_ns": pl.Int64(),
    "overlap_share": pl.Float64(),
}


def groups(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device, process group), by exposed time.

    With N_g the union of one group's collectives: communication |N_g|, overlap |C ∩ N_g|, exposed
    |N_g - C|, alone |N_g - C - N_h| for all other groups h: only the last may be added up, for two
    groups can be exposed at one time. `dimension` is the parallelism that the group serves
    (`parallel.DIMENSIONS`), null when its description says nothing; `group` is null for collectives
    whose group was not recorded. `bytes` adds up known message sizes, null when none is known.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    rows = [row for s in chosen for row in _of_device(s)]
    found = pl.DataFrame(rows, schema=SCHEMA)
    order = ("rank", "device", "exposed_ns", "group")
    return found.sort(order, descending=[False, False, True, False], nulls_last=True)


def _of_device(chosen: Selection) -> list[dict[str, object]]:
    """Measure each group's collectives on one device."""
    known = chosen.trace.collectives.select(
        pl.col("group").cast(pl.String), "group_size", id="activity", moved="bytes"
    )
    start = chosen.activities["start_ns"].to_numpy()
    counts = pl.Series("counts", intervals.contains(chosen.inside, start), dtype=pl.Boolean)
    running = chosen.activities.with_columns(counts).filter(pl.col("kind") == "collective")
    running = running.join(known.drop_nulls("id"), on="id", how="left", maintain_order="left")
    parts = running.partition_by("group", maintain_order=True)
    unions = [intervals.intersection(intervals.union(*spans(p)), chosen.inside) for p in parts]
    compute = chosen.times(*COMPUTE_KINDS)
    lonely = intervals.difference(_of_one(unions), compute)
    purpose = dict(dimensions(chosen.trace).rows())
    rows = []
    for part, mine in zip(parts, unions, strict=True):
        of_group = part.filter("counts")
        rows.append(
            {
                "rank": chosen.rank,
                "device": chosen.device,
                "group": part["group"][0],
                "dimension": purpose.get(part["group"][0]),
                "group_size": part["group_size"].max(),
                "collectives": of_group.height,
                "bytes": of_group["moved"].sum() if of_group["moved"].count() else None,
                **_times(mine, compute, lonely),
            }
        )
    return rows


def _of_one(unions: list[Intervals]) -> Intervals:
    """Return where exactly one of some sets is."""
    if not unions:
        return intervals.EMPTY
    start, end = (np.concatenate(edges) for edges in zip(*unions, strict=True))
    at = np.concatenate((start, end))
    order = np.argsort(at, kind="stable")
    running = np.cumsum(np.repeat(np.array([1, -1]), len(start))[order])
    at, one = at[order], running[:-1] == 1
    return intervals.union(at[:-1][one], at[1:][one])


def _times(mine: Intervals, compute: Intervals, lonely: Intervals) -> dict[str, object]:
    """Measure one group's union against compute, and where no other group runs."""
    whole = intervals.length(mine)
    hidden = int(intervals.covered(compute, *mine).sum())
    return {
        "communication_ns": whole,
        "overlap_ns": hidden,
        "exposed_ns": whole - hidden,
        "alone_ns": int(intervals.covered(lonely, *mine).sum()),
        "overlap_share": hidden / whole if whole else None,
    }
