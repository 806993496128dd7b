"""`read`: a profiler JSON file to a `Trace`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from workbench.intervals import Times
from workbench.trace import collector, container, raw
from workbench.trace.attribution import attribute
from workbench.trace.core import Trace, TraceMeta
from workbench.trace.kineto import dialects
from workbench.trace.kineto.arguments import Args
from workbench.trace.kineto.categories import ACCELERATOR_CATEGORIES, UNREAD_ACTIVITY
from workbench.trace.kineto.events import InexactTimesError, Reader
from workbench.trace.kineto.frames import read_frames
from workbench.trace.kineto.header import (
    carried,
    decode_header,
    device_kind,
    header_fields,
    metadata_names,
    says_partial,
)
from workbench.trace.kineto.pieces import EventLists
from workbench.trace.kineto.tables import Builder
from workbench.trace.problems import Problem
from workbench.trace.problems import table as problem_table

Tables = dict[str, pl.DataFrame]
DAY_NS = 86_400 * 10**9
EARLIEST_NS, LATEST_NS = -(2**60), 2**62
LONGEST_NS = 10**15
"""Times are taken from 36 years before to 146 years after their zero, and durations up to eleven
days: beyond lies damage, and within, no difference and no sum of thousands overflows int64."""


def read(path: Path) -> Trace:
    """Read one profiler JSON file: every table, attributed and checked.

    A damaged file is read as far as it goes, with what was lost among the problems.

    Raises
    ------
    InputError
        The file is missing or not a profiler trace; one sentence says which.
    """
    reader = Reader(Args)
    build = Builder()
    with collector.paused(), container.ahead(path) as (stream, sha256):
        lists = EventLists(stream, reader, path)
        for piece in lists:
            try:
                build.add(piece)
            except InexactTimesError:
                reader.as_text = True
                build.add(piece._replace(events=reader.decode(piece.text)))
        lists.check_not_empty(build.events)
        bare, first, told = _raw_trace(build, lists, reader, path, sha256.result())
    frames = partial(read_frames, bare.meta, first)
    return _with_carried(attribute(bare, frames, reader="PyTorch profiler JSON"), told)


def _with_carried(trace: Trace, told: list[Problem]) -> Trace:
    """Put what the file says of its recording in the place of the same faults met again in it."""
    if not told:
        return trace
    again = pl.col("code").is_in([p.code for p in told])
    problems = pl.concat([problem_table(told), trace.problems.filter(~again)])
    return replace(trace, tables={**trace.tables, "problems": problems})


def _raw_trace(
    build: Builder, lists: EventLists[Args], reader: Reader[Args], path: Path, sha256: str
) -> tuple[raw.RawTrace, int, list[Problem]]:
    problems = build.close()
    header = decode_header(lists.header, lists.header_before, problems)
    problems += [*lists.problems(), *_misfits(reader, build), *_unread(build)]
    fields = header_fields(header, problems)
    told = _tell(build)
    tables = _tables(build, told)
    frame_times = _frame_times(build)
    spans = _spans(build)
    tables, dropped = _drop_invalid(tables, frame_times)
    problems += dropped
    first = _earliest(tables, frame_times, spans)
    if header_says(header.profile_memory) and not tables["memory"].height:
        problems.append(_no_memory_events(path))
    categories = set(build.categories)
    kept = carried(header)
    kind = kept.device_kind or told.device_kind
    kind = kind or device_kind(categories, fields.devices, tables["launches"])
    meta = TraceMeta(
        path=path,
        format="pytorch-profiler",
        sha256=sha256,
        origin_ns=fields.base_ns + first,
        rank=fields.rank,
        world_size=fields.world_size,
        threads=build.thread_list(metadata_names(build.metadata, "thread_name")),
        devices=fields.devices,
        groups=fields.groups,
        producer=fields.producer,
        events=build.events,
        truncated=says_partial(header, problems) or lists.truncated or kept.truncated,
        device_kind=kind,
        device_reason=None,
    )
    bare = raw.RawTrace(
        meta=meta,
        **{name: _shift(frame, -first) for name, frame in tables.items()},
        recording=_recording(tables, frame_times, spans, first),
        accelerator=bool(ACCELERATOR_CATEGORIES & categories),
        unread_accelerator=next((k for c, k in UNREAD_ACTIVITY.items() if c in categories), None),
        problems=problems,
    )
    return bare, first, kept.problems


def header_says(field: bytes) -> bool:
    """Say whether a switch in the header is on."""
    return bytes(field).strip() in {b"1", b"true", b'"1"'}


def _tell(build: Builder) -> dialects.Told:
    processes = {pid: n for (pid, _), n in metadata_names(build.metadata, "process_name").items()}
    return dialects.tell(build.table("other", raw.OTHER), build.pids, processes)


def _tables(build: Builder, told: dialects.Told) -> Tables:
    activities = build.table("activities", raw.ACTIVITIES)
    ranges = build.table("ranges", raw.RANGES)
    devices = pl.concat([activities["device"], ranges["device"]]).unique().drop_nulls().to_list()
    return {
        "activities": _name_collectives(pl.concat([activities, told.activities])),
        "launches": pl.concat([build.table("launches", raw.LAUNCHES), told.launches]),
        "ops": build.table("ops", raw.OPS),
        "ranges": pl.concat([ranges, told.ranges]),
        "modules": build.table("modules", raw.MODULES),
        "memory": build.table("memory", raw.MEMORY),
        "counters": build.counters.table(devices),
    }


def _name_collectives(activities: pl.DataFrame) -> pl.DataFrame:
    """Mark kernels as collectives by their own record; `attribution` does so by their names."""
    recorded = pl.col("comm_name").is_not_null() & (pl.col("kind") == "kernel")
    kind = activities.schema["kind"]
    return activities.with_columns(
        kind=pl.when(recorded).then(pl.lit("collective", kind)).otherwise(pl.col("kind"))
    )


def _drop_invalid(tables: Tables, frame_times: Times) -> tuple[Tables, list[Problem]]:
    """Take out records without a usable time."""
    stamped = pl.concat(
        [f[_time(n)] for n, f in tables.items()] + [pl.Series("start_ns", frame_times)]
    )
    real = stamped.filter(stamped > 0)
    far = (int(real.min()) if len(real) else 0) > DAY_NS  # type: ignore[arg-type]
    sane = pl.col("start_ns").is_between(EARLIEST_NS, LATEST_NS)
    missing = ~sane | ~pl.col("dur_ns").is_between(0, LONGEST_NS)
    unfilled = (pl.col("start_ns") == 0) & ((pl.col("dur_ns") == 0) | far)
    out, problems = dict(tables), []
    for name, frame in tables.items():
        if _time(name) == "t_ns":
            out[name] = frame.filter(pl.col("t_ns").is_between(EARLIEST_NS, LATEST_NS))
            continue
        bad = missing | unfilled if name == "activities" else missing
        keep = frame.filter(~bad)
        if lost := frame.height - keep.height:
            problems.append(_invalid(name, lost, frame.filter(bad)))
        out[name] = keep
    return out, problems


def _time(table: str) -> str:
    return "t_ns" if table in {"memory", "counters"} else "start_ns"


def _invalid(table: str, count: int, bad: pl.DataFrame) -> Problem:
    return Problem(
        code="invalid_record",
        count=count,
        first_example=f"{table}: {bad['name'].cast(pl.String)[0]}",
        effect="no usable time, so left out of every total",
    )


def _no_memory_events(path: Path) -> Problem:
    return Problem(
        code="no_memory_events",
        count=1,
        first_example=path.name,
        effect="profile_memory was on but the trace holds no memory events; memory is unknown",
    )


def _misfits(reader: Reader[Args], build: Builder) -> Iterable[Problem]:
    counts = reader.misfits + build.misfits
    counts["counter values"] += build.counters.misfits
    for field, count in counts.items():
        if count:
            yield Problem(
                code="bad_args",
                count=count,
                first_example=f"field {field}",
                effect="values of a type that this field never has read as not recorded",
            )


def _unread(build: Builder) -> Iterable[Problem]:
    for phase, count in build.unread.items():
        yield Problem(
            code="unread_phase",
            count=count,
            first_example=f"ph {phase!r}",
            effect="events of this phase are not read yet and are in no total",
        )


def _frame_times(build: Builder) -> Times:
    """Return the earliest start and the latest end of the Python frames, or nothing."""
    parts = build.parts.pop("frame_times", [])
    if not parts:
        return np.empty(0, np.int64)
    frame = pl.concat(parts)
    start, duration = frame["start_ns"].to_numpy(), frame["dur_ns"].to_numpy()
    good = (start >= EARLIEST_NS) & (start <= LATEST_NS) & (duration >= 0)
    good &= duration <= LONGEST_NS
    if not good.any():
        return np.empty(0, np.int64)
    return np.array([start[good].min(), (start + duration)[good].max()], np.int64)


def _spans(build: Builder) -> Times:
    """Return [start, end] of the profiler's own span of the recording, or nothing."""
    parts = build.parts.pop("spans", [])
    if not parts:
        return np.empty(0, np.int64)
    frame = pl.concat(parts)
    start, duration = frame["start_ns"].to_numpy(), frame["dur_ns"].to_numpy()
    good = (start > 0) & (start <= LATEST_NS) & (duration > 0) & (duration <= LONGEST_NS)
    if not good.any():
        return np.empty(0, np.int64)
    return np.array([start[good].min(), (start + duration)[good].max()], np.int64)


def _earliest(tables: Tables, *more: Times) -> int:
    columns = [f[_time(n)].to_numpy() for n, f in tables.items()]
    every = np.concatenate([*columns, *more])
    return int(every.min()) if len(every) else 0


def _recording(tables: Tables, frame_times: Times, spans: Times, first: int) -> tuple[int, int]:
    """Return when the recording began and ended, relative to the origin."""
    if len(spans):
        return int(spans[0]) - first, int(spans[1]) - first
    timed = [f for n, f in tables.items() if _time(n) == "start_ns" and f.height]
    ends = [int((f["start_ns"] + f["dur_ns"]).to_numpy().max()) for f in timed]
    return 0, max([*ends, *frame_times.tolist()], default=first) - first


def _shift(frame: pl.DataFrame, by: int) -> pl.DataFrame:
    name = "t_ns" if "t_ns" in frame.columns else "start_ns"
    return frame.with_columns(pl.col(name) + by)
