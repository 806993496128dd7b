"""Activities cut to a window, and the time that groups of them fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis.window import Range, Selection, spans, step_numbers
from workbench.intervals import Intervals, Times
from workbench.trace import nesting, steps
from workbench.trace.core import Trace
from workbench.trace.nesting import NONE, Rows


class Pieces(NamedTuple):
    """Stretches of activities inside a window; `row` is the activity's place in the selection."""

    row: Rows
    start: Times
    end: Times


def of(chosen: Selection) -> Pieces:
    """Cut a selection's activities to its window; an activity over a hole of it gives several."""
    return cut(*spans(chosen.activities), chosen.inside)


def cut(start: Times, end: Times, inside: Intervals) -> Pieces:
    """Cut stretches to a set of intervals, in the order of the stretches."""
    first = np.searchsorted(inside.end, start, "right")
    count = np.maximum(np.searchsorted(inside.start, end, "left") - first, 0)
    row = np.repeat(np.arange(len(start)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    interval = first[row] + within
    begins = np.maximum(start[row], inside.start[interval])
    ends = np.minimum(end[row], inside.end[interval])
    real = ends > begins
    return Pieces(row[real], begins[real], ends[real])


def filled(pieces: Pieces, group: NDArray[np.integer], groups: int) -> Times:
    """Return the length of the union of each group's pieces; `group` is by row, -1 for none."""
    mine = group[pieces.row].astype(np.int64)
    known = mine >= 0
    return intervals.grouped_length(mine[known], pieces.start[known], pieces.end[known], groups)


def launching(activities: pl.DataFrame, trace: Trace) -> tuple[NDArray[np.integer], Times]:
    """Return host thread and time at which each activity was launched; thread -1: not known.

    Under host execution that is where it ran.
    """
    if trace.meta.device_kind == "cpu":
        stream = activities["stream"].fill_null(NONE).to_numpy()
        return stream, activities["start_ns"].to_numpy()
    launch = nesting.ids(activities["launch"])
    known = launch != NONE
    thread, at = np.full(len(launch), NONE), np.zeros(len(launch), np.int64)
    thread[known] = trace.launches["thread"].to_numpy()[launch[known]]
    at[known] = trace.launches["start_ns"].to_numpy()[launch[known]]
    return thread, at


def begun(start: Times, chosen: list[Selection], within: Range | None) -> NDArray[np.bool_]:
    """Say which host events begin in the host steps of the selections' window, and in a range.

    All do where the window is not made of steps; the selections are of one trace, whose time the
    range is in.
    """
    keep = np.ones(len(start), np.bool_)
    numbers = step_numbers(chosen)
    if numbers:
        step = steps.containing(chosen[0].trace.host_steps, start)
        keep &= step.is_in(numbers).fill_null(value=False).to_numpy()
    if within is not None:
        keep &= (start >= within[0]) & (start < within[1])
    return keep
