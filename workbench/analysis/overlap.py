"""`overlap` and `exposed`: how much communication hides behind compute, and which does not."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis.parallel import dimensions
from workbench.analysis.summary import times
from workbench.analysis.window import Range, Selection, select, spans
from workbench.trace import schema
from workbench.trace.core import Source
from workbench.trace.schema import COMPUTE_KINDS

OVERLAP_SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "window_ns": pl.Int64(),
    "compute_ns": pl.Int64(),
    "communication_ns": pl.Int64(),
    "overlap_ns": pl.Int64(),
    "exposed_communication_ns": pl.Int64(),
    "overlap_share": pl.Float64(),
    "reason": pl.String(),
}
EXPOSED_SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "activity": schema.ID,
    "collective": pl.String(),
    "group": pl.String(),
    "dimension": pl.String(),
    "bytes": pl.Int64(),
}
NEEDS = ("activity",)
NO_COMMUNICATION = "no communication in this window"


def overlap(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device); `overlap_share` = |C ∩ N| / |N|, within the device.

    The share is null, with the reason, when there is no communication: a share of nothing is no
    number. Over several rows the share is the ratio of sums, not the mean of ratios.
    """
    rows = []
    for chosen in select(source, window=window, step=step, rank=rank, device=device, within=within):
        measured = times(chosen)._asdict()
        whole = measured["communication_ns"]
        rows.append(
            {
                "rank": chosen.rank,
                "device": chosen.device,
                **{n: v for n, v in measured.items() if n in OVERLAP_SCHEMA},
                "overlap_share": measured["overlap_ns"] / whole if whole else None,
                "reason": None if whole else NO_COMMUNICATION,
            }
        )
    return pl.DataFrame(rows, schema=OVERLAP_SCHEMA)


def exposed(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return each stretch of N - C with the collective that fills most of it, longest first.

    The stretches of a (rank, device) are disjoint and add up to its exposed communication. Its
    process group and the parallelism that this serves (`parallel.DIMENSIONS`) are null where they
    are not recorded.
    """
    chosen = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = [_stretches(s, s.trace.meta.origin_ns - source.origin_ns) for s in chosen]
    found = pl.concat(frames) if frames else pl.DataFrame(schema=EXPOSED_SCHEMA)
    return found.sort("dur_ns", "start_ns", descending=[True, False])


def _stretches(chosen: Selection, shift_ns: int) -> pl.DataFrame:
    compute = chosen.times(*COMPUTE_KINDS)
    bare = intervals.difference(chosen.times("collective"), compute)
    running = chosen.activities.filter(pl.col("kind") == "collective")
    stretch, row = _most_of(bare, *spans(running))
    known = chosen.trace.collectives.select(
        pl.col("group").cast(pl.String), "bytes", collective="name", id="activity"
    )
    details = (
        running[row]
        .join(known, on="id", how="left", suffix="_moved", maintain_order="left")
        .join(dimensions(chosen.trace), on="group", how="left", maintain_order="left")
    )
    return details.select(
        rank=pl.lit(chosen.rank, pl.Int32()),
        device=pl.lit(chosen.device, pl.Int32()),
        step="step",
        start_ns=pl.Series(bare.start[stretch]) + shift_ns,
        dur_ns=pl.Series((bare.end - bare.start)[stretch]),
        activity="id",
        collective=pl.col("collective").cast(pl.String),
        group="group",
        dimension="dimension",
        bytes="bytes_moved",
    )


def _most_of(
    bare: intervals.Intervals, start: intervals.Times, end: intervals.Times
) -> tuple[intervals.Times, intervals.Times]:
    """Pair each stretch with the activity that covers most of it; ties go to the earliest.

    `start` ascends. Of all activities that run at a stretch's start only one can win: the first to
    reach its end, or else the first to reach as far as any. Each of the others starts inside one
    stretch, so there are at most as many pairs as stretches and activities together.
    """
    row = np.arange(len(start))
    reach = np.maximum.accumulate(end) if len(end) else end
    before = np.searchsorted(start, bare.start, "right")
    running = np.flatnonzero(before > 0)
    furthest = np.minimum(reach[before[running] - 1], bare.end[running])
    into = np.searchsorted(bare.start, start, "left") - 1
    inside = np.flatnonzero((into >= 0) & (start < bare.end[into])) if len(bare.start) else row[:0]
    stretch = np.concatenate((running, into[inside]))
    row = np.concatenate((np.searchsorted(reach, furthest, "left"), row[inside]))
    shared = np.minimum(bare.end[stretch], end[row]) - np.maximum(bare.start[stretch], start[row])
    order = np.lexsort((row, -shared, stretch))
    order = order[shared[order] > 0]
    stretch, row = stretch[order], row[order]
    keep = np.concatenate(([True], stretch[1:] != stretch[:-1]))[: len(stretch)]
    return stretch[keep], row[keep]
