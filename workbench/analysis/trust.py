"""`trust`: what a recording can and cannot answer, and which of its figures to take with care."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from workbench import intervals, units
from workbench.analysis import needs
from workbench.analysis.names import ANALYSES
from workbench.analysis.step_times import step_times
from workbench.analysis.window import spans
from workbench.trace.core import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.capture.overhead import Overhead
    from workbench.capture.remarks import Remarks
    from workbench.trace.core import Source, Trace

STATES = ("yes", "partly", "no", "fault")
SCHEMA = {
    "aspect": pl.String(),
    "state": pl.Enum(STATES),
    "detail": pl.String(),
    "advice": pl.String(),
    "concerns": pl.String(),
}
CLOCK_NS = 1000
LINKS = {
    "launch": ("activities with a launch", "queue times, steps and phases of the rest are unknown"),
    "op": ("activities with an operator", "the rest counts to no operator, module or phase"),
}


class Finding(NamedTuple):
    """One row of the table."""

    aspect: str
    state: str
    detail: str
    advice: str | None = None
    concerns: str | None = None


def trust(
    source: Source, *, overhead: Overhead | None = None, remarks: Remarks | None = None
) -> pl.DataFrame:
    """Return `aspect state detail advice concerns`, a row for each thing that a reader should know.

    First what is recorded (`needs.NEEDS`; `partly`: on some ranks), with the analyses that need it
    and how to record it; then how much device time is tied to launches and operators, how many
    launches of kernels have an activity, complete steps, the clock's resolution, what profiling
    cost (`overhead`: traced against untraced steps of a run folder; the profiler's own recorded
    work), how the recording of a run folder went (`remarks`), steps unlike others and drift; last
    every fault met while reading, with its effect.
    """
    found = [*_recorded(source)]
    if any(t.meta.timed and t.activities.height for t in source.ranks):
        found += [*_linked(source), *_answered(source), _clock(source)]
    found += [*_steps(source), _profiling(overhead), *_own_work(source)]
    found += [Finding(*vars(r).values()) for r in (remarks.rows if remarks else ())]
    found += _faults(source)
    return pl.DataFrame([f._asdict() for f in found], schema=SCHEMA)


def _recorded(source: Source) -> Iterator[Finding]:
    """Say of each need which ranks meet it."""
    concerned: dict[str, list[str]] = {}
    for name, module in ANALYSES.items():
        for needed in needs.of(module):
            concerned.setdefault(needed, []).append(name)
    for name, need in needs.NEEDS.items():
        without = [t.meta.rank for t in source.ranks if not need.present(t)]
        concerns = ", ".join(concerned.get(name, [])) or None
        if not without:
            yield Finding(name, "yes", "recorded", None, concerns)
        elif len(without) == len(source.ranks):
            yield Finding(name, "no", need.missing, need.remedy, concerns)
        else:
            detail = f"{need.missing} on ranks {', '.join(map(str, without))}"
            yield Finding(name, "partly", detail, need.remedy, concerns)


def _linked(source: Source) -> Iterator[Finding]:
    """Say how much of the activities' time is tied to launches and to operators."""
    times = pl.concat(t.activities.select("dur_ns", "launch", "op") for t in source.ranks)
    whole = int(times["dur_ns"].sum())
    for column, (aspect, otherwise) in LINKS.items():
        linked = int(times.filter(pl.col(column).is_not_null())["dur_ns"].sum())
        state = "yes" if linked == whole else "partly" if linked else "no"
        detail = f"{units.share(linked, whole)} of the activities' time"
        yield Finding(aspect, state, detail, None if state == "yes" else otherwise)


def _answered(source: Source) -> Iterator[Finding]:
    """Say how many launches of kernels have an activity: what was dropped shows here."""
    calls, answered, graphs = 0, 0, False
    for trace in source.ranks:
        mine = trace.launches.filter(pl.col("kind").is_in(("launch", "graph_launch")))
        calls += mine.height
        graphs = graphs or "graph_launch" in mine["kind"]
        answered += int(mine["id"].is_in(trace.activities["launch"].drop_nulls().implode()).sum())
    if not calls:
        return
    detail = f"{answered} of {calls} ({units.share(answered, calls)})"
    if answered == calls:
        yield Finding("launches with an activity", "yes", detail)
        return
    advice = (
        "the profiler dropped records, or the recording ended before the device did: record fewer "
        "steps, and synchronise before the profiler stops"
    )
    if graphs:
        advice += "; launches while a CUDA graph is captured have none by nature"
    yield Finding("launches with an activity", "partly" if answered else "no", detail, advice)


def _clock(source: Source) -> Finding:
    """Say whether the times of activities are whole microseconds."""
    coarse = all(
        bool(((trace.activities[c] % CLOCK_NS) == 0).all())
        for trace in source.ranks
        for c in ("start_ns", "dur_ns")
    )
    if not coarse:
        return Finding("clock resolution", "yes", "below a microsecond")
    advice = "kernels of a few microseconds are up to one off, and short gaps may be rounding"
    return Finding("clock resolution", "partly", "whole microseconds", advice)


def _steps(source: Source) -> Iterator[Finding]:
    """Say how many steps are complete, which are unlike the others, and whether they drift."""
    marked = pl.concat(t.host_steps for t in source.ranks)
    if not marked.height:
        return
    whole = int(marked["complete"].sum())
    state = "yes" if whole == marked.height else "partly" if whole else "no"
    advice = None if state == "yes" else "only complete steps count in the window `steps`"
    yield Finding("complete steps", state, f"{whole} of {marked.height}", advice)
    for row in step_times(source).rows(named=True):
        where = "" if row["rank"] is None else f"rank {row['rank']}, "
        if row["outliers"]:
            numbers = ", ".join(map(str, row["outliers"]))
            detail = f"{where}device {row['device']}: step {numbers} is unlike the others"
            yield Finding("steady steps", "partly", detail, "look at --window steady as well")
        if row["is_drifting"]:
            drift = units.duration(abs(row["drift_ns"]))
            way = "longer" if row["drift_ns"] > 0 else "shorter"
            detail = f"{where}device {row['device']}: a step is {drift} {way} than the one before"
            yield Finding("drift", "partly", detail, "clocks, memory or input change as it runs")


def _profiling(overhead: Overhead | None) -> Finding:
    """Say how much longer traced steps took than untraced ones."""
    aspect = "cost of profiling"
    if overhead is None:
        advice = "record with `workbench record`, which times steps without the profiler too"
        return Finding(aspect, "no", "no step was timed without the profiler", advice)
    if overhead.ratio is None:
        advice = "time some steps without the profiler (--untraced)"
        return Finding(aspect, "no", overhead.reason or "unknown", advice)
    detail = f"traced steps take {100 * overhead.ratio:+.1f} %"
    if overhead.low is not None and overhead.high is not None:
        detail += f" (95 %: {100 * overhead.low:+.1f} to {100 * overhead.high:+.1f})"
    return Finding(aspect, "yes", detail, "host times hold it; it is not taken off")


def _own_work(source: Source) -> Iterator[Finding]:
    """Say how long the profiler's own recorded work took."""
    for trace in source.ranks:
        own = trace.ranges.filter(pl.col("domain").cast(pl.String) == "overhead")
        if own.height:
            taken = intervals.length(intervals.union(*spans(own)))
            where = "" if trace.meta.rank is None else f"rank {trace.meta.rank}: "
            detail = f"{where}{own.height} times, {units.duration(taken)} together"
            yield Finding("the profiler's own work", "partly", detail, _own_advice(trace))


def _own_advice(trace: Trace) -> str:
    """Say whether it fell into the steps."""
    steps = trace.host_steps.filter("complete")
    if not steps.height:
        return "host times and gaps beside it are too long"
    start = steps["host_start_ns"].to_numpy()
    inside = intervals.union(start, start + steps["host_dur_ns"].to_numpy())
    own = trace.ranges.filter(pl.col("domain").cast(pl.String) == "overhead")
    taken = intervals.length(intervals.intersection(inside, intervals.union(*spans(own))))
    return f"{units.duration(taken)} of it within complete steps, which are that much too long"


def _faults(source: Source) -> Iterator[Finding]:
    """Repeat what reading met."""
    every = source.problems if isinstance(source, Job) else source.ranks[0].problems
    for row in every.rows(named=True):
        where = f"rank {row['rank']}: " if row.get("rank") is not None else ""
        detail = f"{where}{row['count']} times; first: {row['first_example']}"
        yield Finding(row["code"], "fault", detail, row["effect"])
