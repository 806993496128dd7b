"""`frames`: where the host's Python spends its time, and what device time it launches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import intervals
from workbench.analysis import pieces, subtree
from workbench.analysis.window import Range, Selection, own_time, select, spans
from workbench.intervals import Times
from workbench.trace import nesting
from workbench.trace.core import Source, Trace
from workbench.trace.nesting import NONE, Axis, Nested, Rows

NEEDS = ("frames",)
SCHEMA = {
    "rank": pl.Int32(),
    "thread": pl.Int32(),
    "name": pl.String(),
    "calls": pl.Int64(),
    "self_host_ns": pl.Int64(),
    "host_share": pl.Float64(),
    "python_ns": pl.Int64(),
    "total_host_ns": pl.Int64(),
    "device_ns": pl.Int64(),
}
ADDRESS = r" at 0x[0-9a-fA-F]+"
"""Names of methods of C types hold the object's address; all objects of a type are one row."""


class _Stacks(NamedTuple):
    """Frames by thread, callers before what they call; `group` numbers (thread, function)."""

    nested: Nested
    group: NDArray[np.integer]
    by_group: Rows
    names: pl.Series


def frames(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each (rank, thread, function), by self time.

    `name` is `file(line): function`, `thread` an index into `meta.threads`.

    Of the calls that begin in the host steps of the window (all when it has none), or in `within`:
    `self_host_ns` = duration less the union of the calls right below it, so the rows add up and
    `host_share` is of the thread's sum. What a C function does (an operator, a launch, a wait) is
    in it; `python_ns` = duration less the union of those calls and of the operators and runtime
    calls that begin right in it: time in the interpreter, or in C code that isn't recorded.
    `total_host_ns` is the duration of the function's outermost calls alone, so recursion counts
    once. `device_ns` is the union of the activities launched on the thread within one such call,
    clipped to the window, added up over the calls and devices; backward kernels are launched by
    autograd's thread, mostly below no Python call. Addresses of objects are left out of names.
    """
    found = select(source, window=window, step=step, rank=rank, within=within)
    parts = []
    for trace in source.ranks:
        chosen = [s for s in found if s.trace is trace]
        recorded = trace.meta.timed and rank in {None, trace.meta.rank} and trace.frames.height
        if recorded and (chosen or step is None):
            parts.append(_of_rank(trace, chosen, own_time(trace, source, within)))
    return pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)


def _of_rank(trace: Trace, chosen: list[Selection], within: Range | None) -> pl.DataFrame:
    stacks = _stacks(trace.frames)
    nested = stacks.nested
    keep = pieces.begun(nested.start, chosen, within)
    dur = nested.end - nested.start
    inner = _children(nested)
    below = _summed(inner.outer, inner.end - inner.start, len(dur))
    outermost = keep & _outermost(stacks)
    measured = {
        "calls": keep.astype(np.int64),
        "self_host_ns": np.where(keep, dur - below, 0),
        "python_ns": np.where(keep, dur - _taken(trace, nested, inner), 0),
        "total_host_ns": np.where(outermost, dur, 0),
    }
    if chosen:
        device = sum(_device(s, nested) for s in chosen)
        measured["device_ns"] = np.where(outermost, device, 0)
    grouped = _by_group(stacks, measured).filter(pl.col("calls") > 0)
    return (
        grouped.with_columns(
            rank=pl.lit(trace.meta.rank, pl.Int32),
            thread=pl.col("group") // len(stacks.names),
            name=stacks.names[grouped["group"] % len(stacks.names)],
        )
        .with_columns(
            host_share=(
                pl.col("self_host_ns") / pl.col("self_host_ns").sum().over("thread")
            ).fill_nan(None)
        )
        .sort(
            "self_host_ns", "total_host_ns", "thread", "name", descending=[True, True, False, False]
        )
        .select(pl.col(n).cast(t) for n, t in SCHEMA.items())
    )


def _by_group(stacks: _Stacks, measured: dict[str, Times]) -> pl.DataFrame:
    """Add up what was measured of each call by function; `device_ns` is null when it wasn't."""
    group = stacks.group[stacks.by_group]
    begins = np.diff(group, prepend=-1) != 0
    number = np.empty(len(group), np.int64)
    number[stacks.by_group] = np.cumsum(begins) - 1
    sums = {n: _summed(number, x, int(begins.sum())) for n, x in measured.items()}
    unknown = {} if "device_ns" in sums else {"device_ns": [None] * int(begins.sum())}
    return pl.DataFrame({"group": group[begins], **sums, **unknown})


def _stacks(table: pl.DataFrame) -> _Stacks:
    """Put the frames in order; the interpreter's own parents are taken where it recorded them."""
    thread, start = table["thread"].to_numpy(), table["start_ns"].to_numpy()
    end = start + table["dur_ns"].to_numpy()
    order = np.argsort(thread, kind="stable")
    if not _in_order(thread[order], start[order], end[order]):
        order = nesting.order(thread, start, end)
    thread, start, end = thread[order], start[order], end[order]
    recorded = nesting.ids(table["parent"])[order]
    if (recorded == NONE).all():
        parent = nesting.parents(thread, start, end)
    else:
        place = np.empty(len(order) + 1, np.int64)
        place[order], place[NONE] = np.arange(len(order)), NONE
        parent = place[recorded]
        if (parent >= np.arange(len(parent))).any():
            parent = nesting.parents(thread, start, end)
    distinct = table["name"].unique(maintain_order=True)
    plain = distinct.cast(pl.String).str.replace_all(ADDRESS, "")
    names = plain.unique(maintain_order=True)
    codes = plain.replace_strict(names, np.arange(len(names)))
    physical = table["name"].to_physical().to_numpy()
    code = np.zeros(physical.max(initial=0) + 1, np.int64)
    code[distinct.to_physical().to_numpy()] = codes.to_numpy()
    group = thread.astype(np.int64) * len(names) + code[physical[order]]
    # numbers of two bytes are sorted in a tenth of the time
    small = group.astype(np.uint16) if group.max(initial=0) < 2**16 else group
    by_group = np.argsort(small, kind="stable")
    return _Stacks(Nested(thread, start, end, parent), group, by_group, names)


def _in_order(thread: NDArray[np.integer], start: Times, end: Times) -> bool:
    """Say whether rows, sorted by thread, are in the order of `nesting.order`."""
    same = thread[1:] == thread[:-1]
    wrong = (start[1:] < start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] > end[:-1]))
    return not bool((same & wrong).any())


class _Children(NamedTuple):
    """What each call takes out of its caller: clipped to it, and less earlier overlapping ones."""

    outer: Rows
    start: Times
    end: Times


def _children(nested: Nested) -> _Children:
    inner = np.flatnonzero(nested.parent != NONE)
    inner = inner[np.argsort(nested.parent[inner], kind="stable")]
    outer = nested.parent[inner]
    start = np.maximum(nested.start[inner], nested.start[outer])
    end = np.maximum(np.minimum(nested.end[inner], nested.end[outer]), start)
    sibling = outer[1:] == outer[:-1]
    if (sibling & (start[1:] < end[:-1])).any():
        before = intervals.grouped_reach(outer, end)[:-1]
        start[1:] = np.where(sibling, np.maximum(start[1:], before), start[1:])
        end = np.maximum(start, end)
    return _Children(outer, start, end)


def _summed(owner: Rows, ns: Times, owners: int) -> Times:
    out = np.zeros(owners, np.int64)
    np.add.at(out, owner, ns)
    return out


def _taken(trace: Trace, nested: Nested, inner: _Children) -> Times:
    """Return the union of the calls, operators and runtime calls begun right in each call."""
    callers = [
        nesting.innermost(nested, t["thread"].to_numpy(), t["start_ns"].to_numpy())
        for t in (trace.ops, trace.launches)
    ]
    of_op = np.append(callers[0], NONE)
    outer = np.concatenate([nesting.ids(trace.ops["parent"]), nesting.ids(trace.launches["op"])])
    owner = np.concatenate(callers)
    start, end = (
        np.concatenate(x) for x in zip(spans(trace.ops), spans(trace.launches), strict=True)
    )
    # what an operator of the same call holds is part of it, unless it outlives the operator
    outlives = end > np.append(spans(trace.ops)[1], np.iinfo(np.int64).max)[outer]
    first = (owner != NONE) & ((of_op[outer] != owner) | outlives)
    owner, start = owner[first], start[first]
    end = np.maximum(np.minimum(end[first], nested.end[owner]), start)
    working = np.zeros(len(nested.start), np.bool_)
    working[owner] = True
    beside = working[inner.outer]
    found = _summed(inner.outer, np.where(beside, 0, inner.end - inner.start), len(working))
    place = np.cumsum(working) - 1
    found[working] = intervals.grouped_length(
        place[np.concatenate((owner, inner.outer[beside]))],
        np.concatenate((start, inner.start[beside])),
        np.concatenate((end, inner.end[beside])),
        int(working.sum()),
    )
    return found


def _outermost(stacks: _Stacks) -> NDArray[np.bool_]:
    """Say of each call whether no call of the same function is running on its thread."""
    nested, order = stacks.nested, stacks.by_group
    group, start, end = stacks.group[order], nested.start[order], nested.end[order]
    # where calls of a function run at once, two that follow one another do
    over = np.flatnonzero((group[1:] == group[:-1]) & (start[1:] < end[:-1]))
    found = np.ones(len(order), np.bool_)
    if len(over):
        again = np.flatnonzero(np.isin(group, group[over]))
        group, start, end, order = group[again], start[again], end[again], order[again]
        axis = Axis((group, start), (group, end))
        reach = np.maximum.accumulate(axis(group, end))
        found[order[1:]] = reach[:-1] <= axis(group, start)[1:]
    return found


def _device(chosen: Selection, nested: Nested) -> Times:
    """Return the union of the activities launched within each call, clipped to the window."""
    parts = pieces.of(chosen)
    thread, at = pieces.launching(chosen.activities, chosen.trace)
    owner = nesting.innermost(nested, thread, at)[parts.row]
    known = owner != NONE
    owned = subtree.Owned(owner[known], parts.start[known], parts.end[known])
    above = _around(nested, owned.owner)
    kept = np.flatnonzero(above)
    place = np.append(np.cumsum(above) - 1, NONE)
    found = np.zeros(len(above), np.int64)
    found[kept] = subtree.totals(
        place[nested.parent[kept]], owned._replace(owner=place[owned.owner])
    )
    return found


def _around(nested: Nested, owner: Rows) -> NDArray[np.bool_]:
    """Say which calls are of some rows or around them; rows are in depth-first order."""
    calls = len(nested.start)
    following = np.full(calls, calls - 1)
    following[owner] = owner
    following = np.minimum.accumulate(following[::-1])[::-1]
    holds: NDArray[np.bool_] = nested.start[following] < nested.end
    holds &= nested.thread[following] == nested.thread
    holds[owner] = True
    while True:
        missing = nested.parent[holds]
        missing = missing[(missing != NONE) & ~holds[missing]]
        if not len(missing):
            return holds
        holds[missing] = True
