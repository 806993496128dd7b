"""`phases`: device time, idle time and host time by phase of the training step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis import gaps, pieces
from workbench.analysis.window import Range, Selection, own_time, select, spans
from workbench.intervals import EMPTY, Intervals, Times
from workbench.trace import nesting, schema
from workbench.trace.core import Source, Trace
from workbench.trace.names import matching
from workbench.trace.nesting import Rows
from workbench.trace.phases import STATED, stated

NEEDS = ("phases",)
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "step": pl.Int32(),
    "phase": pl.String(),
    "count": pl.Int64(),
    "busy_ns": pl.Int64(),
    "sum_ns": pl.Int64(),
    "busy_share": pl.Float64(),
    "idle_ns": pl.Int64(),
    "idle_share": pl.Float64(),
    "host_ns": pl.Int64(),
    "host_share": pl.Float64(),
}
UNKNOWN = len(schema.PHASES)
"""The code of an unknown phase."""
CODES = UNKNOWN + 1


def phases(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    by_step: bool = False,
) -> pl.DataFrame:
    """Return a row for each (rank, device, phase), with `by_step` for each launching step too.

    The phase of an activity is that of the host position that launched it
    (`workbench.trace.phases:classifier`); null where no launch is recorded. `count` is of
    activities that start in the window; `busy_ns` is the length of their union and `sum_ns` the
    sum of their durations, both clipped to the window. Phases run at the same time (communication
    under backward), so the shares of busy time |A| may add up to more than 1.

    `idle_ns` is what the device waited for work of the phase: each gap counts to the phase of the
    activity that ends it (ties: the earliest launch), and one that the window's end cuts off to
    null; the rows add up to the idle time of `breakdown`. `host_ns` is the time of host threads
    inside operators (with the runtime calls in them) of the phase and inside annotations that state
    it (`enumerate(DataLoader)…`, `Optimizer.step#…`, `nccl:…`), in the host ranges of the window's
    steps; each moment of a thread counts to the first phase in the order above, several threads
    count each, and Python between operators is not in it. It is of the whole rank, so the same for
    each of its devices; null without operators. By step it is that of the step's host range, and
    what lies outside of steps in the row without one. Shares are of the sum over phases, and of
    |A|.
    """
    found = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = []
    for trace in source.ranks:
        chosen = [s for s in found if s.trace is trace]
        host = _host(trace) if chosen else None
        frames += [_of(s, host, own_time(trace, source, within), by_step=by_step) for s in chosen]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


class _Groups(NamedTuple):
    """The steps that are told apart (null alone: all together), and the group of each activity."""

    steps: list[int | None]
    of_activity: Rows

    @property
    def size(self) -> int:
        """Return how many groups there are, a phase in a step each."""
        return len(self.steps) * CODES


def _of(
    chosen: Selection, host: list[Intervals] | None, within: Range | None, *, by_step: bool
) -> pl.DataFrame:
    groups = _groups(chosen, by_step=by_step)
    parts = pieces.of(chosen)
    sums = np.zeros(groups.size, np.int64)
    np.add.at(sums, groups.of_activity[parts.row], parts.end - parts.start)
    frame = pl.DataFrame(
        {
            "step": np.repeat(np.arange(len(groups.steps)), CODES),
            "phase": np.tile(np.arange(CODES), len(groups.steps)),
            "count": _counts(chosen, groups),
            "busy_ns": pieces.filled(parts, groups.of_activity, groups.size),
            "sum_ns": sums,
            "idle_ns": _idle(chosen, groups),
            "host_ns": _host_times(chosen, groups, host, within, by_step=by_step),
        }
    ).with_columns(
        step=pl.col("step").replace_strict(dict(enumerate(groups.steps)), return_dtype=pl.Int32),
        phase=pl.col("phase").replace_strict(
            dict(enumerate((*schema.PHASES, None))), return_dtype=pl.String
        ),
    )
    some = pl.any_horizontal(pl.col("count", "busy_ns", "idle_ns", "host_ns").fill_null(0) > 0)
    busy = intervals.length(chosen.times())
    return (
        frame.filter(some)
        .with_columns(
            rank=pl.lit(chosen.rank, pl.Int32),
            device=pl.lit(chosen.device, pl.Int32),
            busy_share=pl.col("busy_ns") / (busy or None),
            idle_share=(pl.col("idle_ns") / pl.col("idle_ns").sum()).fill_nan(None),
            host_share=(pl.col("host_ns") / pl.col("host_ns").sum()).fill_nan(None),
        )
        .select(pl.col(n).cast(t) for n, t in SCHEMA.items())
    )


def _groups(chosen: Selection, *, by_step: bool) -> _Groups:
    code = chosen.activities["phase"].to_physical().cast(pl.Int64).fill_null(UNKNOWN).to_numpy()
    if not by_step:
        return _Groups([None], code)
    step = chosen.activities["step"]
    known = chosen.trace.host_steps["step"] if chosen.steps is None else chosen.steps
    marked = set(step.unique().drop_nulls()) | set(known)
    steps: list[int | None] = [*sorted(marked), None]
    place = step.replace_strict({k: i for i, k in enumerate(steps)}, return_dtype=pl.Int64)
    return _Groups(steps, place.fill_null(len(steps) - 1).to_numpy() * CODES + code)


def _counts(chosen: Selection, groups: _Groups) -> Times:
    thing = pl.coalesce("op", "id") if chosen.is_host else pl.col("id")
    start = chosen.activities["start_ns"].to_numpy()
    counted = chosen.activities.select(thing=thing, group=pl.Series(groups.of_activity)).filter(
        pl.Series(intervals.contains(chosen.inside, start))
    )
    by_group = counted.group_by("group").agg(n=pl.col("thing").n_unique())
    found = np.zeros(groups.size, np.int64)
    found[by_group["group"].to_numpy()] = by_group["n"].to_numpy()
    return found


def _idle(chosen: Selection, groups: _Groups) -> Times:
    """Give each gap to the group of the activity that ends it."""
    dur, ender = gaps.ended(chosen)
    place = pl.Series(groups.of_activity, dtype=pl.Int64)
    group = ender.replace_strict(
        chosen.activities["id"], place, default=groups.size - 1, return_dtype=pl.Int64
    )
    found = np.zeros(groups.size, np.int64)
    np.add.at(found, group.to_numpy(), dur)
    return found


def _host(trace: Trace) -> list[Intervals] | None:
    """Return stretches of host threads for each of `CODES` phases; null without operators.

    Those of one thread are disjoint, those of several are not.
    """
    if not trace.ops.height:
        return None
    columns = ["thread", "start_ns", "dur_ns", "phase"]
    marks = trace.ranges.filter(pl.col("thread").is_not_null(), pl.col("form") == "nested")
    stating = [
        marks.filter(matching(marks["name"], lambda name, p=phase: stated(name) == p))  # type: ignore[misc]
        .with_columns(phase=pl.lit(phase, schema.PHASE))
        .select(columns)
        for phase in STATED
    ]
    events = pl.concat([trace.ops.select(columns), *stating]).with_columns(
        pl.col("phase").to_physical().cast(pl.Int64).fill_null(UNKNOWN)
    )
    return _first_phases(events)


def _first_phases(events: pl.DataFrame) -> list[Intervals]:
    """Return the stretches of all threads by phase; where several hold on one, the first."""
    thread, (start, end) = events["thread"].to_numpy(), spans(events)
    axis = nesting.Axis((thread, start), (thread, end))
    places = np.concatenate((axis(thread, start), axis(thread, end)))
    places, at = np.unique(places, return_index=True)
    times = np.concatenate((start, end))[at]
    found, seen = [], EMPTY
    for code in range(CODES):
        here = (events["phase"] == code).to_numpy()
        mine = intervals.union(axis(thread[here], start[here]), axis(thread[here], end[here]))
        fresh = intervals.difference(mine, seen)
        found.append(Intervals(*(times[np.searchsorted(places, edge)] for edge in fresh)))
        edges = [np.concatenate(pair) for pair in zip(seen, mine, strict=True)]
        seen = intervals.union(*edges)
    return found


def _host_times(
    chosen: Selection,
    groups: _Groups,
    host: list[Intervals] | None,
    within: Range | None,
    *,
    by_step: bool,
) -> list[int | None]:
    if host is None:
        return [None] * groups.size
    found: list[int | None] = []
    for number in groups.steps:
        inside = _host_time(chosen, number) if by_step else _host_window(chosen)
        inside = inside if within is None else intervals.clip(inside, *within)
        found += [int(intervals.covered(inside, *x).sum()) for x in host]
    return found


def _host_window(chosen: Selection) -> Intervals:
    """Return the host ranges of the window's steps; of a window without steps, all time."""
    if chosen.steps is None:
        limit = np.iinfo(np.int64)
        return Intervals(np.array([limit.min // 2]), np.array([limit.max // 2]))
    return _host_ranges(chosen.trace.host_steps.filter(pl.col("step").is_in(chosen.steps)))


def _host_time(chosen: Selection, step: int | None) -> Intervals:
    """Return the part of that in one step; for null, what lies in none."""
    marks = chosen.trace.host_steps
    window = _host_window(chosen)
    if step is None:
        return intervals.difference(window, _host_ranges(marks))
    return intervals.intersection(window, _host_ranges(marks.filter(step=step)))


def _host_ranges(marks: pl.DataFrame) -> Intervals:
    start = marks["host_start_ns"].to_numpy()
    return intervals.union(start, start + marks["host_dur_ns"].to_numpy())
