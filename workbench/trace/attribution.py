"""Ties bare tables together: operator nesting, launch → operator, activity → launch, steps, phases.

Every reader ends here, whatever its format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.intervals import Times
from workbench.trace import (
    collectives,
    host,
    linkage,
    nesting,
    partners,
    phases,
    schema,
    steps,
    threads,
)
from workbench.trace.core import Trace
from workbench.trace.families import classified, launch_kind
from workbench.trace.nesting import NONE, Nested, Rows
from workbench.trace.oddities import oddities
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
    bare, renumber = threads.in_order(bare)
    problems = list(bare.problems)
    ops = _nest(bare.ops)
    ranges = _ranges(bare.ranges)
    host_steps = steps.host_steps(ranges, problems)
    classify = phases.classifier(ops.frame, ranges, host_steps)
    launches = _launches(bare.launches, ops.nested, classify)
    is_host = host.applies(bare, launches)
    op_frame = _operators(bare, ops, launches, classify, problems)
    record = collectives.records(op_frame, ops.nested.parent)
    recorded = np.zeros(launches.height, np.bool_)
    if is_host:
        activities = host.activities(op_frame, bare.ranges)
        by_time = True
    else:
        activities, recorded = _linked(bare, launches, op_frame)
        problems += oddities(activities, launches.with_columns(recorded=pl.Series(recorded)))
        by_time = steps.by_time(activities, host_steps, problems)
    if by_time:
        start = activities["start_ns"].to_numpy()
        activities = activities.with_columns(step=steps.containing(host_steps, start))
    linked = activities.with_row_index("id")
    linked = collectives.mark(classified(linked), launches, record)
    host_steps = steps.with_complete(launches, recorded, host_steps, bare.recording)
    tables = {
        "activities": linked,
        "launches": launches,
        "ops": op_frame,
        "ranges": linkage.waits(ranges, launches),
        "steps": steps.device_steps(linked, host_steps, by_time=by_time),
        "collectives": collectives.collectives(linked, op_frame, record, launches, ranges),
        "memory": _memory(bare.memory, ops.nested),
    }
    meta = replace(
        bare.meta,
        device_kind="cpu" if is_host else bare.meta.device_kind,
        device_reason=_reason(bare, launches, problems, is_host=is_host),
        recording=bare.recording,
    )
    counters = bare.counters.sort("t_ns", maintain_order=True)
    tables |= {"counters": counters, "problems": problem_table(problems)}
    tables |= {n: schema.empty(n) for n in schema.SELDOM}
    checked = {n: schema.check(n, schema.conform(n, f), reader) for n, f in tables.items()}
    return Trace(meta, checked, lambda: _frames(renumber(build_frames()), reader), host_steps)


def _nest(ops: pl.DataFrame) -> Operators:
    order, nested = nesting.sort_and_nest(ops)
    frame = _taken(ops, order).with_columns(
        id=pl.int_range(ops.height, dtype=schema.ID),
        parent=_ids(nested.parent),
        depth=nesting.depths(nested.parent),
    )
    return Operators(frame, nested)


def _taken(frame: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """Return rows of a table; columns that hold nothing are made anew, which is much faster."""
    held = [s.name for s in frame if s.null_count() < frame.height]
    nothing = (pl.lit(None, t).alias(n) for n, t in frame.schema.items() if n not in held)
    return frame.select(held)[rows].with_columns(*nothing).select(frame.columns)


def _ids(rows: Rows) -> pl.Series:
    """Turn row numbers with -1 for none into a nullable id column."""
    column = pl.Series(rows, dtype=pl.Int64)
    return column.set(column == NONE, None).cast(schema.ID)


def _ranges(ranges: pl.DataFrame) -> pl.DataFrame:
    """Nest ranges on their host thread or device stream; free ones are in no stack."""
    ranges = ranges.with_columns(pl.col("form").fill_null("nested"))
    free = ranges.filter(pl.col("form") == "free").sort("start_ns", maintain_order=True)
    ranges = ranges.filter(pl.col("form") != "free")
    lane = ranges.select(
        pl.struct("thread", "device", "stream").rank("dense").cast(pl.Int64)
    ).to_series()
    start = ranges["start_ns"].to_numpy()
    end = start + ranges["dur_ns"].to_numpy()
    order = nesting.order(lane.to_numpy(), start, end)
    nested = nesting.nest(lane.to_numpy()[order], start[order], end[order])
    stacked = ranges[order].with_columns(parent=_ids(nested.parent))
    both = pl.concat([stacked, free.with_columns(parent=pl.lit(None, schema.ID))])
    return both.with_columns(
        id=pl.int_range(both.height, dtype=schema.ID), domain=pl.col("domain").cast(schema.NAME)
    )


def _launches(launches: pl.DataFrame, ops: Nested, classify: phases.Classifier) -> pl.DataFrame:
    """Order the calls, classify them, and find the operator, step and phase that each runs in."""
    launches = launches.sort("thread", "start_ns", maintain_order=True)
    kinds = {n: launch_kind(n) for n in launches["name"].unique().cast(pl.String)}
    thread, start = launches["thread"].to_numpy(), launches["start_ns"].to_numpy()
    return launches.with_columns(
        id=pl.int_range(launches.height, dtype=schema.ID),
        kind=pl.col("name").replace_strict(kinds, return_dtype=schema.LAUNCH_KIND),
        op=_ids(nesting.innermost(ops, thread, start)),
        **_position(classify, thread, start),
    )


def _position(
    classify: phases.Classifier, thread: NDArray[np.integer], start: Times
) -> dict[str, pl.Series]:
    """Return the columns `step` and `phase` of host positions."""
    step = steps.containing(classify.host_steps, start)
    return {"step": step, "phase": classify(thread, start, step)}


def _operators(
    bare: RawTrace,
    ops: Operators,
    launches: pl.DataFrame,
    classify: phases.Classifier,
    problems: list[Problem],
) -> pl.DataFrame:
    """Add self time, step, phase, forward partner and module to the operators."""
    nested = ops.nested
    where = _position(classify, nested.thread, nested.start)
    backward = (where["phase"] == "backward").to_numpy()
    partner = partners.forward(ops.frame, bare.meta.threads, problems)
    return ops.frame.with_columns(
        self_ns=_self_ns(ops, launches),
        forward=_ids(partner),
        module=partners.modules(nested, partner, backward, bare.modules),
        **where,
    )


def _linked(
    bare: RawTrace, launches: pl.DataFrame, ops: pl.DataFrame
) -> tuple[pl.DataFrame, NDArray[np.bool_]]:
    """Order the activities; take operator, step and phase from the call that launched each.

    Also say of each call whether an activity carries its correlation. An activity without a
    recorded call that names its operator belongs to that one; its step and phase stay unknown.
    """
    activities = bare.activities.sort("start_ns", "device", "stream", maintain_order=True)
    row, recorded = linkage.link(activities, launches)
    op, step, phase = (nesting.gathered(launches[n], row) for n in ("op", "step", "phase"))
    if (row == NONE).any():
        process = linkage.of_threads(launches, _threads(ops, launches))
        named = linkage.by_external_id(activities, ops, process)
        op = op.zip_with(pl.Series(row != NONE), _ids(named))
    return activities.with_columns(
        launch=_ids(row), op=op, step=step, phase=phase, source=pl.lit("device", schema.SOURCE)
    ), recorded


def _threads(*frames: pl.DataFrame) -> int:
    return 1 + max((int(f["thread"].max()) for f in frames if f.height), default=0)  # type: ignore[arg-type]


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
