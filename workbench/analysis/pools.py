"""What memory analyses share: the memory of one device inside a window, and its blocks.

A pool is the memory of one (rank, device). The allocator acts at host time, ahead of the device, so
the window that fits is `host`: the complete host steps. A level holds from its row to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis.window import Range, own_time, select, spans
from workbench.intervals import Intervals, Times
from workbench.trace import nesting
from workbench.trace.core import Source, Trace
from workbench.trace.nesting import NONE, Rows

DEVICE, HOST = "device", "host"
BEFORE = "allocated before the recording, or by no allocation in it"
NO_TOTALS = "the recording has no totals, so only changes since its begin are known"


@dataclass(frozen=True)
class Pool:
    """The memory of one device of one rank, with the window to look at."""

    trace: Trace
    device: int | None
    """Accelerator index; null for host memory, or when the recording doesn't say."""
    window: str
    """The window that was used, which is `all` when there are no complete host steps."""
    inside: Intervals
    rows: pl.DataFrame
    """All its rows of `memory`, in recorded order, also those outside the window."""

    @property
    def rank(self) -> int | None:
        """The rank, when it is known."""
        return self.trace.meta.rank

    @property
    def place(self) -> str | None:
        """`device` or `host`; null when the recording doesn't say which."""
        if self.device is not None:
            return DEVICE
        if self.rows.height and self.rows["address"].null_count() < self.rows.height:
            return HOST
        return HOST if self.trace.ops.height else None

    @property
    def timed(self) -> bool:
        """Say whether its rows have times; without, their order stands for them."""
        return not self.rows["t_ns"].null_count()

    @cached_property
    def at(self) -> Times:
        """The time of each row."""
        return self.rows["t_ns"].to_numpy() if self.timed else np.arange(self.rows.height)

    @property
    def has_totals(self) -> bool:
        """Say whether `level` is what is allocated, not only its change since the begin."""
        return bool(self.rows.height) and not self.rows["total_allocated"].null_count()

    @cached_property
    def level(self) -> Times:
        """What is allocated after each row; without totals, the sum of changes so far."""
        column = "total_allocated" if self.has_totals else "bytes"
        found: Times = self.rows[column].to_numpy()
        return found if self.has_totals else np.cumsum(found)

    @cached_property
    def reserved(self) -> Times | None:
        """What is reserved after each row; null where the recording or the host has none."""
        column = self.rows["total_reserved"]
        return None if column.null_count() or not column.max() else column.to_numpy()

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Say of each row whether it lies in the window."""
        return intervals.contains(self.inside, self.at)

    def level_before(self, row: Times) -> Times:
        """Return what is allocated just before some rows; before the first: what it starts from."""
        whole = np.concatenate((self.level[:1] - self.rows["bytes"].head(1).to_numpy(), self.level))
        return whole[row]


class Peak(NamedTuple):
    """The first moment at which a pool's allocated bytes are at their highest in its window."""

    row: int
    """The last row before or at that moment; -1: before the first."""
    at: int
    bytes: int


class Blocks(NamedTuple):
    """What was allocated, and until when, by positions in a pool's rows."""

    row: Rows
    """The allocation."""
    end: Rows
    """The row from which on it is no longer allocated; the number of rows: never freed."""
    freed: NDArray[np.bool_]
    """Its free was recorded; without, another allocation or a free of other size took its place."""
    early: Rows
    """Frees of what no allocation in the recording made."""


def pools(
    source: Source,
    *,
    window: str = "host",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> list[Pool]:
    """Return one pool for each (rank, device) with memory rows, devices before the host.

    Parameters
    ----------
    window
        `host`: union of complete host steps (without any, as `all`); `steps`: union of the device's
        complete steps, where it has some; `all`: the recording.

    Raises
    ------
    UsageError
        As `window.select`.
    """
    select(source, window=window, step=step, rank=rank, device=device, within=within)
    return [
        Pool(trace, number, *inside(trace, number, window, step, own), rows)
        for trace in source.ranks
        if rank is None or trace.meta.rank == rank
        for own in [own_time(trace, source, within)]
        for recorded, number in _numbers(trace).items()
        if device is None or number == device
        for rows in [trace.memory.filter(pl.col("device").eq_missing(recorded))]
    ]


def _numbers(trace: Trace) -> dict[int | None, int | None]:
    """Return the device of each device of the memory table, host memory last.

    ROCm counts the devices that a process sees for memory and all of the machine for activity, so
    where each has one, and another number, both are the one of the activities.
    """
    recorded = trace.memory["device"].unique().sort(nulls_last=True).to_list()
    held, ran = set(recorded) - {None}, set(trace.activities["device"].unique()) - {None}
    same = dict(zip(held, ran, strict=True)) if len(held) == len(ran) == 1 else {}
    return {number: same.get(number, number) for number in recorded}


def inside(
    trace: Trace,
    device: int | None,
    window: str,
    step: tuple[int, int] | None = None,
    within: Range | None = None,
) -> tuple[str, Intervals]:
    """Return the name of the window that is used, and its stretches in the trace's own time."""
    prefix, marks = "host_", trace.host_steps
    of_device = trace.steps.filter(pl.col("device").eq_missing(device))
    if window == "steps" and of_device.height:
        prefix, marks = "", of_device
    marks = marks.filter("complete")
    if step is not None:
        marks = marks.filter(pl.col("step").is_between(*step))
    if window == "all" or not marks.height:
        window, found = "all", _recording(trace)
    else:
        start = marks[f"{prefix}start_ns"].to_numpy()
        window = "host" if prefix else "steps"
        found = intervals.union(start, start + marks[f"{prefix}dur_ns"].to_numpy())
    return window, found if within is None else intervals.clip(found, *within)


def _recording(trace: Trace) -> Intervals:
    """Return the stretch from the first to the last thing of any kind, the last included."""
    if trace.memory.height and trace.memory["t_ns"].null_count():
        return Intervals(np.array([0]), np.array([trace.memory.height]))
    tables = (trace.activities, trace.launches, trace.ops)
    edges = [x for t in tables if t.height and not t["start_ns"].null_count() for x in spans(t)]
    times = np.concatenate([*edges, trace.memory["t_ns"].to_numpy()])
    if not len(times):
        return intervals.EMPTY
    return Intervals(times.min(keepdims=True), times.max(keepdims=True) + 1)


def peak(pool: Pool) -> Peak | None:
    """Return the first highest level in the window, the level that it begins with included."""
    begin = np.searchsorted(pool.at, pool.inside.start, "left")
    rows = np.flatnonzero(pool.counted)
    row, at = np.concatenate((begin - 1, rows)), np.concatenate((pool.inside.start, pool.at[rows]))
    if not len(row):
        return None
    level = pool.level_before(row + 1)
    order = np.lexsort((row, at))
    best = order[np.argmax(level[order])]
    return Peak(int(row[best]), int(at[best]), int(level[best]))


def blocks(pool: Pool) -> Blocks | None:
    """Pair allocations with their frees; null when no row has an address.

    The next row of the same address and file ends a block: by its free, when the size is the same;
    else a row is missing or damaged, and the block is gone all the same. A free that doesn't follow
    its allocation is of memory from before the recording.
    """
    table = pool.rows
    usable = (table["address"].is_not_null() & (table["bytes"] != 0)).to_numpy()
    if not usable.any():
        return None
    row = np.flatnonzero(usable)
    size, address = table["bytes"].to_numpy()[row], table["address"].to_numpy()[usable]
    file = _file(pool, row)
    order = np.lexsort((row, address, file))
    row, size, address, file = row[order], size[order], address[order], file[order]
    linked = np.zeros(len(row), np.bool_)
    linked[:-1] = (address[1:] == address[:-1]) & (file[1:] == file[:-1])
    after = np.append(row[1:], len(table))
    is_alloc = size > 0
    freed = linked & is_alloc & np.append(size[1:] == -size[:-1], [False])
    is_free_of = np.append([False], freed[:-1])
    return Blocks(
        row[is_alloc],
        np.where(linked, after, table.height)[is_alloc],
        freed[is_alloc],
        row[~is_alloc & ~is_free_of],
    )


def _file(pool: Pool, row: Rows) -> Rows:
    """Return which of the rank's files each row is from: nothing is known of what lies between."""
    begins = np.array([w.start_ns for w in pool.trace.meta.windows][1:], np.int64)
    return np.searchsorted(begins, pool.at[row], "right")


def step_at(trace: Trace, at: Times) -> pl.Series:
    """Return the host step that runs at each time; null outside of steps."""
    marks = trace.host_steps.sort("host_start_ns")
    start = marks["host_start_ns"].to_numpy()
    row = np.searchsorted(start, at, "right") - 1
    ended = start + marks["host_dur_ns"].to_numpy()
    row = np.where((row >= 0) & (at < np.append(ended, 0)[row]), row, NONE)
    return nesting.gathered(marks["step"], row).rename("step")


def running(pool: Pool, at: Times) -> pl.Series:
    """Return the name of an activity that runs at each time, the last started; null: none does.

    Of host memory on a machine with an accelerator: on any device.
    """
    activities = pool.trace.activities
    if pool.device is not None:
        activities = activities.filter(pl.col("device") == pool.device)
    start, end = spans(activities)
    found, since = np.full(len(at), NONE), np.full(len(at), np.iinfo(np.int64).min)
    if pool.timed:
        for row in activities.with_row_index("row").partition_by("device", "stream"):
            mine = row["row"].to_numpy().astype(np.int64)
            hit = _running(start[mine], end[mine], at)
            here = np.where(hit >= 0, mine[hit], NONE)
            later = (here >= 0) & (start[here] > since)
            found[later], since[later] = here[later], start[here[later]]
    return nesting.gathered(activities["name"].cast(pl.String), found).rename("running")


def _running(start: Times, end: Times, at: Times) -> Rows:
    """Return the last started that runs at each time, or -1; `start` ascends.

    When the very last one has ended already, the one that reaches furthest stands in.
    """
    last = np.searchsorted(start, at, "right") - 1
    furthest = np.searchsorted(np.maximum.accumulate(end), at, "right")
    running_still = (last >= 0) & (furthest <= last)
    last = np.where(running_still & (end[last] <= at), furthest, last)
    return np.where(running_still, last, NONE)


def described(trace: Trace, op: pl.Series) -> pl.DataFrame:
    """Return `op outer_op module phase` of some operators by row; null where there is none."""
    row = nesting.ids(op)
    ops = trace.ops
    outer = np.append(roots(ops), NONE)[row]
    names = ops["name"]
    return pl.DataFrame(
        {
            "op": nesting.gathered(names, row).cast(pl.String),
            "outer_op": nesting.gathered(names, outer).cast(pl.String),
            "module": nesting.gathered(ops["module"], row).cast(pl.String),
            "phase": nesting.gathered(ops["phase"], row),
        }
    )


def roots(ops: pl.DataFrame) -> Rows:
    """Return the outermost operator that encloses each one, by doubling."""
    root = np.arange(ops.height)
    up = nesting.ids(ops["parent"]).copy()
    active = np.flatnonzero(up >= 0)
    while len(active):
        root[active] = root[up[active]]
        up[active] = up[up[active]]
        active = active[up[active] >= 0]
    return root
