"""The stretch of time that an analysis looks at, a device at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis.steadiness import outliers
from workbench.errors import UsageError, unknown_name
from workbench.intervals import Intervals, Times
from workbench.trace.core import Source, Trace

WINDOWS = ("steps", "steady", "host", "all")
Range = tuple[int, int]
"""First and last ns of a stretch of time, in the source's time; the last is not part of it."""


@dataclass(frozen=True)
class Selection:
    """One device of one rank inside its window."""

    trace: Trace
    device: int | None
    """Accelerator index; null for host execution."""
    window: str
    """The window that was used, which is `all` when there are no complete steps."""
    inside: Intervals
    steps: tuple[int, ...] | None
    """The steps that the window is made of; null when it is not made of steps."""
    activities: pl.DataFrame
    """This device's activities that touch the window."""

    @property
    def rank(self) -> int | None:
        """The rank, when it is known."""
        return self.trace.meta.rank

    @property
    def is_host(self) -> bool:
        """Say whether the device is the host itself."""
        return self.trace.meta.device_kind == "cpu"

    @property
    def length_ns(self) -> int:
        """The length of the window."""
        return intervals.length(self.inside)

    def times(self, *kinds: str) -> Intervals:
        """Return the union of activities, of some kinds or of all, inside the window."""
        frame = self.activities
        if kinds:
            frame = frame.filter(pl.col("kind").is_in(kinds))
        start, end = spans(frame)
        return intervals.intersection(intervals.union(start, end), self.inside)

    def counted(self) -> pl.DataFrame:
        """Return the activities that count: those whose start lies in the window."""
        start = self.activities["start_ns"].to_numpy()
        return self.activities.filter(pl.Series(intervals.contains(self.inside, start)))

    def clipped_ns(self) -> pl.Series:
        """Return how much of each activity lies in the window."""
        return pl.Series("clipped_ns", intervals.covered(self.inside, *spans(self.activities)))


def step_numbers(chosen: list[Selection]) -> set[int]:
    """Return the steps that the windows of some selections are made of; none: not of steps."""
    return {k for s in chosen if s.steps is not None for k in s.steps}


def spans(frame: pl.DataFrame) -> tuple[Times, Times]:
    """Return start and end of a table's rows."""
    start = frame["start_ns"].to_numpy()
    return start, start + frame["dur_ns"].to_numpy()


def select(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> list[Selection]:
    """Return one selection for each (rank, device) that has activity; none without times.

    Parameters
    ----------
    window
        `steps`: union of complete device steps (without any, as `all`); `steady`: the same without
        steps that are outliers (`judged`); `host`: union of complete host step ranges; `all`: first
        start to last end of the device's activity, in each file where a rank recorded several:
        nothing is known of the time between them.
    step
        First and last step number (both included) to narrow a window of steps to; a device
        without a complete step among them has no selection.
    within
        Start and end, in ns of the source's time, to cut the window to: durations are clipped to
        it, and an activity counts when its start lies in it. `Selection.steps` stays as it was.

    Raises
    ------
    UsageError
        An unknown window, a range whose end lies before its start, or a rank, device or step that
        the source does not have (of a device, neither activity nor memory).
    """
    if window not in WINDOWS:
        raise unknown_name("window", window, WINDOWS)
    if step is not None and window == "all":
        raise UsageError("--step narrows the windows made of steps, and --window is all.")
    if within is not None and within[1] < within[0]:
        raise UsageError(f"within must be (start_ns, end_ns) in order, not {within}.")
    found = [
        _selection(trace, number, window, step, own_time(trace, source, within))
        for trace in source.ranks
        if trace.meta.timed and (rank is None or trace.meta.rank == rank)
        for number in _devices(trace)
        if device is None or number == device
    ]
    check(source, rank=rank, device=device)
    if step is None:
        return found
    found = [s for s in found if s.steps]
    if not found:
        raise UsageError(
            f"No complete step lies in {step[0]}:{step[1]}; `show … steps` lists them."
        )
    return found


def check(source: Source, *, rank: int | None = None, device: int | None = None) -> None:
    """Raise a UsageError for a rank or a device that the source does not have."""
    ranks = [t.meta.rank for t in source.ranks]
    of_rank = [t for t in source.ranks if rank is None or t.meta.rank == rank]
    held = [x["device"].unique().to_list() for t in of_rank for x in (t.memory, t.segments)]
    found = [_devices(t) for t in of_rank] + held
    devices = sorted({d for part in found for d in part if d is not None})
    if rank is not None and rank not in ranks:
        known = ", ".join("unknown" if r is None else str(r) for r in ranks)
        raise UsageError(f"There is no rank {rank}; the recording's ranks: {known}.")
    if device is not None and device not in devices:
        where = "" if rank is None else f" of rank {rank}"
        known = ", ".join(map(str, devices)) or "none"
        raise UsageError(f"There is no device {device}{where}; devices with activity: {known}.")


def _devices(trace: Trace) -> list[int | None]:
    return trace.activities["device"].unique().sort().to_list()


def own_time(trace: Trace, source: Source, within: Range | None) -> Range | None:
    """Shift a range of the source's time to that of one of its traces."""
    shift = trace.meta.origin_ns - source.origin_ns
    return None if within is None else (within[0] - shift, within[1] - shift)


def _selection(
    trace: Trace,
    device: int | None,
    window: str,
    step: tuple[int, int] | None,
    within: Range | None,
) -> Selection:
    activities = trace.activities.filter(pl.col("device").eq_missing(device))
    on_device = trace.steps.filter(pl.col("device").eq_missing(device))
    steps = (trace.host_steps if window == "host" else on_device).filter("complete")
    if window == "steady":
        steps = steps.filter(~judged(steps)["outlier"].fill_null(value=False))
    if step is not None:
        steps = steps.filter(pl.col("step").is_between(*step))
    if window == "all" or not steps.height:
        window, numbers, inside = "all", None, _whole(trace, activities)
    else:
        numbers = tuple(steps["step"])
        inside = _union(steps, "host_" if window == "host" else "")
    if within is not None:
        inside = intervals.clip(inside, *within)
    start, end = spans(activities)
    touches = (intervals.covered(inside, start, end) > 0) | intervals.contains(inside, start)
    return Selection(
        trace,
        device,
        window,
        inside,
        numbers,
        activities.filter(pl.Series(touches, dtype=pl.Boolean)),
    )


def judged(steps: pl.DataFrame) -> pl.DataFrame:
    """Add `outlier` to the steps of one device: unlike its other steps, by `steadiness.outliers`.

    Null for the steps that are not judged: the incomplete, and the tail, which ends with its latest
    activity and not where a next step begins.
    """
    whole = steps["complete"] & ~steps["tail"]
    place = whole.arg_true()
    found = pl.Series(outliers(steps["dur_ns"].gather(place).to_numpy()), dtype=pl.Boolean)
    none = pl.repeat(None, steps.height, dtype=pl.Boolean, eager=True)
    return steps.with_columns(outlier=none.scatter(place, found))


def _union(steps: pl.DataFrame, prefix: str) -> Intervals:
    start = steps[f"{prefix}start_ns"].to_numpy()
    return intervals.union(start, start + steps[f"{prefix}dur_ns"].to_numpy())


def _whole(trace: Trace, activities: pl.DataFrame) -> Intervals:
    start, end = spans(activities)
    begins = np.array([w.start_ns for w in trace.meta.windows][1:], np.int64)
    file = np.searchsorted(begins, start, "right")
    recorded = [file == f for f in np.unique(file)]
    first, last = [start[f].min() for f in recorded], [end[f].max() for f in recorded]
    return intervals.union(np.array(first, np.int64), np.array(last, np.int64))
