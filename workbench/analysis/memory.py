"""`memory`: what each device had allocated at its peak, what came and went, and what that cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis import needs
from workbench.analysis.pools import (
    DEVICE,
    HOST,
    NO_TOTALS,
    Peak,
    Pool,
    blocks,
    described,
    inside,
    peak,
    pools,
    running,
    step_at,
)
from workbench.analysis.window import Range
from workbench.intervals import Intervals
from workbench.trace import schema
from workbench.trace.core import Source, Trace

SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "place": pl.String(),
    "window": pl.String(),
    "peak_allocated_bytes": pl.Int64(),
    "peak_above_start_bytes": pl.Int64(),
    "peak_t_ns": pl.Int64(),
    "peak_step": pl.Int32(),
    "peak_phase": schema.PHASE,
    "peak_op": pl.String(),
    "peak_running": pl.String(),
    "allocated_at_start_bytes": pl.Int64(),
    "allocated_at_end_bytes": pl.Int64(),
    "peak_reserved_bytes": pl.Int64(),
    "reserved_at_end_bytes": pl.Int64(),
    "reserved_rises": pl.Int64(),
    "unused_at_peak_share": pl.Float64(),
    "allocations": pl.Int64(),
    "frees": pl.Int64(),
    "allocated_bytes": pl.Int64(),
    "freed_bytes": pl.Int64(),
    "early_frees": pl.Int64(),
    "lost_frees": pl.Int64(),
    "not_freed": pl.Int64(),
    "not_freed_bytes": pl.Int64(),
    "allocator_calls": pl.Int64(),
    "allocator_ns": pl.Int64(),
    "reason": pl.String(),
}
HOST_SINCE = "host memory counts from the profiler's start, and no host memory is reserved"
NO_RESERVED = "reserved memory is not recorded"
NO_ADDRESSES = "allocations have no addresses, so none can be tied to its free"
MANY_DEVICES = "allocator calls don't say which of the devices they are for"


def memory(
    source: Source,
    *,
    window: str = "host",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, device) with its allocated and reserved bytes, host memory last.

    The window is `host` by default, the complete host steps: the allocator acts at host time.

    - `peak_allocated_bytes` = the largest level in the window, that at its begin included; it is
      first reached at `peak_t_ns`, in host step `peak_step`, by the operator `peak_op`, while
      `peak_running` ran on the device (null: the device was idle, or not recorded);
      `peak_above_start_bytes` = peak - level at the window's begin, known without totals as well.
    - `unused_at_peak_share` = 1 - allocated / reserved at that moment: cached blocks and gaps.
      `reserved_rises` counts how often the allocator took more from the device.
    - `allocations`, `frees` and their bytes are of rows in the window. `early_frees` are frees of
      blocks from before the recording; `lost_frees` are blocks of the window whose address was
      used again without a free; `not_freed` are those still allocated when the recording ends.
    - `allocator_calls`, `allocator_ns`: runtime calls of kind `malloc` (cudaMalloc, cudaFree,
      hipMalloc, …) that begin in the window, and their durations; null without runtime calls.

    A device without memory rows has nulls and the reason; a snapshot without history has the state
    at its end. Host memory's level counts from the profiler's start. Source: c10's
    reportMemoryUsageToProfiler and torch.cuda.memory_stats.
    """
    found = pools(source, window=window, step=step, rank=rank, device=device, within=within)
    rows = []
    for trace in source.ranks:
        mine = [pool for pool in found if pool.trace is trace]
        if not mine and rank in {None, trace.meta.rank}:
            rows += _without(trace, device, window)
        rows += [_row(pool, trace.meta.origin_ns - source.origin_ns) for pool in mine]
    return pl.DataFrame(rows, schema=SCHEMA)


def _row(pool: Pool, shift_ns: int) -> dict[str, Any]:
    found = peak(pool)
    rows = pool.rows.filter(pl.Series(pool.counted))["bytes"]
    calls, call_ns, unknown = _calls(pool)
    return {
        "rank": pool.rank,
        "device": pool.device,
        "place": pool.place,
        "window": pool.window,
        **(_levels(pool, found) if found else {}),
        **(_moment(pool, found, shift_ns) if found else {}),
        "allocations": int((rows > 0).sum()),
        "frees": int((rows < 0).sum()),
        "allocated_bytes": int(rows.filter(rows > 0).sum()),
        "freed_bytes": -int(rows.filter(rows < 0).sum()),
        **_lives(pool),
        "allocator_calls": calls,
        "allocator_ns": call_ns,
        "reason": "; ".join(_reasons(pool) + unknown) or None,
    }


def _levels(pool: Pool, found: Peak) -> dict[str, Any]:
    first = np.searchsorted(pool.at, pool.inside.start[:1], "left")
    last = np.searchsorted(pool.at, pool.inside.end[-1:], "left")
    start, end = (int(pool.level_before(x)[0]) for x in (first, last))
    levels: dict[str, Any] = {"peak_above_start_bytes": found.bytes - start}
    if pool.has_totals:
        levels |= {
            "peak_allocated_bytes": found.bytes,
            "allocated_at_start_bytes": start,
            "allocated_at_end_bytes": end,
        }
    if pool.reserved is not None:
        levels |= _reserved(pool, pool.reserved, found, int(last[0]))
    return levels


def _reserved(pool: Pool, reserved: intervals.Times, found: Peak, last: int) -> dict[str, Any]:
    """Measure what was reserved; nothing says how much was before the first row."""
    rows = np.flatnonzero(pool.counted)
    before = np.maximum(rows[:1] - 1, 0)
    seen = reserved[np.append(before, rows)]
    at_peak = int(reserved[max(found.row, 0)])
    share = 1 - found.bytes / at_peak if pool.has_totals and at_peak else None
    return {
        "peak_reserved_bytes": int(seen.max(initial=at_peak)),
        "reserved_at_end_bytes": int(reserved[max(last - 1, 0)]),
        "reserved_rises": int((np.diff(seen) > 0).sum()),
        "unused_at_peak_share": share,
    }


def _moment(pool: Pool, found: Peak, shift_ns: int) -> dict[str, Any]:
    """Say when the peak was, and what ran then."""
    if not pool.timed:
        return {}
    at = np.array([found.at])
    moment: dict[str, Any] = {
        "peak_t_ns": found.at + shift_ns,
        "peak_step": step_at(pool.trace, at)[0],
        "peak_running": running(pool, at)[0],
    }
    if found.row >= 0 and pool.at[found.row] == found.at:
        who = described(pool.trace, pool.rows["op"][found.row : found.row + 1])
        moment |= {"peak_op": who["op"][0], "peak_phase": who["phase"][0]}
    return moment


def _lives(pool: Pool) -> dict[str, int]:
    """Count blocks of the window by how they ended; nothing when they can't be told apart."""
    found = blocks(pool)
    if found is None:
        return {}
    mine = pool.counted[found.row]
    stays = mine & (found.end == pool.rows.height)
    return {
        "early_frees": int(pool.counted[found.early].sum()),
        "lost_frees": int((mine & ~found.freed & ~stays).sum()),
        "not_freed": int(stays.sum()),
        "not_freed_bytes": int(pool.rows["bytes"].to_numpy()[found.row[stays]].sum()),
    }


def _calls(pool: Pool) -> tuple[int | None, int | None, list[str]]:
    """Return number and time of allocator calls in the window, or why that isn't known."""
    if pool.place != DEVICE or not pool.trace.launches.height:
        return None, None, []
    if pool.trace.activities["device"].drop_nulls().n_unique() > 1:
        return None, None, [MANY_DEVICES]
    return *calls(pool.trace, pool.inside), []


def calls(trace: Trace, window: Intervals) -> tuple[int, int]:
    """Return number and time of the allocator calls that begin in a window."""
    made = trace.launches.filter(pl.col("kind") == "malloc")
    begins = intervals.contains(window, made["start_ns"].to_numpy())
    return int(begins.sum()), int(made["dur_ns"].filter(pl.Series(begins)).sum())


def _reasons(pool: Pool) -> list[str]:
    found = [] if pool.has_totals else [NO_TOTALS]
    if pool.rows["address"].null_count() == pool.rows.height:
        found.append(NO_ADDRESSES)
    if pool.place == HOST:
        found.append(HOST_SINCE)
    elif pool.reserved is None:
        found.append(NO_RESERVED)
    return found


def _without(trace: Trace, device: int | None, window: str) -> list[dict[str, Any]]:
    """Return the rows of a trace without memory rows: its devices, with the reason."""
    why = needs.NEEDS["memory"].why(trace)
    states = trace.segments.group_by("device").agg(
        allocated=pl.col("allocated").sum(), reserved=pl.col("bytes").sum()
    )
    known = {d: (a, r) for d, a, r in states.iter_rows()}
    numbers = set(trace.activities["device"].unique().to_list()) | set(known)
    if not trace.meta.timed and not known:
        return []
    rows = []
    for number in sorted(numbers or {None}, key=lambda d: (d is None, d)):
        allocated, reserved = known.get(number, (None, None))
        made = number is not None and len(numbers) == 1 and trace.launches.height
        used, stretch = inside(trace, number, window)
        count, ns = calls(trace, stretch) if made else (None, None)
        state = {"allocated_at_end_bytes": allocated, "reserved_at_end_bytes": reserved}
        called = {"allocator_calls": count, "allocator_ns": ns}
        if device is None or number == device:
            where = {"rank": trace.meta.rank, "device": number, "window": used}
            rows.append({**where, **state, **called, "reason": why})
    return rows
