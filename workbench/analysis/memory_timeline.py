"""`memory_timeline`: what was allocated and reserved, moment by moment, and who changed it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.analysis.pools import Pool, blocks, described, pools, running, step_at
from workbench.analysis.window import Range
from workbench.errors import UsageError, unknown_name
from workbench.intervals import Times
from workbench.trace import schema
from workbench.trace.core import Source
from workbench.trace.nesting import Rows

NEEDS = ("memory",)
BY = ("category", "phase")
EARLIER, OUTSIDE, SINCE = "before the recording", "outside operators", "since then"
"""What no phase is known of: from before; while no operator ran; without any operators recorded."""
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "place": pl.String(),
    "t_ns": pl.Int64(),
    "change_bytes": pl.Int64(),
    "category": pl.String(),
    "held_bytes": pl.Int64(),
    "allocated_bytes": pl.Int64(),
    "above_start_bytes": pl.Int64(),
    "reserved_bytes": pl.Int64(),
    "step": pl.Int32(),
    "phase": schema.PHASE,
    "op": pl.String(),
    "running": pl.String(),
}


class _Stack(NamedTuple):
    """What is allocated in each category after each row: names, and a row of numbers for each."""

    names: list[str | None]
    bytes: NDArray[np.int64]


def memory_timeline(
    source: Source,
    *,
    window: str = "host",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    by: str = "category",
    points: int | None = None,
) -> pl.DataFrame:
    """Return a row for each allocation and free, and for each category a row of its own.

    - A row holds from its `t_ns` to the next row's, the last one to the window's end; the first one
      is the window's begin. `change_bytes` is what came (or went, negative); several rows may share
      one time.
    - `allocated_bytes` is of the whole device, null when the recording has no totals;
      `above_start_bytes` = allocated - level at the window's begin is known all the same.
    - `held_bytes` is what a `category` holds. With `by="category"` they are those that the
      recording names; where it names none, one without a name holds all. With `by="phase"` they are
      the phases of the operators that allocated what is still allocated; `before the recording` is
      the rest of the total (`since then` is all else where no operators are recorded). Categories
      add up to `allocated_bytes` at every row.
    - `op` made the change, in `phase` and host step `step`, while `running` ran on the device.
    - `points`: at most that many moments for each device. Time is cut into buckets of equal length
      and each keeps the row with the largest total, so peaks stay exact.

    Raises
    ------
    UsageError
        An unknown `by`, or fewer than one point.
    """
    if by not in BY:
        raise unknown_name("grouping", by, BY)
    if points is not None and points < 1:
        raise UsageError(f"points must be at least 1, not {points}.")
    frames = [
        _of_pool(pool, by, points, pool.trace.meta.origin_ns - source.origin_ns)
        for pool in pools(source, window=window, step=step, rank=rank, device=device, within=within)
    ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _of_pool(pool: Pool, by: str, points: int | None, shift_ns: int) -> pl.DataFrame:
    begin, rows = np.searchsorted(pool.at, pool.inside.start, "left"), np.flatnonzero(pool.counted)
    after = np.concatenate((begin, rows + 1))
    at = np.concatenate((pool.inside.start, pool.at[rows]))
    order = np.lexsort((after, at))
    after, at = after[order], at[order]
    is_change = np.concatenate((np.zeros(len(begin), np.bool_), np.ones(len(rows), np.bool_)))[
        order
    ]
    kept = _highest(at, pool.level_before(after), points)
    after, at, is_change = after[kept], at[kept], is_change[kept]
    frame = _moments(pool, after, at, is_change)
    stack = _by_phase(pool) if by == "phase" else _by_category(pool)
    count = len(stack.names)
    long = frame[np.repeat(np.arange(len(at)), count)].with_columns(
        rank=pl.lit(pool.rank, pl.Int32),
        device=pl.lit(pool.device, pl.Int32),
        place=pl.lit(pool.place, pl.String),
        category=pl.Series(stack.names * len(at), dtype=pl.String),
        held_bytes=pl.Series(stack.bytes[:, after].T.ravel()),
        t_ns=pl.col("t_ns") + shift_ns,
    )
    if not pool.has_totals:
        long = long.with_columns(allocated_bytes=None, held_bytes=None)
    return long.select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _highest(at: Times, level: Times, points: int | None) -> Rows:
    """Return which moments to keep: of each bucket the first one with the largest level."""
    if points is None or len(at) <= points:
        return np.arange(len(at))
    span = int(at[-1] - at[0]) + 1
    # whole numbers: a double would put moments of a long trace into the wrong bucket
    bucket = (at - at[0]) * points // span if span < 2**62 // points else at * 0
    order = np.lexsort((np.arange(len(at)), -level, bucket))
    first = np.concatenate(([True], np.diff(bucket[order]) > 0))
    return np.sort(order[first])


def _moments(pool: Pool, after: Rows, at: Times, is_change: NDArray[np.bool_]) -> pl.DataFrame:
    row = np.maximum(after - 1, 0)
    level = pool.level_before(after)
    start = pool.level_before(np.searchsorted(pool.at, pool.inside.start[:1], "left"))
    change = np.where(is_change, pool.rows["bytes"].to_numpy()[row], 0)
    changes = pl.DataFrame({"op": pool.rows["op"].gather(row), "is_change": is_change})
    who = described(pool.trace, changes.select(pl.when("is_change").then("op").alias("op"))["op"])
    reserved = None if pool.reserved is None else pl.Series(pool.reserved[row])
    times = pl.Series(at) if pool.timed else pl.Series([None] * len(at), dtype=pl.Int64)
    return who.select(
        "op",
        "phase",
        t_ns=times,
        change_bytes=pl.Series(change),
        allocated_bytes=pl.Series(level),
        above_start_bytes=pl.Series(level - start) if len(start) else None,
        reserved_bytes=reserved,
        step=step_at(pool.trace, at) if pool.timed else None,
        running=running(pool, at),
    )


def _by_category(pool: Pool) -> _Stack:
    """Add up the changes of each recorded category; the first column is before the first row."""
    named = pool.rows["category"].cast(pl.String)
    names = named.unique().sort().to_list()
    if names == [None]:
        whole = pool.level_before(np.arange(pool.rows.height + 1))
        return _Stack([None], whole[None, :])
    size = pool.rows["bytes"].to_numpy()
    sums = [_sums(np.where(named.eq_missing(name).to_numpy(), size, 0)) for name in names]
    return _Stack(names, np.array(sums))


def _by_phase(pool: Pool) -> _Stack:
    """Add up what is allocated by the phase that allocated it; the rest is from before."""
    found = blocks(pool)
    whole = pool.level_before(np.arange(pool.rows.height + 1))
    if found is None:
        return _Stack([None], whole[None, :])
    phase = described(pool.trace, pool.rows["op"][found.row])["phase"].cast(pl.String)
    size = pool.rows["bytes"].to_numpy()[found.row]
    stack = {}
    for name in phase.unique().sort().to_list():
        mine = phase.eq_missing(name).to_numpy()
        change = np.zeros(pool.rows.height + 1, np.int64)
        np.add.at(change, found.row[mine], size[mine])
        np.subtract.at(change, found.end[mine], size[mine])
        unknown = OUTSIDE if pool.trace.ops.height else SINCE
        stack[unknown if name is None else name] = _sums(change[:-1])
    stack[EARLIER] = whole - sum(stack.values())
    return _Stack([*stack], np.array([*stack.values()]))


def _sums(change: Times) -> Times:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(change)))
