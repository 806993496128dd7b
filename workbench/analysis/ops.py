"""`ops`: host and device time by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis import columns, subtree
from workbench.analysis.only import Only, mask
from workbench.analysis.window import Range, Selection, own_time, select, spans, step_numbers
from workbench.intervals import Times
from workbench.trace import nesting, schema
from workbench.trace.core import Source, Trace

BY = ("name", "phase", "module", "input_dims", "input_types", "input_strides")
KEYS: dict[str, Any] = dict.fromkeys(BY, pl.String()) | {"phase": schema.PHASE}
SCHEMA: dict[str, Any] = {
    "rank": pl.Int32(),
    "name": pl.String(),
    "calls": pl.Int64(),
    "self_device_ns": pl.Int64(),
    "total_device_ns": pl.Int64(),
    "device_share": pl.Float64(),
    "self_host_ns": pl.Int64(),
    "total_host_ns": pl.Int64(),
}


def ops(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    only: Only | None = None,
    by: Sequence[str] = ("name",),
) -> pl.DataFrame:
    """Return a row for each (rank, operator name), by self device time.

    `self_device_ns` is the union of the activities whose launch's innermost operator it is;
    `total_device_ns` includes those of its descendants, so only self times may be added up.
    Operators are those of the window's steps (by launching step), all when it has none.
    `device_share` is of the sum of self device times. `within` clips device times to a range of
    the source's time, and keeps the operators that start in it or have device time there. `by`
    groups by other columns of the operators, some of `BY`, as in `("name", "input_dims")`. With
    `only`, device times are of that part of the work, and operators those that launched some of it,
    themselves or by what they call; so with `device`, of what runs there.

    In an execution graph (`meta.timed` is false) only calls and recorded durations are known: those
    of host nodes count as host time, those of device nodes as device time; the rest is null.
    """
    keys = columns.chosen(by, BY)
    frames = []
    timed = any(t.meta.timed for t in source.ranks)
    asked = step if timed else None
    found = select(source, window=window, step=asked, rank=rank, device=device, within=within)
    keep = _kept(only, device)
    for trace in source.ranks:
        chosen = [s for s in found if s.trace is trace]
        if rank is not None and trace.meta.rank != rank:
            continue
        if not trace.meta.timed:
            frames.append(_untimed(trace, step, keys))
        elif chosen or step is None:
            own = own_time(trace, source, within)
            frames.append(_grouped(trace, chosen, own, keys, keep))
    return pl.concat(frames) if frames else pl.DataFrame(schema=_schema(keys))


def _schema(keys: tuple[str, ...]) -> dict[str, Any]:
    rest = {n: t for n, t in SCHEMA.items() if n not in {"rank", *BY}}
    return {"rank": SCHEMA["rank"], **{k: KEYS[k] for k in keys}, **rest}


def _columns(keys: tuple[str, ...]) -> list[pl.Expr]:
    return [pl.col(k).cast(KEYS[k]) for k in keys]


def _untimed(trace: Trace, step: tuple[int, int] | None, keys: tuple[str, ...]) -> pl.DataFrame:
    """Count the nodes of an execution graph, and add up what durations it has."""
    frame = trace.ops if step is None else trace.ops.filter(pl.col("step").is_between(*step))
    on_device = pl.col("thread").is_null()
    known = pl.col("dur_ns").is_not_null()
    host, device = ~on_device & known, on_device & known
    grouped = frame.group_by(_columns(keys)).agg(
        calls=pl.len(),
        self_device_ns=pl.when(device.any()).then(pl.col("dur_ns").filter(device).sum()),
        total_host_ns=pl.when(host.any()).then(pl.col("dur_ns").filter(host).sum()),
    )
    made = grouped.with_columns(
        rank=pl.lit(trace.meta.rank, pl.Int32()),
        total_device_ns="self_device_ns",
        device_share=pl.col("self_device_ns") / pl.col("self_device_ns").sum(),
        self_host_ns=pl.lit(None, pl.Int64),
    )
    order = ("self_device_ns", "total_host_ns", "calls", *keys)
    descending = [True, True, True, *[False] * len(keys)]
    return made.sort(order, descending=descending, nulls_last=True).select(
        pl.col(n).cast(t) for n, t in _schema(keys).items()
    )


Keep = Callable[[Trace], pl.Series]
"""Says of each activity of a trace whether it counts."""


def _kept(part: Only | None, device: int | None) -> Keep | None:
    if not part and device is None:
        return None

    def keep(trace: Trace) -> pl.Series:
        of_part = mask(trace, part or Only())
        return of_part & (trace.activities["device"] == device) if device is not None else of_part

    return keep


def device_times(
    trace: Trace, within: Range | None = None, keep: Keep | None = None
) -> tuple[Times, Times]:
    """Return self and total device time of each operator, in ns, by row of `trace.ops`."""
    counted = trace.activities if keep is None else trace.activities.filter(keep(trace))
    linked = counted.filter(pl.col("op").is_not_null())
    if within is not None:
        linked = _clip(linked, within)
    owner = linked["op"].to_numpy().astype(np.int64)
    start, end = spans(linked)
    own = intervals.grouped_length(owner, start, end, trace.ops.height)
    parent = nesting.ids(trace.ops["parent"])
    return own, subtree.totals(parent, subtree.Owned(owner, start, end))


def _clip(activities: pl.DataFrame, within: Range) -> pl.DataFrame:
    start = pl.max_horizontal("start_ns", pl.lit(within[0]))
    end = pl.min_horizontal(pl.col("start_ns") + pl.col("dur_ns"), pl.lit(within[1]))
    clipped = activities.select("op", start_ns=start, dur_ns=end - start)
    return clipped.filter(pl.col("dur_ns") > 0)


def measured(
    trace: Trace, chosen: list[Selection], within: Range | None, keep: Keep | None = None
) -> pl.DataFrame:
    """Return the operators of the window's steps, with their device times as `own` and `total`."""
    own, total = device_times(trace, within, keep)
    frame = trace.ops.with_columns(own=pl.Series(own), total=pl.Series(total))
    if keep is not None:
        frame = frame.filter(pl.col("total") > 0)
    elif within is not None:
        starts = pl.col("start_ns").is_between(*within, closed="left")
        frame = frame.filter(starts | (pl.col("total") > 0))
    numbers = step_numbers(chosen)
    if numbers:
        frame = frame.filter(pl.col("step").is_in(numbers))
    return frame


def _grouped(
    trace: Trace,
    chosen: list[Selection],
    within: Range | None,
    keys: tuple[str, ...],
    keep: Keep | None,
) -> pl.DataFrame:
    grouped = (
        measured(trace, chosen, within, keep)
        .group_by(_columns(keys))
        .agg(
            calls=pl.len(),
            self_device_ns=pl.col("own").sum(),
            total_device_ns=pl.col("total").sum(),
            self_host_ns=pl.col("self_ns").sum(),
            total_host_ns=pl.col("dur_ns").sum(),
        )
        .sort(
            "self_device_ns", "self_host_ns", *keys, descending=[True, True, *[False] * len(keys)]
        )
    )
    share = (pl.col("self_device_ns") / pl.col("self_device_ns").sum()).fill_nan(None)
    return grouped.with_columns(
        rank=pl.lit(trace.meta.rank, pl.Int32()), device_share=share
    ).select(pl.col(n).cast(t) for n, t in _schema(keys).items())
