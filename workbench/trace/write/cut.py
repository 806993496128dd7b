"""Which rows stay when a trace is cut to some steps, or to a stretch of time.

What stays keeps its times and its step number. Cut to steps, a reader finds those steps exactly as
they were:

- device work stays when it was launched in the steps' host time, or runs in their device time;
- a call stays when it lies in the steps' host time, or launched work that stays;
- an operator, range or frame stays when it runs during the steps' host time, or around a call that
  stays; what began in that time keeps all of its operators and calls, so its self time holds;
- since a device step ends where the next begins, the first piece of work of the following step
  stays with its call and mark, and that step is left incomplete;
- other steps lose their mark, so work they launched that still runs belongs to no step;
- allocations and counters stay by their time.

A phase that rests on what a thread does outside the steps (an autograd thread is told by doing
backward work alone) can read otherwise once that is gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.errors import InputError, UsageError
from workbench.trace import nesting
from workbench.trace.core import Trace
from workbench.trace.families import STEP
from workbench.trace.nesting import NONE, Axis, Rows
from workbench.trace.steps import LINKED_SHARE
from workbench.trace.write.part import Part, device_work, whole
from workbench.units import NS_PER_MS

_STEPS = re.compile(r"(\d{1,9})(?:[-:](\d{1,9}))?")
_MILLISECONDS = re.compile(r"(\d{1,12}(?:\.\d{1,6})?):(\d{1,12}(?:\.\d{1,6})?)")
Mask = NDArray[np.bool_]
_WINDOWS = {"device": pl.Int32(), "from_ns": pl.Int64(), "until_ns": pl.Int64()}


class Stretch(NamedTuple):
    """A half-open stretch of time, in ns since the origin."""

    start: int
    end: int


@dataclass(frozen=True)
class _Wish:
    """What is asked for, in the terms of the tables."""

    host: Stretch
    windows: pl.DataFrame
    """`device from_ns until_ns`: device time whose work stays; other devices go by host time."""
    marks: list[int]
    """Steps that keep their mark."""
    borders: pl.Series
    """Activities that say where a device step ends."""


def steps(trace: Trace, first: int, last: int) -> Part:
    """Return the part of a trace that its steps `first` to `last` need.

    Raises
    ------
    UsageError
        The trace has no such step.
    InputError
        The steps can't be told without the rest of the trace.
    """
    everything = whole(trace)
    host = trace.host_steps.with_columns(host_end=pl.col("host_start_ns") + pl.col("host_dur_ns"))
    chosen = host.filter(pl.col("step").is_between(first, last))
    if not chosen.height:
        raise UsageError(f"{trace.meta.path.name} has no step in {first}-{last}; {_known(host)}.")
    numbers = chosen["step"].to_list()
    borders = _borders(trace, numbers)
    after = host.filter(pl.col("step").is_in(borders["step"].implode()))
    wish = _Wish(
        host=Stretch(chosen["host_start_ns"].min(), chosen["host_end"].max()),  # type: ignore[arg-type]
        windows=_windows(trace, numbers),
        marks=[*numbers, *after["step"]],
        borders=borders["id"],
    )
    recording = _recording(everything, chosen["host_start_ns"], wish.host.end)
    part = _cut(everything, wish, recording)
    if (after["host_end"] <= recording.end).any() or _by_launch(part) != _by_launch(everything):
        raise InputError(
            f"Steps {first}-{last} of {trace.meta.path} can't be cut out: where they end is known "
            "from the rest of the trace alone; export it whole."
        )
    return part


def between(trace: Trace, start_ns: int, end_ns: int) -> Part:
    """Return what runs in a stretch of time; steps that reach beyond it lose their mark.

    Raises
    ------
    UsageError
        The stretch is empty.
    """
    if end_ns <= start_ns:
        raise UsageError(f"The stretch from {start_ns} to {end_ns} ns is empty; give its end last.")
    everything = whole(trace)
    inside = trace.host_steps.filter(
        pl.col("host_start_ns") >= start_ns,
        pl.col("host_start_ns") + pl.col("host_dur_ns") <= end_ns,
    )
    wish = _Wish(
        host=Stretch(start_ns, end_ns),
        windows=pl.DataFrame(schema=_WINDOWS),
        marks=inside["step"].to_list(),
        borders=pl.Series([], dtype=pl.UInt32()),
    )
    return _cut(everything, wish, _recording(everything, inside["host_start_ns"], end_ns))


def step_numbers(text: str) -> tuple[int, int]:
    """Read `3-5`, `3:5` (both ends belong to it) or `3`; anything else is a UsageError."""
    found = _STEPS.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--steps {text} is neither A-B nor A, as in --steps 3-5.")
    first = int(found[1])
    last = first if found[2] is None else int(found[2])
    if last < first:
        raise UsageError(f"--steps {text} ends before it begins; did you mean {last}-{first}?")
    return first, last


def milliseconds(text: str) -> Stretch:
    """Read `A:B` in decimal milliseconds, exactly to the ns; anything else is a UsageError."""
    found = _MILLISECONDS.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--range {text} is not A:B in ms, as in --range 12.5:40.")
    return Stretch(*(int(Decimal(part) * NS_PER_MS) for part in found.groups()))


# ---- which steps ----------------------------------------------------------------------------


def _known(host: pl.DataFrame) -> str:
    if not host.height:
        return "none is marked in it"
    numbers = host["step"].sort()
    return f"its steps are {numbers[0]} to {numbers[-1]}"


def _windows(trace: Trace, numbers: list[int]) -> pl.DataFrame:
    """Return the device time of the steps."""
    rows = trace.steps.filter(pl.col("step").is_in(numbers), pl.col("device").is_not_null())
    return rows.group_by("device").agg(
        from_ns=pl.col("start_ns").min(),
        until_ns=(pl.col("start_ns") + pl.col("dur_ns")).max(),
    )


def _borders(trace: Trace, numbers: list[int]) -> pl.DataFrame:
    """Return `id step` of the first work of the step that follows, on each device.

    Steps that are told by time end with their host range and have no border.
    """
    ends = trace.steps.sort("device", "host_start_ns").with_columns(
        after=pl.col("step").shift(-1).over("device")
    )
    ends = ends.filter(
        pl.col("device").is_not_null(),
        pl.col("step").is_in(numbers),
        ~pl.col("after").is_in(numbers),
        pl.lit(_by_launch(whole(trace))),
    )
    work = trace.activities.select("id", "device", "step", "start_ns")
    firsts = work.join(ends.select("device", step="after"), on=["device", "step"])
    firsts = firsts.sort("start_ns", "id").unique(["device", "step"], keep="first")
    return firsts.select("id", "step")


def _by_launch(part: Part) -> bool:
    """Say whether a reader tells steps by their launches, as it does when enough work has one."""
    work = device_work(part)
    return bool(work["launch"].count() >= LINKED_SHARE * work.height)


def _recording(part: Part, marks: pl.Series, end: int) -> Stretch:
    """Return what the file will claim to have recorded: from the origin, so that times stay.

    A step that began before the recording did must go on doing so.
    """
    begin = part.recording[0]
    early = bool((marks < begin).any())
    return Stretch(begin if early else min(0, begin), min(part.recording[1], end))


# ---- which rows -----------------------------------------------------------------------------


def _cut(part: Part, wish: _Wish, recording: Stretch) -> Part:
    tables = dict(part.tables)
    if device_work(part).height:
        tables["activities"] = _activities(tables, wish)
    calls = _launches(tables, wish)
    tables["ops"] = _ops(tables["ops"], calls, wish)
    tables["launches"] = calls
    points = pl.concat([tables["ops"], calls], how="diagonal").select("thread", "start_ns")
    tables["ranges"] = _ranges(tables["ranges"], points, wish)
    tables["frames"] = tables["frames"].filter(_around(tables["frames"], points, wish.host))
    for name in ("memory", "counters"):
        tables[name] = tables[name].filter(pl.col("t_ns").is_between(*wish.host, closed="left"))
    return Part(part.meta, tables, recording)


def _runs(start: str | int, end: str | int) -> pl.Expr:
    """Say of rows whether they run in a stretch, or begin in it (what has no length, too)."""
    start_of, end_of = (pl.col(x) if isinstance(x, str) else pl.lit(x) for x in (start, end))
    begin = pl.col("start_ns")
    return (begin < end_of) & ((begin + pl.col("dur_ns") > start_of) | (begin >= start_of))


def _activities(tables: dict[str, pl.DataFrame], wish: _Wish) -> pl.DataFrame:
    work, calls = tables["activities"], tables["launches"]
    called = calls.filter(pl.col("start_ns").is_between(*wish.host, closed="left"))["id"]
    near = work.join(wish.windows, on="device", how="left", maintain_order="left").with_columns(
        pl.col("from_ns").fill_null(wish.host.start), pl.col("until_ns").fill_null(wish.host.end)
    )
    stays = (
        _runs("from_ns", "until_ns")
        | pl.col("launch").is_in(called.implode())
        | pl.col("id").is_in(wish.borders.implode())
    )
    return near.filter(stays).select(work.columns)


def _launches(tables: dict[str, pl.DataFrame], wish: _Wish) -> pl.DataFrame:
    began = _began(tables["ops"], wish.host)
    used = tables["activities"]["launch"].drop_nulls().unique()
    return tables["launches"].filter(
        pl.col("start_ns").is_between(*wish.host, closed="left")
        | pl.col("id").is_in(used.implode())
        | pl.col("op").is_in(tables["ops"].filter(began)["id"].implode())
    )


def _ops(ops: pl.DataFrame, calls: pl.DataFrame, wish: _Wish) -> pl.DataFrame:
    """Keep what runs in the stretch, what belongs to what began in it, and callers of calls."""
    stays = ops.select(_runs(*wish.host)).to_series() | _began(ops, wish.host)
    stays |= ops["id"].is_in(calls["op"].drop_nulls().unique().implode())
    return ops.filter(pl.Series(_with_ancestors(stays.to_numpy(), _parents(ops))))


def _began(ops: pl.DataFrame, stretch: Stretch) -> pl.Series:
    """Say of operators whether they, or one around them, began in the stretch."""
    inside = ops["start_ns"].is_between(*stretch, closed="left").to_numpy().copy()
    up = _parents(ops)
    while (has := up != NONE).any():
        inside[has] |= inside[up[has]]
        up[has] = up[up[has]]
    return pl.Series(inside, dtype=pl.Boolean)


def _with_ancestors(stays: Mask, parent: Rows) -> Mask:
    out = stays.copy()
    rows = np.flatnonzero(out)
    while len(rows):
        rows = np.unique(parent[rows])
        rows = rows[rows != NONE]
        rows = rows[~out[rows]]
        out[rows] = True
    return out


def _parents(ops: pl.DataFrame) -> Rows:
    return nesting.ids(ops["parent"]).copy()


def _ranges(ranges: pl.DataFrame, points: pl.DataFrame, wish: _Wish) -> pl.DataFrame:
    number = pl.col("name").cast(pl.String).str.extract(STEP.pattern).cast(pl.Int64, strict=False)
    is_step = (pl.col("domain") == "step") & pl.col("thread").is_not_null()
    host = ranges["thread"].is_not_null() & _around(ranges, points, wish.host)
    near = ranges.join(wish.windows, on="device", how="left", maintain_order="left").with_columns(
        pl.col("from_ns").fill_null(wish.host.start), pl.col("until_ns").fill_null(wish.host.end)
    )
    device = pl.col("thread").is_null() & _runs("from_ns", "until_ns")
    stays = pl.when(is_step).then(number.is_in(wish.marks)).otherwise(host | device)
    return near.filter(stays).select(ranges.columns)


def _around(events: pl.DataFrame, points: pl.DataFrame, stretch: Stretch) -> pl.Series:
    """Say of events on host threads whether they run in the stretch or hold one of the points."""
    runs = events.select(_runs(*stretch)).to_series()
    thread = events["thread"].fill_null(NONE).to_numpy()
    start = events["start_ns"].to_numpy()
    end = start + events["dur_ns"].to_numpy()
    at = points["thread"].to_numpy(), points["start_ns"].to_numpy()
    axis = Axis((thread, start), (thread, end), at)
    held = np.sort(axis(*at))
    first, after = (np.searchsorted(held, axis(thread, t)) for t in (start, end))
    return runs | pl.Series(after > first, dtype=pl.Boolean)
