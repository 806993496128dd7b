"""`waterfall` and `waterfall_mean`: what fills a step, from compute to each cause of idle time."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis.breakdown import PARTS
from workbench.analysis.gaps import CAUSES, Parts, idle_time
from workbench.analysis.window import Range, Selection, select, spans
from workbench.intervals import Times
from workbench.trace.core import Source
from workbench.trace.schema import COMPUTE_KINDS, COPY_KINDS

NEEDS = ("activity", "steps")
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "tail": pl.Boolean(),
    "part": pl.Enum(PARTS),
    "cause": pl.String(),
    "time_ns": pl.Int64(),
    "share": pl.Float64(),
}
MEAN_SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "steps": pl.Int64(),
    "part": pl.Enum(PARTS),
    "cause": pl.String(),
    "mean_ns": pl.Float64(),
    "share": pl.Float64(),
    "min_ns": pl.Int64(),
    "max_ns": pl.Int64(),
}


def waterfall(
    source: Source,
    *,
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return the parts of each complete (rank, device, step), which add up to the step's duration.

    compute |C|; exposed communication |N - C|; exposed copy |M - C - N|, all inside the device
    step; then idle time by cause, by the rules of `idle_causes`, a row for each cause that the step
    has. Edges are those of all these steps together: idle time between two of them has its cause.
    The part of a gap that lies in a step counts there, whatever step ended the gap. `share` is of
    the step. The `tail` is the last step of the trace, which ends with its latest activity.
    """
    chosen = select(source, step=step, rank=rank, device=device, within=within)
    frames = [_of_steps(s) for s in chosen if s.window == "steps"]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def waterfall_mean(
    source: Source,
    *,
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return the mean step of each (rank, device): the parts of `waterfall` over `steps` steps.

    Of complete steps that are no tail (a tail has no next step to end with), unless there is none
    but a tail. `mean_ns` adds up to the mean duration; a step without a part counts as 0 for it,
    also in `min_ns`. `share` = the part's time in all of them / their duration.
    """
    steps = waterfall(source, step=step, rank=rank, device=device, within=within)
    place = ["rank", "device"]
    steps = steps.filter(~pl.col("tail") | pl.col("tail").all().over(place))
    counted = steps.group_by(place, maintain_order=True).agg(
        steps=(pl.col("part") == PARTS[0]).sum(),  # each step has one such row
        whole_ns=pl.col("time_ns").sum(),
    )
    parts = steps.group_by([*place, "part", "cause"], maintain_order=True).agg(
        total_ns=pl.col("time_ns").sum(),
        least_ns=pl.col("time_ns").min(),
        max_ns=pl.col("time_ns").max(),
        seen=pl.len(),
    )
    found = parts.join(counted, on=place, nulls_equal=True, maintain_order="left").with_columns(
        mean_ns=pl.col("total_ns") / pl.col("steps"),
        share=(pl.col("total_ns") / pl.col("whole_ns")).fill_nan(None),
        min_ns=pl.when(pl.col("seen") == pl.col("steps")).then("least_ns").otherwise(0),
    )
    found = found.sort(*place, "part", "mean_ns", descending=[False, False, False, True])
    return found.select(pl.col(n).cast(t) for n, t in MEAN_SCHEMA.items())


def _of_steps(chosen: Selection) -> pl.DataFrame:
    """Measure the chosen steps of one device."""
    steps = chosen.trace.steps.filter(
        pl.col("device").eq_missing(chosen.device) & pl.col("step").is_in(chosen.steps or ())
    ).filter("complete")
    begin, end = spans(steps)
    inside = chosen.inside  # `within` may have cut it
    low, high = (int(inside.start[0]), int(inside.end[-1])) if len(inside.start) else (0, 0)
    begin, end = np.clip(begin, low, high), np.clip(end, low, high)
    kept = np.flatnonzero(end > begin)
    steps, begin, end = steps[kept], begin[kept], end[kept]
    compute, communication = chosen.times(*COMPUTE_KINDS), chosen.times("collective")
    bare = intervals.difference(chosen.times(*COPY_KINDS), compute)
    busy = (
        compute,
        intervals.difference(communication, compute),
        intervals.difference(bare, communication),
    )
    idle = _idle_in(idle_time(chosen).parts, begin, end)
    measured = np.column_stack([*(intervals.covered(x, begin, end) for x in busy), idle])
    return _long(chosen, steps, end - begin, measured)


def _idle_in(parts: Parts, begin: Times, end: Times) -> NDArray[np.int64]:
    """Return the time of each cause in each step: a row a step, a column a cause."""
    table = np.zeros((len(begin), len(CAUSES)), np.int64)
    for cause in np.unique(parts.cause):
        mine = parts.cause == cause
        held = intervals.union(parts.start[mine], parts.end[mine])
        table[:, cause] = intervals.covered(held, begin, end)
    return table


def _long(
    chosen: Selection, steps: pl.DataFrame, whole: Times, measured: NDArray[np.int64]
) -> pl.DataFrame:
    """Turn a table of steps by parts into rows; causes that a step has none of are left out."""
    named = [*((part, None) for part in PARTS[:-1]), *(("idle", cause) for cause in CAUSES)]
    keep = measured > 0
    keep[:, : len(PARTS) - 1] = True
    row, column = np.nonzero(keep)
    share = np.divide(
        measured[row, column], whole[row], where=whole[row] > 0, out=np.full(len(row), np.nan)
    )
    frame = pl.DataFrame(
        {
            "step": steps["step"].gather(row),
            "tail": steps["tail"].gather(row),
            "part": pl.Series([part for part, _ in named]).gather(column),
            "cause": pl.Series([cause for _, cause in named], dtype=pl.String).gather(column),
            "time_ns": measured[row, column],
            "share": pl.Series(share).fill_nan(None),
        }
    )
    return frame.select(
        pl.lit(chosen.rank, pl.Int32()).alias("rank"),
        pl.lit(chosen.device, pl.Int32()).alias("device"),
        *(pl.col(n).cast(t) for n, t in list(SCHEMA.items())[2:]),
    )
