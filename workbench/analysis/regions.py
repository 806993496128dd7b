"""`regions`: what torch.compile compiled, what it made, and what still runs eagerly."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis import compiled, pieces
from workbench.analysis.window import Range, Selection, own_time, select, spans
from workbench.trace import nesting
from workbench.trace.core import Source, Trace
from workbench.trace.nesting import NONE, Axis

NEEDS = ("compiled code",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "kind": pl.String(),
    "name": pl.String(),
    "frame": pl.Int64(),
    "recompilation": pl.Int64(),
    "calls": pl.Int64(),
    "count": pl.Int64(),
    "device_ns": pl.Int64(),
    "device_share": pl.Float64(),
    "host_ns": pl.Int64(),
    "backend": pl.String(),
    "file": pl.String(),
}

_WHOLE = ("kind", "count", "device_ns", "host_ns")


def regions(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return what torch.compile left in each (rank, device): three rows for all, then each part.

    `compiled` is work launched inside any mark of compiled code, or by a generated kernel; `eager`
    is other work with a recorded launch; `unknown` has none, or was launched as a graph, which may
    hold either. `device_ns` are lengths of unions clipped to the window, with shares of busy time
    |A|. Then by `kind` and name, the longest first:

    `region`: `Torch-Compiled Region: F/N`, compilation N of Python frame F. Several frames are
    graph breaks (each stretch of code between two breaks has a frame of its own); N above 0 is a
    recompilation. `graph`: a call of a compiled FX graph (`## Call CompiledFxGraph … ##`).
    `function`: its autograd node, forward (`CompiledFunction`) or backward. `overhead`: host work
    around the graph: guards (`TorchDynamo Cache Lookup`), `Pregraph bytecode`, prologue. `kernel`:
    a generated kernel by name; its operator names backend and source file, or the kernel has a name
    that Inductor gives (`triton_poi_…`), as in a replayed graph.

    An activity counts to the innermost mark of each kind around its launch, so kinds overlap and
    only rows of one kind may be added up. `calls` are the marks that begin in the window's host
    steps and `host_ns` their durations, those of `compiled` together as a union on each thread;
    null for `eager`, `unknown` and where a kernel has no operator. `count` is of activities that
    start in the window. There are no rows without any mark of compiled code or generated kernel.
    """
    found = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = []
    for trace in source.ranks:
        chosen = [s for s in found if s.trace is trace]
        if chosen and compiled.present(trace):
            marks = _marks(trace, chosen, own_time(trace, source, within))
            frames += [_of(s, marks) for s in chosen]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _marks(trace: Trace, chosen: list[Selection], within: Range | None) -> pl.DataFrame:
    """Return the marks of compiled code; `counted`: it begins in the window's steps."""
    marks = compiled.marks(trace)
    keep = pieces.begun(marks["start_ns"].to_numpy(), chosen, within)
    return marks.with_columns(counted=pl.Series(keep, dtype=pl.Boolean))


def _of(chosen: Selection, marks: pl.DataFrame) -> pl.DataFrame:
    where = pieces.launching(chosen.activities, chosen.trace)
    generated = compiled.generated(chosen.activities, chosen.trace)
    inside = generated.is_not_null().to_numpy()
    single = _launched_alone(chosen)
    rows = []
    for kind in compiled.KINDS:
        mine = marks.filter(pl.col("kind") == kind)
        if kind == compiled.KERNEL:
            name = generated
        else:
            name = _innermost(mine, where)
            inside |= name.is_not_null().to_numpy() & (kind != compiled.OVERHEAD)
        rows.append(_by_name(chosen, mine, name, kind))
    busy = intervals.length(chosen.times())
    whole = [
        {"kind": kind, **_part(chosen, keep), **more}
        for kind, keep, more in (
            ("compiled", inside, _together(marks)),
            ("eager", ~inside & single, {}),
            ("unknown", ~inside & ~single, {}),
        )
    ]
    heads = pl.DataFrame(whole, schema={n: SCHEMA[n] for n in _WHOLE})
    frame = pl.concat([heads, *rows], how="diagonal_relaxed")
    number = pl.col("name").str.extract_groups(compiled.REGION.pattern)
    return frame.with_columns(
        rank=pl.lit(chosen.rank, pl.Int32),
        device=pl.lit(chosen.device, pl.Int32),
        device_share=pl.col("device_ns") / (busy or None),
        frame=number.struct[0],
        recompilation=number.struct[1],
    ).select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _launched_alone(chosen: Selection) -> NDArray[np.bool_]:
    """Say of each activity whether a call that is no graph launch put it on the device."""
    if chosen.is_host:
        return np.ones(chosen.activities.height, np.bool_)
    kinds = chosen.trace.launches["kind"].is_in(["graph_launch"]).to_numpy()
    launch = nesting.ids(chosen.activities["launch"])
    alone: NDArray[np.bool_] = (launch != NONE) & ~np.append(kinds, False)[launch]
    return alone


def _innermost(marks: pl.DataFrame, where: tuple[NDArray[np.integer], np.ndarray]) -> pl.Series:
    """Return the name of the innermost mark around each launch; null where there is none."""
    thread, at = where
    if not marks.height:
        return pl.Series([None], dtype=pl.String).new_from_index(0, len(at))
    order, nested = nesting.sort_and_nest(marks)
    row = nesting.innermost(nested, thread, at)
    row[thread == NONE] = NONE
    return nesting.gathered(marks["name"][order], row)


def _part(chosen: Selection, keep: NDArray[np.bool_]) -> dict[str, int]:
    thing = chosen.activities["op"] if chosen.is_host else chosen.activities["id"]
    inside = intervals.contains(chosen.inside, chosen.activities["start_ns"].to_numpy())
    group = np.where(keep, 0, NONE)
    return {
        "count": thing.filter(pl.Series(inside & keep)).n_unique(),
        "device_ns": int(pieces.filled(pieces.of(chosen), group, 1)[0]),
    }


def _by_name(chosen: Selection, marks: pl.DataFrame, name: pl.Series, kind: str) -> pl.DataFrame:
    names = name.drop_nulls().unique(maintain_order=True)
    code = name.replace_strict(
        names, np.arange(len(names)), default=NONE, return_dtype=pl.Int64
    ).to_numpy()
    inside = intervals.contains(chosen.inside, chosen.activities["start_ns"].to_numpy())
    thing = chosen.activities["op"] if chosen.is_host else chosen.activities["id"]
    counts = (
        pl.DataFrame({"name": name, "thing": thing})
        .filter(pl.Series(inside))
        .group_by("name")
        .agg(count=pl.col("thing").n_unique())
    )
    device = pl.DataFrame(
        {"name": names, "device_ns": pieces.filled(pieces.of(chosen), code, len(names))},
        schema={"name": pl.String, "device_ns": pl.Int64},
    ).join(counts, on="name", how="left")
    host = (
        marks.filter("counted")
        .group_by("name")
        .agg(
            calls=pl.len(),
            host_ns=pl.col("dur_ns").sum(),
            backend=pl.col("backend").first(),
            file=pl.col("file").first(),
        )
    )
    found = device.join(host, on="name", how="full", coalesce=True)
    unknown = [pl.col("count").fill_null(0), pl.col("device_ns").fill_null(0)]
    if kind != compiled.KERNEL:
        unknown += [pl.col("calls").fill_null(0), pl.col("host_ns").fill_null(0)]
    return found.with_columns(*unknown, kind=pl.lit(kind)).sort(
        "device_ns", "host_ns", "name", descending=[True, True, False], nulls_last=True
    )


def _together(marks: pl.DataFrame) -> dict[str, int]:
    """Return host time and calls of all marks: nothing counts twice on a thread."""
    mine = marks.filter(pl.col("counted") & (pl.col("kind") != compiled.OVERHEAD))
    if not mine.height:
        return {}
    thread = mine["thread"].to_numpy()
    start, end = spans(mine)
    axis = Axis((thread, start), (thread, end))
    union = intervals.union(axis(thread, start), axis(thread, end))
    return {"host_ns": intervals.length(union)}
