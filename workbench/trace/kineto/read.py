"""`read`: a profiler JSON file to a `Trace`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from workbench.intervals import Times
from workbench.trace import container, raw
from workbench.trace.attribution import attribute
from workbench.trace.core import Trace, TraceMeta
from workbench.trace.families import STEP
from workbench.trace.kineto.events import (
    Event,
    Events,
    InexactTimesError,
    decode,
    starts_and_durations,
)
from workbench.trace.kineto.header import device_kind, header_fields, thread_names
from workbench.trace.kineto.tables import Builder
from workbench.trace.problems import Problem

CATEGORIES = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "copy",
    "Memcpy": "copy",
    "gpu_memset": "set",
    "Memset": "set",
    "cuda_runtime": "launches",
    "cuda_driver": "launches",
    "Runtime": "launches",
    "cpu_op": "ops",
    "Operator": "ops",
    "user_annotation": "ranges",
    "gpu_user_annotation": "device_ranges",
    "python_function": "frames",
}
"""Category (today's names and those of 2021) to what its events become."""
ACCELERATOR_CATEGORIES = frozenset(CATEGORIES) - {
    "cpu_op", "Operator", "user_annotation", "python_function",
} | {
    "cuda_sync", "cuda_profiler_range", "mtia_runtime", "mtia_ccp_events", "mtia_insight",
    "xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver", "hpu_op",
    "async_npu", "HostToDevice", "enqueue", "dequeue",
}  # fmt: skip
"""Categories that only a program with an accelerator has."""
UNREAD_ACTIVITY = {"mtia_ccp_events": "mtia", "hpu_op": "hpu", "async_npu": "npu"}
"""Accelerators whose activity rows are not read yet."""
DAY_NS = 86_400 * 10**9
EARLIEST_NS, LATEST_NS = -(2**60), 2**62
LONGEST_NS = 10**15
"""Times are taken from 36 years before to 146 years after their zero, and durations up to eleven
days: beyond lies damage, and within, no difference and no sum of thousands overflows int64."""


def read(path: Path) -> Trace:
    """Read one profiler JSON file: every table, attributed and checked.

    Raises
    ------
    InputError
        The file is missing, cut short or not a profiler trace; one sentence says which.
    """
    data = container.read(path)
    with _collector_paused():
        try:
            bare, frames = _raw_trace(decode(data, path), path)
        except InexactTimesError:
            bare, frames = _raw_trace(decode(data, path, as_text=True), path)
    return attribute(bare, frames, reader="PyTorch profiler JSON")


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's garbage collector from walking a million fresh events again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _raw_trace(events: Events, path: Path) -> tuple[raw.RawTrace, Callable[[], pl.DataFrame]]:
    build = Builder()
    groups = _groups(events)
    tables = _tables(build, groups, events.memory)
    spans = _spans(events)
    problems = [*_misfits(build), *_unread(events)]
    tables, dropped = _drop_invalid(tables)
    problems += dropped
    frames = build.frames(groups.get("frames", []))
    frame_starts, _ = starts_and_durations(groups.get("frames", []))
    first = _earliest(tables, frame_starts, spans)
    fields = header_fields(events.header, problems)
    meta = TraceMeta(
        path=path,
        format="pytorch-profiler",
        sha256=container.sha256(path),
        origin_ns=fields.base_ns + first,
        rank=fields.rank,
        world_size=fields.world_size,
        threads=build.thread_list(thread_names(events.metadata)),
        devices=fields.devices,
        groups=fields.groups,
        producer=fields.producer,
        events=events.count,
        device_kind=device_kind(set(events.by_category), fields.devices, tables["launches"]),
        device_reason=None,
    )
    bare = raw.RawTrace(
        meta=meta,
        **{name: _shift(frame, -first) for name, frame in tables.items()},
        recording=_recording(tables, spans, first),
        accelerator=bool(ACCELERATOR_CATEGORIES & {str(c) for c in events.by_category}),
        unread_accelerator=next(
            (k for c, k in UNREAD_ACTIVITY.items() if c in events.by_category), None
        ),
        problems=problems,
    )
    return bare, lambda: frames(0, first)


def _groups(events: Events) -> dict[str, list[Event]]:
    """Bring categories of one meaning together, and old step marks out of the operators."""
    groups: dict[str, list[Event]] = {}
    for category, items in events.by_category.items():
        if category in CATEGORIES:
            groups.setdefault(CATEGORIES[category], []).extend(items)
    marks = [e for e in groups.get("ops", []) if e.name and STEP.fullmatch(e.name)]
    if marks:
        groups["ops"] = [e for e in groups["ops"] if not (e.name and STEP.fullmatch(e.name))]
        groups.setdefault("ranges", []).extend(marks)
    return groups


def _tables(
    build: Builder, groups: dict[str, list[Event]], memory: list[Event]
) -> dict[str, pl.DataFrame]:
    activities = [
        _name_collectives(build.activities(kind, groups[kind]))
        for kind in ("kernel", "copy", "set")
        if kind in groups
    ]
    ranges = [build.host_ranges(groups.get("ranges", []))]
    ranges.append(build.device_ranges(groups.get("device_ranges", [])))
    return {
        "activities": pl.concat(activities) if activities else raw.empty(raw.ACTIVITIES),
        "launches": build.launches(groups.get("launches", [])),
        "ops": build.ops(groups.get("ops", [])),
        "ranges": pl.concat(ranges),
        "modules": build.modules(groups.get("frames", [])),
        "memory": build.memory(memory),
    }


def _name_collectives(activities: pl.DataFrame) -> pl.DataFrame:
    """Mark kernels as collectives by their own record; `attribution` does so by their names."""
    recorded = pl.col("comm_name").is_not_null() & (pl.col("kind") == "kernel")
    kind = activities.schema["kind"]
    return activities.with_columns(
        kind=pl.when(recorded).then(pl.lit("collective", kind)).otherwise(pl.col("kind"))
    )


def _drop_invalid(
    tables: dict[str, pl.DataFrame],
) -> tuple[dict[str, pl.DataFrame], list[Problem]]:
    """Take out records without a usable time."""
    stamped = [f["start_ns"] for n, f in tables.items() if n != "memory"]
    real = pl.concat(stamped).filter(pl.concat(stamped) > 0)
    far = (int(real.min()) if len(real) else 0) > DAY_NS  # type: ignore[arg-type]
    sane = pl.col("start_ns").is_between(EARLIEST_NS, LATEST_NS)
    missing = ~sane | ~pl.col("dur_ns").is_between(0, LONGEST_NS)
    unfilled = (pl.col("start_ns") == 0) & ((pl.col("dur_ns") == 0) | far)
    out, problems = dict(tables), []
    for name, frame in tables.items():
        if name == "memory":
            out[name] = frame.filter(pl.col("t_ns").is_between(EARLIEST_NS, LATEST_NS))
            continue
        bad = missing | unfilled if name == "activities" else missing
        keep = frame.filter(~bad)
        if lost := frame.height - keep.height:
            problems.append(_invalid(name, lost, frame.filter(bad)))
        out[name] = keep
    return out, problems


def _invalid(table: str, count: int, bad: pl.DataFrame) -> Problem:
    return Problem(
        code="invalid_record",
        count=count,
        first_example=f"{table}: {bad['name'].cast(pl.String)[0]}",
        effect="no usable time, so left out of every total",
    )


def _misfits(build: Builder) -> Iterable[Problem]:
    for category, count in build.bad_args.items():
        yield Problem(
            code="bad_args",
            count=count,
            first_example=f"category {category}",
            effect="their args are not of the usual form and read as not recorded",
        )


def _unread(events: Events) -> Iterable[Problem]:
    for phase, count in events.unread.items():
        yield Problem(
            code="unread_phase",
            count=count,
            first_example=f"ph {phase!r}",
            effect="events of this phase are not read yet and are in no total",
        )


def _spans(events: Events) -> Times:
    """Return [start, end] of the profiler's own span of the recording, or nothing."""
    start, duration = starts_and_durations(events.by_category.get("Trace", []))
    good = (start > 0) & (start <= LATEST_NS) & (duration > 0) & (duration <= LONGEST_NS)
    if not good.any():
        return np.empty(0, np.int64)
    return np.array([start[good].min(), (start + duration)[good].max()], np.int64)


def _earliest(tables: dict[str, pl.DataFrame], *more: Times) -> int:
    columns = [f["t_ns" if n == "memory" else "start_ns"].to_numpy() for n, f in tables.items()]
    kept = (m[(m >= EARLIEST_NS) & (m <= LATEST_NS)] for m in more)
    every = np.concatenate([*columns, *kept])
    return int(every.min()) if len(every) else 0


def _recording(tables: dict[str, pl.DataFrame], spans: Times, first: int) -> tuple[int, int]:
    """Return when the recording began and ended, relative to the origin."""
    if len(spans):
        return int(spans[0]) - first, int(spans[1]) - first
    timed = [f for n, f in tables.items() if n != "memory" and f.height]
    ends = [int((f["start_ns"] + f["dur_ns"]).to_numpy().max()) for f in timed]
    return 0, max(ends, default=first) - first


def _shift(frame: pl.DataFrame, by: int) -> pl.DataFrame:
    name = "t_ns" if "t_ns" in frame.columns else "start_ns"
    return frame.with_columns(pl.col(name) + by)
