"""HTA's temporal breakdown, idle classes and overlap (HolisticTraceAnalysis 0.5.0).

Every event with a stream number is GPU work, synchronisation events among them; all devices of a
file are one timeline; classes go by name. Where steps are marked, what was launched from the start
of the last one on is dropped, and so is what has no launch record. When any time in the file has
a fraction, starts are rounded up and ends down to whole microseconds.

Not seen here: runtime calls that carry a stream number (some ROCm recordings); the launch of a
synchronisation event, which is taken to begin when the event does; the error of a double where
timestamps count from 1970 (up to a quarter of a microsecond before rounding).
Source: `hta/analyzers/breakdown_analysis.py`, `communication_analysis.py`, `common/trace.py`,
`common/trace_parser.py`, `utils/utils.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.analysis.rules import account
from workbench.analysis.rules.account import Account, Events, Stage, View
from workbench.analysis.window import spans
from workbench.errors import unknown_name
from workbench.intervals import Times
from workbench.trace.core import Trace

CLASSES = {
    "0.5.0": {
        account.COMMUNICATION: "^nccl.*Kernel",
        account.COPY: "^(Memcpy|Memset|dma)",
        account.OTHER: "Memcpy|^Memset|Sync",
    },
    "0.6": {
        account.COMMUNICATION: "^(nccl|hip|hccl)|ncclKernel",
        account.COPY: "^(hip)?(Memcpy|Memset)|^dma",
        account.OTHER: "Memcpy|Memset|Sync|LaunchKernel|^hip",
    },
}
"""Expressions in the order in which a name is tried; what none of them matches is compute.

0.5.0 as installed from PyPI and run; 0.6 as its source was described in August 2026, not run.
"""
US = 1000
CONSECUTIVE_US = 30
"""Shorter gaps are `kernel_wait`: microseconds in the code, though its text says nanoseconds."""
WAITS = ("cuda_sync", "mtia_ccp_events")
"""Domains of ranges that are events with a stream to HTA."""
IDLE_CLASSES = ("host_wait", "kernel_wait", "other")
MEASURES = ("window", "compute", "non_compute", "idle", "overlap")


class Temporal(NamedTuple):
    """The columns of HTA's temporal breakdown, in ns."""

    idle_ns: int
    compute_ns: int
    non_compute_ns: int
    kernel_time_ns: int


def sorts(names: pl.Series, version: str = "0.5.0") -> NDArray[np.int8]:
    """Return the sort of each name; UsageError for a version whose rule is not known."""
    if version not in CLASSES:
        raise unknown_name("version of HTA's classes", version, CLASSES)
    return account.by_name(names, CLASSES[version], account.COMPUTE)


def gpu_events(trace: Trace) -> pl.DataFrame:
    """Return what HTA takes for GPU work, before rounding: `name stream start_ns dur_ns call_ns`.

    `call_ns` is when the launching call began, null without one; `is_sync` says which rows are
    synchronisation events.
    """
    return pl.concat([_kept(trace, trace.activities), _waits(trace)])


def rounds(trace: Trace) -> bool:
    """Say whether HTA rounds this file: it does when any timestamp has a fraction."""
    columns = ((t, "t_ns" if t == "memory" else "start_ns")
               for t in ("activities", "launches", "ops", "ranges", "memory"))  # fmt: skip
    offset = trace.meta.origin_ns
    return any(bool(((trace.tables[t][c] + offset) % US != 0).any()) for t, c in columns)


def whole_us(start: Times, end: Times, origin_ns: int) -> tuple[Times, Times]:
    """Round starts up and ends down to whole microseconds; an event may end before it starts."""
    up = -(-(start + origin_ns) // US) * US - origin_ns
    down = (end + origin_ns) // US * US - origin_ns
    return up, down


def events(trace: Trace, version: str = "0.5.0") -> Events:
    """Return HTA's GPU events, sorted and rounded as it does."""
    frame = gpu_events(trace)
    start, end = spans(frame)
    if rounds(trace):
        start, end = whole_us(start, end, trace.meta.origin_ns)
    return Events(start, end, sorts(frame["name"], version))


def temporal(found: Events) -> Temporal:
    """Break a file down: idle = span - |A|, compute |C|, non-compute = the rest of the span.

    Unions are made as HTA makes them, so events that rounding turned inside out count negative;
    `stops_because` says when it refuses the result.
    """
    span, busy = _merged(found)
    compute = _merged(found.keep(found.sort == account.COMPUTE))[1]
    return Temporal(span - busy, compute, busy - compute, span)


def overlap(found: Events) -> tuple[int, int]:
    """Return |C ∩ N| and |N| in ns; HTA shows their ratio, which is NaN without communication."""
    compute = _groups(found.keep(found.sort == account.COMPUTE))
    communication = _groups(found.keep(found.sort == account.COMMUNICATION))
    at = np.concatenate((*communication, *compute))
    counts = [len(communication[0])] * 2 + [len(compute[0])] * 2
    step = np.repeat(np.array([1, -1, 2, -2]), counts)
    order = np.argsort(at, kind="stable")
    at, running = at[order], np.cumsum(step[order])
    both = int(np.diff(at)[running[:-1] == 3].sum())  # noqa: PLR2004 - one of each
    return both, int((communication[1] - communication[0]).sum())


def idle(trace: Trace) -> pl.DataFrame:
    """Return `stream class time_ns`: gaps on each stream by class.

    host_wait: the call that launched the next work began after the last work had ended. Else
    kernel_wait below 30 us (and for negative gaps, where work overlaps), else other.
    """
    return _idle(trace, gpu_events(trace))


def _idle(trace: Trace, frame: pl.DataFrame) -> pl.DataFrame:
    frame = frame.filter(~pl.col("is_sync"))
    start, end = spans(frame)
    call = frame["call_ns"]
    if rounds(trace):
        start, end = whole_us(start, end, trace.meta.origin_ns)
        call = -(-(call + trace.meta.origin_ns) // US) * US - trace.meta.origin_ns
    before = pl.col("end").shift(1).over("stream")
    gap = pl.col("start") - before
    late = (pl.col("call") > before).fill_null(value=False)
    short = (gap < CONSECUTIVE_US * US).fill_null(value=False)
    named = pl.when(late).then(pl.lit("host_wait")).when(short).then(pl.lit("kernel_wait"))
    return (
        pl.DataFrame({"stream": frame["stream"], "start": start, "end": end, "call": call})
        .sort("start", maintain_order=True)
        .select("stream", gap=gap, **{"class": named.otherwise(pl.lit("other"))})
        .group_by("stream", "class")
        .agg(time_ns=pl.col("gap").sum())
        .sort("stream", "class")
    )


def operations_of_step(trace: Trace, step: int) -> pl.DataFrame:
    """Return `device name count total_ns` of one step, as HTA's trace comparison counts them.

    Host events (operators, calls, annotations) belong to the step that they begin in, GPU events
    to that of the call that launched them; GPU events without a launch record to none.
    """
    mark = trace.host_steps.filter(pl.col("step") == step)
    begin, end = (int(x[0]) for x in spans(mark.rename({"host_start_ns": "start_ns",
                                                       "host_dur_ns": "dur_ns"})))  # fmt: skip
    inside = pl.col("start_ns").is_between(begin, end, closed="left")
    host = trace.ranges.filter(pl.col("thread").is_not_null())
    calls = trace.launches.filter(inside)
    parts = [
        *(("CPU", t.filter(inside)) for t in (trace.ops, trace.launches, host)),
        ("GPU", trace.activities.filter(pl.col("launch").is_in(calls["id"].implode()))),
    ]
    found = pl.concat(
        frame.select(pl.col("name").cast(pl.String), "dur_ns", device=pl.lit(where))
        for where, frame in parts
    )
    return found.group_by("device", "name").agg(count=pl.len(), total_ns=pl.col("dur_ns").sum())


def accounts(view: View) -> list[Account]:
    """Return what HTA says of a rank, beside ours; nothing of the breakdown where it stops."""
    trace = view.trace
    early = _launched_early(trace, view.activities)
    stages = view.start(MEASURES)
    left = view.events
    lost = view.activities.height - early.height
    if lost:
        left = account.as_events(early)
        why = "what the last step launched, or what has no launch record or stream, is left out"
        stages.append(_stage(f"{why} ({lost} of {view.activities.height} activities)", left))
    found = pl.concat([_kept(trace, view.activities), _waits(trace)])
    raw = Events(*spans(found), sorts(found["name"]))
    waits = found.height - early.height
    if waits:
        left = raw.sorted_as(np.concatenate((left.sort, raw.sort[early.height :])))
        stages.append(
            _stage(f"synchronisation events on a stream count as busy ({waits} of them)", left)
        )
    stages.append(_stage(account.reclassed(left, raw, found["name"]), raw))
    end = raw
    if rounds(trace):
        end = Events(*whole_us(raw.start, raw.end, trace.meta.origin_ns), raw.sort)
    parts, (both, communication) = temporal(end), overlap(end)
    theirs = dict(zip(MEASURES, (parts.kernel_time_ns, *parts[1:3], parts.idle_ns, both),
                      strict=True))  # fmt: skip
    stages.append(Stage("times are rounded to whole microseconds, starts up and ends down", theirs))
    classes = _idle_classes(trace, found)
    wholes = {"window": parts.kernel_time_ns, "overlap": communication}
    wholes |= dict.fromkeys(classes, sum(ns for ns, _ in classes.values()))
    stops = dict.fromkeys(MEASURES[:4], reason) if (reason := stops_because(end)) else {}
    return [Account("hta", view.device, stages, wholes, classes, stops)]


def stops_because(found: Events) -> str | None:
    """Say why HTA stops with an error in place of a breakdown; null where it does not."""
    if not len(found.start):
        return "it stops with an IndexError: no GPU event is left"
    parts = temporal(found)
    if min(parts.non_compute_ns, parts.kernel_time_ns - max(parts.idle_ns, parts.compute_ns)) >= 0:
        return None
    inside_out = int((found.end < found.start).sum())
    return f"it stops with an AssertionError: rounding turned {inside_out} events inside out"


def _idle_classes(trace: Trace, frame: pl.DataFrame) -> dict[str, tuple[int, str]]:
    """Add up the classes of all streams; they have no counterpart, for none looks at a device."""
    found = _idle(trace, frame)
    streams = found["stream"].n_unique()
    why = (
        f"gaps on each of {streams} stream{'s' if streams != 1 else ''} are added up, also while "
        "another stream runs; classed by whether the next launch call began after the last work "
        "ended, and by 30 us"
    )
    return {
        f"idle_{name}": (int(found.filter(pl.col("class") == name)["time_ns"].sum()), why)
        for name in IDLE_CLASSES
    }


def _stage(why: str, found: Events) -> Stage:
    return Stage(why, account.read(account.painted(found, found.span), MEASURES))


def _kept(trace: Trace, activities: pl.DataFrame) -> pl.DataFrame:
    calls = trace.launches.select(launch="id", call_ns="start_ns")
    found = _launched_early(trace, activities).join(
        calls, on="launch", how="left", maintain_order="left"
    )
    return found.select(
        pl.col("name").cast(pl.String),
        "stream",
        "start_ns",
        "dur_ns",
        pl.col("call_ns").fill_null(pl.lit(_first_event_ns(trace), pl.Int64)),
        is_sync=pl.lit(value=False),
    )


def _first_event_ns(trace: Trace) -> int | None:
    """Return what stands for the call of work without one: the first event of the file."""
    tables = ("ops", "ranges", "launches") if trace.launches.height else ("activities",)
    starts = [trace.tables[t]["start_ns"].min() for t in tables]
    return min((int(s) for s in starts if s is not None), default=None)  # type: ignore[arg-type]


def _launched_early(trace: Trace, activities: pl.DataFrame) -> pl.DataFrame:
    """Keep what has a stream and, where steps are marked, was launched before the last began."""
    found = activities.filter(pl.col("stream").is_not_null() & (pl.col("source") != "host"))
    last = _last_step_ns(trace)
    if last is None:
        return found
    early = trace.launches.filter(pl.col("start_ns") < last)["id"]
    return found.filter(pl.col("launch").is_in(early.implode()))


def _waits(trace: Trace) -> pl.DataFrame:
    """Return synchronisation events on a stream; they begin with the call that makes them."""
    on_stream = pl.col("domain").is_in(WAITS) & pl.col("stream").is_not_null()
    found = trace.ranges.filter(on_stream)
    last = _last_step_ns(trace)
    if last is not None:
        found = found.filter(pl.col("start_ns") < last)
    return found.select(
        pl.col("name").cast(pl.String),
        "stream",
        "start_ns",
        "dur_ns",
        call_ns=pl.lit(None, pl.Int64),
        is_sync=pl.lit(value=True),
    )


def _last_step_ns(trace: Trace) -> int | None:
    """Return when the last marked step begins, on the host or mirrored on a device.

    Null when fewer than two steps are marked: then nothing is dropped.
    """
    marks = trace.ranges.filter(pl.col("name").cast(pl.String).str.contains("ProfilerStep"))
    if marks["name"].n_unique() < 2:  # noqa: PLR2004
        return None
    return int(marks["start_ns"].max())  # type: ignore[arg-type]


def _groups(found: Events) -> tuple[Times, Times]:
    """Merge events into groups: a group ends where one starts after all ends before it."""
    order = np.argsort(found.start, kind="stable")
    start, end = found.start[order], found.end[order]
    if not len(start):
        return start, end
    first = np.flatnonzero(np.concatenate(([True], start[1:] > np.maximum.accumulate(end)[:-1])))
    return start[first], np.maximum.reduceat(end, first)


def _merged(found: Events) -> tuple[int, int]:
    """Return the span of the groups and their summed length, in ns."""
    start, end = _groups(found)
    if not len(start):
        return 0, 0
    return int(end[-1] - start[0]), int((end - start).sum())
