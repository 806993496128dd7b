"""Several files of one rank, as a repeating schedule of the profiler makes, as one `Trace`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple

import polars as pl

from workbench.trace import schema
from workbench.trace.core import Thread, Trace, TraceMeta, Window
from workbench.trace.problems import Problem
from workbench.trace.problems import table as problem_table

CLOCKED_NS = 946_684_800 * 10**9
"""Origins from the year 2000 on are of a real clock; others count from some start."""
LONGEST_RUN_NS = 366 * 86_400 * 10**9
_WORKER = re.compile(r"(.+)\.(\d{1,30})\.pt\.trace\.json")
_NUMBER = re.compile(r"\d+")
_THREAD = "thread"


class Part(NamedTuple):
    """One file's trace and its place in the whole."""

    trace: Trace
    shift_ns: int
    """What its times are moved by."""
    before: dict[str, int]
    """Rows of each table in the parts before it."""
    threads: dict[int, int]
    """The whole's index of each of its host threads."""


def of_one_run(traces: Sequence[Trace]) -> bool:
    """Say whether several traces of one rank are windows of one run, one after another.

    Either torch's names say so (one host and process, different times), or the marked steps do:
    each file has some, none is in two files, and devices and world size agree. Files whose times
    overlap on a real clock and that hold the same steps are not, whatever their names.
    """
    metas = [t.meta for t in traces]
    alike = {(m.format, m.device_kind, m.timed) for m in metas}
    origins = [m.origin_ns for m in metas]
    if len(alike) > 1 or not metas[0].timed or max(origins) - min(origins) > LONGEST_RUN_NS:
        return False
    own = _steps_are_disjoint(traces)
    if _overlap(traces) and _clocked(traces) and not own:
        return False
    return _named_alike(traces) or (metas[0].rank is not None and own and _same_devices(metas))


def merge(traces: Sequence[Trace]) -> Trace:
    """Return one trace with the rows of all, in order of time.

    Where files overlap and count from no real clock, each is laid right after the one before it, by
    the last number in the file's name and then by name, and the problem `windows_without_clock`
    says so. Row ids, threads and times are those of the whole; faults add up by kind; origin, path
    and what the recording says of itself are the first file's.
    """
    laid = _overlap(traces) and not _clocked(traces)
    parts = _parts(_by_name(traces) if laid else _by_time(traces), laid=laid)
    tables = {n: pl.concat([_moved(p, n) for p in parts]) for n in _tables(traces)}
    tables["problems"] = _problems(parts, laid=laid)
    steps = [_shifted(p.trace.host_steps, p.shift_ns) for p in parts]
    return Trace(_meta(parts), tables, partial(_frames, parts), pl.concat(steps))


def _by_time(traces: Sequence[Trace]) -> list[Trace]:
    return sorted(traces, key=lambda t: (t.meta.origin_ns, t.meta.path.name))


def _by_name(traces: Sequence[Trace]) -> list[Trace]:
    def key(trace: Trace) -> tuple[int, str]:
        name = trace.meta.path.name
        numbers = _NUMBER.findall(name)
        return int(numbers[-1]) if numbers else -1, name

    return sorted(traces, key=key)


def _clocked(traces: Sequence[Trace]) -> bool:
    return all(t.meta.origin_ns >= CLOCKED_NS for t in traces)


def _overlap(traces: Sequence[Trace]) -> bool:
    order = _by_time(traces)
    return any(a.meta.origin_ns + end_ns(a) > b.meta.origin_ns for a, b in pairwise(order))


def end_ns(trace: Trace) -> int:
    """Return the last moment of a trace; Python frames, built when asked for, don't count."""
    ends = [0]
    for table in trace.tables.values():
        for start, length in (("start_ns", "dur_ns"), ("host_start_ns", "host_dur_ns")):
            if start in table.columns:
                ends.append(table.select((pl.col(start) + pl.col(length)).max()).item() or 0)
        if "t_ns" in table.columns:
            ends.append(table.select(pl.col("t_ns").max()).item() or 0)
    return max(ends)


def _steps_are_disjoint(traces: Sequence[Trace]) -> bool:
    numbers = [set(t.host_steps["step"]) for t in traces]
    return all(numbers) and len(set.union(*numbers)) == sum(map(len, numbers))


def _named_alike(traces: Sequence[Trace]) -> bool:
    """Say whether names are torch's HOST_PID.TIME.pt.trace.json, of one process at many times."""
    named = [_WORKER.match(t.meta.path.name) for t in traces]
    found = [(m[1], m[2]) for m in named if m]
    workers, times = {w for w, _ in found}, {t for _, t in found}
    return len(found) == len(traces) == len(times) and len(workers) == 1


def _same_devices(metas: Sequence[TraceMeta]) -> bool:
    return len({(m.world_size, tuple((d.index, d.name) for d in m.devices)) for m in metas}) == 1


def _parts(traces: Sequence[Trace], *, laid: bool) -> list[Part]:
    ends = [end_ns(t) for t in traces]
    first = traces[0].meta.origin_ns
    shifts = (
        list(accumulate(ends[:-1], initial=0))
        if laid
        else [t.meta.origin_ns - first for t in traces]
    )
    threads = _threads(traces)
    index = {key: i for i, key in enumerate(threads)}
    rows = dict.fromkeys(schema.TABLES, 0)
    parts = []
    for trace, shift in zip(traces, shifts, strict=True):
        own = {i: index[t.pid, t.tid] for i, t in enumerate(trace.meta.threads)}
        parts.append(Part(trace, shift, dict(rows), own))
        for name, table in trace.tables.items():
            rows[name] += table.height
    return parts


def _threads(traces: Sequence[Trace]) -> dict[tuple[int | str, int | str], Thread]:
    """Return the host threads of all by process and number, with the first name that is given."""
    found: dict[tuple[int | str, int | str], Thread] = {}
    for thread in (t for trace in traces for t in trace.meta.threads):
        before = found.get((thread.pid, thread.tid))
        if before is None or before.name is None:
            found[thread.pid, thread.tid] = thread
    return found


def _tables(traces: Sequence[Trace]) -> list[str]:
    return [n for n in schema.TABLES if all(n in t.tables for t in traces)]


def _moved(part: Part, name: str, frame: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return a table of a part with ids, threads and times of the whole."""
    frame = part.trace.tables[name] if frame is None else frame
    ids = [
        pl.col(c) + pl.lit(part.before[schema.POINTS_TO[c] or name], schema.ID)
        for c in frame.columns
        if c in schema.POINTS_TO
    ]
    frame = _shifted(frame.with_columns(ids), part.shift_ns)
    if _THREAD not in frame.columns or not part.threads:
        return frame
    thread = pl.col(_THREAD)
    known = thread.replace_strict(part.threads, default=thread, return_dtype=pl.Int32())
    return frame.with_columns(known)


def _shifted(frame: pl.DataFrame, shift_ns: int) -> pl.DataFrame:
    return frame.with_columns(
        pl.col(c) + shift_ns for c in frame.columns if c in schema.TIME_COLUMNS
    )


def _frames(parts: Sequence[Part]) -> pl.DataFrame:
    """Build the Python frames of all parts; ids go by the heights, known only now."""
    moved, rows = [], 0
    for part in parts:
        frame = part.trace.frames
        here = part._replace(before=part.before | {"frames": rows})
        moved.append(_moved(here, "frames", frame))
        rows += frame.height
    return pl.concat(moved)


def _problems(parts: Sequence[Part], *, laid: bool) -> pl.DataFrame:
    """Add the faults of all parts up by kind, and those of laying them together."""
    every = pl.concat([p.trace.problems for p in parts])
    summed = every.group_by("code", maintain_order=True).agg(
        pl.col("count").sum(), pl.col("first_example", "effect").first()
    )
    notes = [_without_clock(parts)] if laid else []
    repeated = pl.concat([p.trace.host_steps.select("step") for p in parts])
    if again := repeated.filter(pl.col("step").is_duplicated())["step"].unique().to_list():
        notes.append(
            Problem(
                code="step_numbers_repeat",
                count=len(again),
                first_example=f"step {min(again)}",
                effect="the same step number stands in several files of the rank; choosing it "
                "takes all of that number",
            )
        )
    return pl.concat([summed, problem_table(notes)])


def _without_clock(parts: Sequence[Part]) -> Problem:
    return Problem(
        code="windows_without_clock",
        count=len(parts) - 1,
        first_example=parts[1].trace.meta.path.name,
        effect="the files of this rank have no common clock, so each is laid right after the one "
        "before it; the gap between them is unknown and in no window",
    )


def _meta(parts: Sequence[Part]) -> TraceMeta:
    metas = [p.trace.meta for p in parts]
    reasons = [m.device_reason for m in metas]
    hashes = "".join(m.sha256 for m in metas)
    spans = [(m.recording, p.shift_ns) for m, p in zip(metas, parts, strict=True)]
    known = [(r[0] + shift, r[1] + shift) for r, shift in spans if r]
    return replace(
        metas[0],
        sha256=hashlib.sha256(hashes.encode()).hexdigest(),
        threads=tuple(_threads([p.trace for p in parts]).values()),
        devices=tuple({d.index: d for m in reversed(metas) for d in m.devices}.values()),
        groups=tuple({g.name: g for m in reversed(metas) for g in m.groups}.values()),
        producer={k: v for m in reversed(metas) for k, v in m.producer.items()},
        events=sum(m.events for m in metas),
        truncated=any(m.truncated for m in metas),
        recording=(min(known)[0], max(r[1] for r in known)) if len(known) == len(metas) else None,
        device_reason=reasons[0] if all(reasons) else None,
        windows=tuple(
            Window(m.path, m.sha256, p.shift_ns, p.shift_ns + end_ns(p.trace))
            for m, p in zip(metas, parts, strict=True)
        ),
    )
