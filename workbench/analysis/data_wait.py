"""`input`: how long each step waits for data (in Python `wb.input_wait`: `input` is a builtin)."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis import hostwork, needs, pieces
from workbench.analysis.copies import direction
from workbench.analysis.gaps import HOST, idle_time
from workbench.analysis.window import Selection, select, spans
from workbench.errors import UsageError
from workbench.intervals import Times
from workbench.trace import nesting
from workbench.trace.core import Source, Trace
from workbench.trace.names import matching
from workbench.trace.nesting import NONE
from workbench.trace.schema import COMPUTE_KINDS

NEEDS = ("steps", "data loading")
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "dur_ns": pl.Int64(),
    "host_ns": pl.Int64(),
    "idle_ns": pl.Int64(),
    "exposed_copy_ns": pl.Int64(),
    "wait_ns": pl.Int64(),
    "share": pl.Float64(),
    "reason": pl.String(),
}


def input_wait(
    source: Source,
    *,
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
) -> pl.DataFrame:
    """Return what each complete (rank, device, step) spends waiting for its data.

    - `host_ns`: the union of torch's `enumerate(DataLoader)…` marks on the threads that mark steps,
      clipped to the host step;
    - `idle_ns`: idle time of the device until the launch of work of this step, while the launching
      thread was within such a mark, whatever it did there. Gaps count whole, to the step that ended
      them: the device waits for a step's data at the end of its step before;
    - `exposed_copy_ns`: |H - C - N|, H the copies from host to device launched in this step;
    - `wait_ns` = idle + exposed copy, which never overlap; `share` = wait / `dur_ns` of the device
      step.

    Before the first work of the recording nothing is known of the device, so its first step's wait
    lacks what lies there. Where no loading is marked, or no work is tied to its launch, the host's
    part is null, with the `reason`.
    """
    chosen = select(source, window="all", rank=rank, device=device)
    frames = [_of_steps(s, step) for s in chosen]
    found = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
    if step is not None and found.is_empty():
        raise UsageError(
            f"No complete step lies in {step[0]}:{step[1]}; `show … steps` lists them."
        )
    return found


def _of_steps(chosen: Selection, step: tuple[int, int] | None) -> pl.DataFrame:
    trace = chosen.trace
    steps = trace.steps.filter("complete", pl.col("device").eq_missing(chosen.device))
    if step is not None:
        steps = steps.filter(pl.col("step").is_between(*step))
    reason = _reason(trace)
    marks = _marks(trace)
    idle = None if reason else _idle_of(chosen, marks, steps["step"])
    measured = steps.with_columns(
        rank=pl.lit(chosen.rank),
        host_ns=None if reason else pl.Series(_host(trace, marks, steps)),
        idle_ns=idle,
        exposed_copy_ns=_copies(chosen, steps["step"]),
        reason=pl.lit(reason, pl.String()),
    ).with_columns(wait_ns=pl.col("idle_ns") + pl.col("exposed_copy_ns"))
    measured = measured.with_columns(
        share=pl.when(pl.col("dur_ns") > 0).then(pl.col("wait_ns") / pl.col("dur_ns"))
    )
    return measured.select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _reason(trace: Trace) -> str | None:
    lacking = [needs.NEEDS[n] for n in ("causes of idle time", "data loading")]
    return next((n.missing for n in lacking if not n.present(trace)), None)


def _marks(trace: Trace) -> pl.DataFrame:
    """Return `thread start_ns dur_ns` of the marks of data loading."""
    columns = ("thread", "start_ns", "dur_ns")
    ranges = trace.ranges.filter(pl.col("thread").is_not_null())
    tables = (ranges, trace.ops)
    return pl.concat(
        t.filter(matching(t["name"], hostwork.is_data_loading)).select(columns) for t in tables
    )


def _host(trace: Trace, marks: pl.DataFrame, steps: pl.DataFrame) -> Times:
    is_step = (pl.col("domain").cast(pl.String) == "step") & pl.col("thread").is_not_null()
    threads = trace.ranges.filter(is_step)["thread"].unique()
    loading = intervals.union(*spans(marks.filter(pl.col("thread").is_in(threads.implode()))))
    begin = steps["host_start_ns"].to_numpy()
    return intervals.covered(loading, begin, begin + steps["host_dur_ns"].to_numpy())


def _idle_of(chosen: Selection, marks: pl.DataFrame, steps: pl.Series) -> pl.Series:
    """Add up the idle time under marks of the launching thread by the step that ended it."""
    found = idle_time(chosen, divide=False)
    gaps, parts = found.gaps, found.parts
    host = parts.cause == HOST
    under = np.zeros(int(host.sum()), np.int64)
    for thread in marks["thread"].unique():
        loading = intervals.union(*spans(marks.filter(thread=thread)))
        mine = parts.thread[host] == thread
        under[mine] = intervals.covered(loading, parts.start[host][mine], parts.end[host][mine])
    ender = gaps.ender[parts.gap[host]]
    of = nesting.gathered(found.activities["step"], ender)
    per_step = pl.DataFrame({"step": of, "ns": under}).group_by("step").agg(pl.col("ns").sum())
    return (
        steps.to_frame()
        .join(per_step, on="step", how="left", maintain_order="left")["ns"]
        .fill_null(0)
    )


def _copies(chosen: Selection, steps: pl.Series) -> pl.Series:
    """Return how long copies to the device that each step launched ran beside no other work."""
    work = chosen.activities
    busy = intervals.union(
        *spans(work.filter(pl.col("kind").is_in([*COMPUTE_KINDS, "collective"])))
    )
    copies = work.filter(kind="copy").select("name", "step", "start_ns", "dur_ns")
    copies = copies.filter(matching(copies["name"], lambda name: direction(name) == "HtoD"))
    number = pl.Series(range(len(steps)), dtype=pl.Int64)
    of = copies["step"].replace_strict(steps, number, default=NONE, return_dtype=pl.Int64)
    step = of.to_numpy()
    start, end = spans(copies)
    hidden = pieces.cut(start, end, busy)
    bare = pieces.filled(pieces.Pieces(np.arange(len(start)), start, end), step, len(steps))
    return pl.Series(bare - pieces.filled(hidden, step, len(steps)), dtype=pl.Int64)
