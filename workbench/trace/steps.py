"""Training steps: the ranges that the program marked, and what they mean on each device."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.intervals import Times
from workbench.trace import nesting, schema
from workbench.trace.core import HOST_STEPS
from workbench.trace.families import STEP
from workbench.trace.nesting import NONE
from workbench.trace.problems import Problem

RECORDED_SHARE = 0.99
"""Share of a step's launch-type calls that need a record for the step to be complete."""
LINKED_SHARE = 0.5
"""Below this share of activities with a launch, steps are told by time."""


def host_steps(ranges: pl.DataFrame, problems: list[Problem] | None = None) -> pl.DataFrame:
    """Return `step host_start_ns host_dur_ns` of the `ProfilerStep#N` host ranges, by start.

    Marks of one number that overlap (on several threads) are one step, from the first begin to the
    last end. A number that is marked again later counts at its first mark. Both that and steps
    inside or across one another are noted as problems.
    """
    marks = ranges.filter((pl.col("domain") == "step") & pl.col("device").is_null())
    if not marks.height:
        return pl.DataFrame(schema={n: t for n, t in HOST_STEPS.items() if n != "complete"})
    number = pl.col("name").cast(pl.String).str.extract(STEP.pattern)
    marks = marks.select(
        "start_ns",
        step=number.cast(pl.Int32, strict=False),
        end_ns=pl.col("start_ns") + pl.col("dur_ns"),
    )
    marks = marks.drop_nulls("step").sort("step", "start_ns", maintain_order=True)
    reach = pl.col("end_ns").cum_max().shift(1).over("step")
    later = (pl.col("start_ns") >= reach).fill_null(value=False).cast(pl.Int32).cum_sum()
    marks = marks.with_columns(turn=later.over("step"))
    first = (
        marks.filter(pl.col("turn") == 0)
        .group_by("step")
        .agg(host_start_ns=pl.col("start_ns").min(), end_ns=pl.col("end_ns").max())
        .select("step", "host_start_ns", host_dur_ns=pl.col("end_ns") - pl.col("host_start_ns"))
        .sort("host_start_ns", "host_dur_ns", "step", descending=[False, True, False])
    )
    if problems is not None:
        problems += _crooked(marks.filter(pl.col("turn") > 0), first)
    return first


def _crooked(again: pl.DataFrame, steps: pl.DataFrame) -> list[Problem]:
    """Describe what keeps the marks from being a row of separate steps."""
    reach = (pl.col("host_start_ns") + pl.col("host_dur_ns")).cum_max().shift(1)
    inside = steps.filter(pl.col("host_start_ns") < reach)
    found = []
    if again.height:
        found.append(
            Problem(
                code="steps_repeated",
                count=again.height,
                first_example=f"ProfilerStep#{again['step'][0]}",
                effect="only the first mark of a number is a step; what was launched in a later "
                "one belongs to no step",
            )
        )
    if inside.height:
        found.append(
            Problem(
                code="steps_overlap",
                count=inside.height,
                first_example=f"ProfilerStep#{inside['step'][0]} begins inside another step",
                effect="work launched inside several steps belongs to the one that began last",
            )
        )
    return found


def containing(host: pl.DataFrame, at: Times) -> pl.Series:
    """Return the number of the innermost host step that holds each time, null outside steps."""
    if not host.height:
        return pl.repeat(None, len(at), dtype=pl.Int32, eager=True)
    start = host["host_start_ns"].to_numpy()
    end = start + host["host_dur_ns"].to_numpy()
    around = nesting.parents(np.zeros(len(start), np.int64), start, end)
    row = np.searchsorted(start, at, "right") - 1
    over = np.flatnonzero((row != NONE) & (end[row] <= at))
    while len(over):
        row[over] = around[row[over]]
        over = over[row[over] != NONE]
        over = over[end[row[over]] <= at[over]]
    return nesting.gathered(host["step"], row)


def by_time(activities: pl.DataFrame, host: pl.DataFrame, problems: list[Problem]) -> bool:
    """Say whether too few activities have a launch to tell their step by it; note the problem."""
    total, linked = activities.height, activities["launch"].count()
    if not total or not host.height or linked >= LINKED_SHARE * total:
        return False
    problems.append(
        Problem(
            code="steps_by_time",
            count=total - linked,
            first_example=f"{linked} of {total} activities have a launch record",
            effect="steps are the host ranges, and activities belong to them by start time",
        )
    )
    return True


def device_steps(activities: pl.DataFrame, host: pl.DataFrame, *, by_time: bool) -> pl.DataFrame:
    """Return the `steps` table: [S(k), S(k+1)) by device, or the host ranges when `by_time`.

    S(k) is the earliest start among activities launched inside host step k. The last step of a
    device ends with its latest activity and is flagged `tail`.
    """
    found = (
        activities.filter(pl.col("step").is_not_null())
        .group_by("device", "step")
        .agg(
            first=pl.col("start_ns").min(),
            last=(pl.col("start_ns") + pl.col("dur_ns")).max(),
        )
        .join(host, on="step")
        .sort("device", "host_start_ns")
    )
    following = pl.col("first").shift(-1).over("device")
    end = pl.max_horizontal("first", following.fill_null(pl.col("last")))
    return found.with_columns(
        start_ns=pl.col("host_start_ns") if by_time else pl.col("first"),
        dur_ns=pl.col("host_dur_ns") if by_time else end - pl.col("first"),
        tail=pl.lit(False) if by_time else following.is_null(),
    )


def with_complete(
    launches: pl.DataFrame,
    recorded: NDArray[np.bool_],
    host: pl.DataFrame,
    recording: tuple[int, int],
) -> pl.DataFrame:
    """Add `complete`: recorded from begin to end, and nearly all launches have a record.

    `recorded` says of each call (which have a `step`) whether an activity carries its correlation.
    """
    begin, end = recording
    calls = (
        launches.select("kind", "step", recorded=pl.Series(recorded))
        .filter(pl.col("kind").is_in(schema.LAUNCH_TYPE_KINDS) & pl.col("step").is_not_null())
        .group_by("step")
        .agg(calls=pl.len(), recorded=pl.col("recorded").sum())
    )
    whole = (pl.col("host_start_ns") >= begin) & (
        pl.col("host_start_ns") + pl.col("host_dur_ns") <= end
    )
    enough = pl.col("recorded") >= RECORDED_SHARE * pl.col("calls")
    return host.join(calls, on="step", how="left", maintain_order="left").select(
        *host.columns, complete=whole & enough.fill_null(value=True)
    )
