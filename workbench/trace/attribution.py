"""Ties bare tables together: operator nesting, launch → operator, activity → launch, steps, phases.

Every reader ends here, whatever its format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from workbench import intervals
from workbench.trace import host, nesting, phases, schema, steps
from workbench.trace.collectives import collectives
from workbench.trace.core import Trace
from workbench.trace.families import launch_kind
from workbench.trace.nesting import NONE, Nested, Rows
from workbench.trace.problems import Problem
from workbench.trace.problems import table as problem_table
from workbench.trace.raw import RawTrace

HOST_REASON = "host execution, no GPU activity in this trace"


class Operators(NamedTuple):
    """The operator table in nesting order, and its nesting."""

    frame: pl.DataFrame
    nested: Nested


def attribute(bare: RawTrace, build_frames: Callable[[], pl.DataFrame], reader: str) -> Trace:
    """Turn a reader's bare tables into a `Trace` with every table attributed and checked."""
    ops = _nest(bare.ops)
    ranges = _ranges(bare.ranges)
    host_steps = steps.host_steps(ranges)
    launches = _launches(bare.launches, ops.nested)
    is_host = host.applies(bare, launches)
    classify = phases.classifier(ops.frame, ranges, host_steps)
    launch_steps = steps.containing(host_steps, launches["start_ns"].to_numpy())
    op_frame = ops.frame.with_columns(
        self_ns=_self_ns(ops, launches),
        step=steps.containing(host_steps, ops.nested.start),
        phase=classify(ops.nested.thread, ops.nested.start),
    )
    launch_phase = classify(launches["thread"].to_numpy(), launches["start_ns"].to_numpy())
    problems = list(bare.problems)
    if is_host:
        activities = host.activities(op_frame, bare.ranges)
        by_time = True
    else:
        activities = _link(bare.activities, launches)
        activities = _follow(activities, launches, launch_steps, launch_phase)
        by_time = steps.by_time(activities, host_steps, problems)
    if by_time:
        start = activities["start_ns"].to_numpy()
        activities = activities.with_columns(step=steps.containing(host_steps, start))
    linked = activities.with_row_index("id")
    host_steps = steps.with_complete(linked, launches, launch_steps, host_steps, bare.recording)
    tables = {
        "activities": linked,
        "launches": launches,
        "ops": op_frame,
        "ranges": ranges,
        "steps": steps.device_steps(linked, host_steps, by_time=by_time),
        "collectives": collectives(linked, op_frame),
        "memory": _memory(bare.memory, ops.nested),
    }
    meta = replace(
        bare.meta,
        device_kind="cpu" if is_host else bare.meta.device_kind,
        device_reason=_reason(bare, launches, problems, is_host=is_host),
        recording=bare.recording,
    )
    tables |= {"counters": bare.counters.sort("t_ns"), "problems": problem_table(problems)}
    checked = {n: schema.check(n, schema.conform(n, f), reader) for n, f in tables.items()}
    return Trace(meta, checked, lambda: _frames(build_frames(), reader), host_steps)


def _nest(ops: pl.DataFrame) -> Operators:
    thread, start = ops["thread"].to_numpy(), ops["start_ns"].to_numpy()
    end = start + ops["dur_ns"].to_numpy()
    order = nesting.order(thread, start, end)
    nested = nesting.nest(thread[order], start[order], end[order])
    frame = ops[order].with_columns(
        id=pl.int_range(ops.height, dtype=schema.ID),
        parent=_ids(nested.parent),
        depth=nesting.depths(nested.parent),
    )
    return Operators(frame, nested)


def _ids(rows: Rows) -> pl.Series:
    """Turn row numbers with -1 for none into a nullable id column."""
    column = pl.Series(rows, dtype=pl.Int64)
    return column.set(column == NONE, None).cast(schema.ID)


def _ranges(ranges: pl.DataFrame) -> pl.DataFrame:
    """Nest ranges on their host thread or device stream."""
    lane = ranges.select(
        pl.struct("thread", "device", "stream").rank("dense").cast(pl.Int64)
    ).to_series()
    start = ranges["start_ns"].to_numpy()
    end = start + ranges["dur_ns"].to_numpy()
    order = nesting.order(lane.to_numpy(), start, end)
    nested = nesting.nest(lane.to_numpy()[order], start[order], end[order])
    return ranges[order].with_columns(
        id=pl.int_range(ranges.height, dtype=schema.ID),
        parent=_ids(nested.parent),
        domain=pl.col("domain").cast(schema.NAME),
    )


def _launches(launches: pl.DataFrame, ops: Nested) -> pl.DataFrame:
    """Order the calls, classify them and find the operator that each runs in."""
    launches = launches.sort("thread", "start_ns", maintain_order=True)
    names = launches["name"].unique().cast(pl.String)
    kinds = {n: launch_kind(n) for n in names}
    op = nesting.innermost(ops, launches["thread"].to_numpy(), launches["start_ns"].to_numpy())
    return launches.with_columns(
        id=pl.int_range(launches.height, dtype=schema.ID),
        kind=pl.col("name").cast(pl.String).replace_strict(kinds, return_dtype=schema.LAUNCH_KIND),
        op=_ids(op),
    )


def _link(activities: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Find each activity's launch by correlation; a graph launch owns many activities.

    Where calls share a correlation (a runtime call and the driver call below it), the one that
    puts work on the device wins, the earliest first.
    """
    process = pl.col("process").fill_null(0)
    calls = launches.filter(pl.col("correlation").is_not_null()).select(
        process,
        "correlation",
        "start_ns",
        launch="id",
        other=~pl.col("kind").is_in(schema.LAUNCH_TYPE_KINDS),
    )
    calls = calls.sort("other", "start_ns", maintain_order=True).unique(
        ["process", "correlation"], keep="first", maintain_order=True
    )
    activities = activities.sort("start_ns", "device", "stream", maintain_order=True)
    return activities.with_columns(process).join(
        calls.select("process", "correlation", "launch"),
        on=["process", "correlation"],
        how="left",
        maintain_order="left",
    )


def _follow(
    activities: pl.DataFrame, launches: pl.DataFrame, step: pl.Series, phase: pl.Series
) -> pl.DataFrame:
    """Take operator, step and phase from the launch."""
    of_launch = launches.select(pl.col("op"), step.alias("step"), phase.alias("phase"), launch="id")
    return activities.join(of_launch, on="launch", how="left", maintain_order="left").with_columns(
        source=pl.lit("device", schema.SOURCE)
    )


def _self_ns(ops: Operators, launches: pl.DataFrame) -> pl.Series:
    """Return dur - |union of direct children and runtime calls, clipped to the operator|."""
    nested = ops.nested
    call_start = launches["start_ns"].to_numpy()
    call_end = call_start + launches["dur_ns"].to_numpy()
    owner = np.concatenate((nested.parent, launches["op"].cast(pl.Int64).fill_null(NONE)))
    start = np.concatenate((nested.start, call_start))
    end = np.concatenate((nested.end, call_end))
    inside = owner >= 0
    owner, start, end = owner[inside], start[inside], end[inside]
    start = np.maximum(start, nested.start[owner])
    end = np.minimum(end, nested.end[owner])
    below = intervals.grouped_length(owner, start, end, len(nested.start))
    return pl.Series(nested.end - nested.start - below)


def _memory(memory: pl.DataFrame, ops: Nested) -> pl.DataFrame:
    memory = memory.sort("t_ns", maintain_order=True)
    op = nesting.innermost(ops, memory["thread"].to_numpy(), memory["t_ns"].to_numpy())
    return memory.with_columns(op=_ids(op))


def _reason(
    bare: RawTrace, launches: pl.DataFrame, problems: list[Problem], *, is_host: bool
) -> str | None:
    """Say why there are no device figures; null when there are some."""
    if is_host:
        return HOST_REASON
    if bare.activities.height:
        return None
    if bare.unread_accelerator:
        return f"the activity rows of {bare.unread_accelerator} are not read yet"
    calls = launches.filter(pl.col("kind").is_in(schema.LAUNCH_TYPE_KINDS))
    if not calls.height:
        return "the trace has no device activity"
    problems.append(
        Problem(
            code="device_activity_missing",
            count=calls.height,
            first_example=str(calls["name"][0]),
            effect="work was launched but no device activity was recorded; "
            "device figures are unknown",
        )
    )
    return "work was launched, but the trace has no device activity"


def _frames(frames: pl.DataFrame, reader: str) -> pl.DataFrame:
    return schema.check("frames", schema.conform("frames", frames), reader)
