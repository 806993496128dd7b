"""What two recordings are compared over: each device's steps, and the time that each thing owns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis.window import Selection, select, spans
from workbench.errors import UsageError
from workbench.intervals import Intervals, Times
from workbench.trace.core import Job, Source, Trace
from workbench.trace.schema import COMPUTE_KINDS, COPY_KINDS, LAUNCH_TYPE_KINDS

PAINTED = (COMPUTE_KINDS, ("collective",), COPY_KINDS)
"""The order in which instants are given away; what none of them has is idle."""
NO_OPERATOR = "(no operator)"
NO_FAMILY = "(no family)"
STEP_MARK = "ProfilerStep"


@dataclass(frozen=True)
class Side:
    """One device of one recording over the time that is compared."""

    chosen: Selection
    host: Intervals
    """When host events count: the host ranges of its steps, or all time."""
    steps: int
    """How many steps the time is of; 1 for a whole window."""

    @property
    def trace(self) -> Trace:
        """The recording."""
        return self.chosen.trace

    def activities(self) -> pl.DataFrame:
        """Return `kind family operator name own_ns counts` of each activity in the window.

        `own_ns` is its exclusive time; `counts` says whether it starts in the window.
        """
        activities = self.chosen.activities
        operator = self.trace.ops.select(op="id", operator=pl.col("name").cast(pl.String))
        start = activities["start_ns"].to_numpy()
        found = activities.join(operator, on="op", how="left", maintain_order="left").select(
            pl.col("kind").cast(pl.String),
            pl.col("family").cast(pl.String).fill_null(NO_FAMILY),
            pl.col("operator").fill_null(NO_OPERATOR),
            pl.col("name").cast(pl.String),
            own_ns=pl.Series(exclusive(self.chosen)),
            counts=pl.Series(intervals.contains(self.chosen.inside, start)),
        )
        return found.filter(pl.col("counts") | (pl.col("own_ns") > 0))

    def host_events(self) -> pl.DataFrame:
        """Return `name dur_ns is_launch` of operators, calls and annotations that begin in it."""
        trace = self.trace
        by_host = trace.ranges.filter(pl.col("thread").is_not_null())
        # steps are numbered on through a run, so their marks compare by what they are
        is_step = pl.col("domain") == "step"
        by_host = by_host.with_columns(
            name=pl.when(is_step).then(pl.lit(STEP_MARK)).otherwise(pl.col("name").cast(pl.String))
        )
        launch_type = pl.col("kind").is_in(LAUNCH_TYPE_KINDS)
        parts = [
            (trace.ops, pl.lit(value=False)),
            (trace.launches, launch_type),
            (by_host, pl.lit(value=False)),
        ]
        return pl.concat(
            frame.filter(
                pl.Series(intervals.contains(self.host, frame["start_ns"].to_numpy()))
            ).select(pl.col("name").cast(pl.String), "dur_ns", is_launch=flag)
            for frame, flag in parts
        )


def exclusive(chosen: Selection) -> Times:
    """Return how much of the window each activity has for itself, in ns.

    Each instant of the busy time is given to one activity: to compute before communication before
    copies and sets, and among activities of one sort that run at once to the one that began
    first. So the times of all activities add up to |A| in the window.
    """
    start, end = spans(chosen.activities)
    kind = chosen.activities["kind"].cast(pl.String)
    own, left = np.zeros(len(start), np.int64), chosen.inside
    for kinds in PAINTED:
        which = np.flatnonzero(kind.is_in(kinds).to_numpy())
        which = which[np.argsort(start[which], kind="stable")]
        if not len(which):
            continue
        reach = np.maximum.accumulate(end[which])
        begin = np.maximum(start[which], np.concatenate((start[which][:1], reach[:-1])))
        own[which] = intervals.covered(left, begin, end[which])
        left = intervals.difference(left, intervals.union(start[which], end[which]))
    return own


def pairs(
    a: Source, b: Source, step: tuple[int, int] | None, rank: int | None
) -> list[tuple[Side, Side]]:
    """Pair devices of two recordings by rank and device; UsageError for what can't be compared."""
    found = []
    for left, right in zip(*_ranks(a, b, rank), strict=True):
        _refuse(left, right)
        devices = [select(t, window="all") for t in (left, right)]
        if len(devices[0]) != len(devices[1]):
            raise UsageError(
                f"A has {len(devices[0])} devices and B {len(devices[1])} in one rank's file; "
                "compare recordings of as many devices."
            )
        for one, other in zip(*devices, strict=True):
            found.append(_pair(one, other, step))
    return found


def _ranks(a: Source, b: Source, rank: int | None) -> tuple[tuple[Trace, ...], tuple[Trace, ...]]:
    """Return the traces to pair; those of two jobs by rank, two single ones whatever theirs."""
    if rank is not None:
        return tuple(tuple(t for t in s.ranks if t.meta.rank == rank) or _none(s, rank)
                     for s in (a, b))  # type: ignore[return-value] # fmt: skip
    if not isinstance(a, Job) and not isinstance(b, Job):
        return a.ranks, b.ranks
    numbers = [sorted(str(t.meta.rank) for t in s.ranks) for s in (a, b)]
    if numbers[0] != numbers[1]:
        raise UsageError(
            f"A holds ranks {', '.join(numbers[0])} and B ranks {', '.join(numbers[1])}; "
            "name one that both have with --rank (rank=…)."
        )
    by_rank = [sorted(s.ranks, key=lambda t: str(t.meta.rank)) for s in (a, b)]
    return tuple(by_rank[0]), tuple(by_rank[1])


def _none(source: Source, rank: int) -> tuple[Trace, ...]:
    known = ", ".join(str(t.meta.rank) for t in source.ranks)
    raise UsageError(f"There is no rank {rank} in one of the two recordings; it has {known}.")


def _refuse(a: Trace, b: Trace) -> None:
    """Raise for two traces whose times mean different things."""
    for name, trace in (("A", a), ("B", b)):
        if not trace.meta.timed:
            raise UsageError(
                f"{name} ({trace.meta.format}) says what ran but not when, so its time can't be "
                "compared; give a recording of the profiler."
            )
        if not trace.activities.height:
            why = trace.meta.device_reason or "no device activity is recorded"
            raise UsageError(f"{name} has no device time to compare: {why}.")
    kinds = [t.meta.device_kind for t in (a, b)]
    if ("cpu" in kinds) and kinds[0] != kinds[1]:
        raise UsageError(
            f"A ran on {kinds[0]} and B on {kinds[1]}: time of host operators and time of a "
            "device's kernels are not the same thing; compare two of one sort."
        )


def _pair(one: Selection, other: Selection, step: tuple[int, int] | None) -> tuple[Side, Side]:
    marks = [_steps(s, step) for s in (one, other)]
    if step is not None and not all(m.height for m in marks):
        name = "AB"[next(i for i, m in enumerate(marks) if not m.height)]
        raise UsageError(f"{name} has no step in {step[0]}:{step[1]}; `show … steps` lists them.")
    if all(m.height for m in marks):
        return _of_steps(one, marks[0]), _of_steps(other, marks[1])
    return _whole(one), _whole(other)


def _steps(chosen: Selection, step: tuple[int, int] | None) -> pl.DataFrame:
    """Return a device's steps to compare: complete ones that are no tail, or those named."""
    steps = chosen.trace.steps.filter(pl.col("device").eq_missing(chosen.device))
    if step is not None:
        return steps.filter(pl.col("step").is_between(*step))
    return steps.filter(pl.col("complete") & ~pl.col("tail"))


def _of_steps(chosen: Selection, steps: pl.DataFrame) -> Side:
    host = steps["host_start_ns"].to_numpy()
    return Side(
        Selection(
            chosen.trace,
            chosen.device,
            "steps",
            intervals.union(*spans(steps)),
            tuple(steps["step"]),
            chosen.activities,
        ),
        intervals.union(host, host + steps["host_dur_ns"].to_numpy()),
        steps.height,
    )


def _whole(chosen: Selection) -> Side:
    limit = np.iinfo(np.int64)
    always = Intervals(np.array([limit.min]), np.array([limit.max]))
    return Side(chosen, always, 1)
