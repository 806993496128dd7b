"""Training steps: the ranges that the program marked, and what they mean on each device."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.intervals import Times
from workbench.trace import schema
from workbench.trace.families import STEP
from workbench.trace.problems import Problem

RECORDED_SHARE = 0.99
"""Share of a step's launch-type calls that need a record for the step to be complete."""
LINKED_SHARE = 0.5
"""Below this share of activities with a launch, steps are told by time."""


def host_steps(ranges: pl.DataFrame) -> pl.DataFrame:
    """Return `step host_start_ns host_dur_ns` of the `ProfilerStep#N` host ranges, by start.

    A number that is marked twice counts at its first mark.
    """
    marks = ranges.filter((pl.col("domain") == "step") & pl.col("device").is_null())
    return (
        marks.select(
            step=pl.col("name")
            .cast(pl.String)
            .str.extract(STEP.pattern)
            .cast(pl.Int32, strict=False),
            host_start_ns="start_ns",
            host_dur_ns="dur_ns",
        )
        .drop_nulls()
        .sort("host_start_ns", maintain_order=True)
        .unique("step", keep="first", maintain_order=True)
    )


def containing(host: pl.DataFrame, at: Times) -> pl.Series:
    """Return the number of the host step that holds each time, null outside steps."""
    if not host.height:
        return pl.repeat(None, len(at), dtype=pl.Int32, eager=True)
    start = host["host_start_ns"].to_numpy()
    end = start + host["host_dur_ns"].to_numpy()
    i = np.searchsorted(start, at, "right") - 1
    inside = (i >= 0) & (at < end[i])
    return host["step"].gather(np.maximum(i, 0)).set(pl.Series(~inside), None)


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
    activities: pl.DataFrame,
    launches: pl.DataFrame,
    launch_steps: pl.Series,
    host: pl.DataFrame,
    recording: tuple[int, int],
) -> pl.DataFrame:
    """Add `complete`: recorded from begin to end, and nearly all launches have a record."""
    begin, end = recording
    calls = (
        launches.with_columns(launch_steps.alias("step"))
        .filter(pl.col("kind").is_in(schema.LAUNCH_TYPE_KINDS) & pl.col("step").is_not_null())
        .join(
            activities.select(id="launch").drop_nulls().unique(),
            on="id",
            how="left",
            coalesce=False,
        )
        .group_by("step")
        .agg(calls=pl.len(), recorded=pl.col("id_right").count())
    )
    whole = (pl.col("host_start_ns") >= begin) & (
        pl.col("host_start_ns") + pl.col("host_dur_ns") <= end
    )
    enough = pl.col("recorded") >= RECORDED_SHARE * pl.col("calls")
    return host.join(calls, on="step", how="left", maintain_order="left").select(
        *host.columns, complete=whole & enough.fill_null(value=True)
    )
