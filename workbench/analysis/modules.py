"""`modules`: device and host time by `nn.Module`, as the tree in which modules call each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis import calltree, pieces, places, subtree
from workbench.analysis.calltree import Tree
from workbench.analysis.only import Only, narrowed
from workbench.analysis.window import Range, Selection, own_time, select
from workbench.intervals import Times
from workbench.trace import nesting
from workbench.trace.core import Source, Trace
from workbench.trace.nesting import NONE, Rows

NEEDS = ("module calls",)
SCHEMA = {
    "rank": pl.Int32(),
    "path": pl.String(),
    "name": pl.String(),
    "class": pl.String(),
    "depth": pl.Int64(),
    "parent": pl.String(),
    "calls": pl.Int64(),
    "self_device_ns": pl.Int64(),
    "total_device_ns": pl.Int64(),
    "device_share": pl.Float64(),
    "forward_device_ns": pl.Int64(),
    "backward_device_ns": pl.Int64(),
    "recompute_device_ns": pl.Int64(),
    "self_host_ns": pl.Int64(),
    "total_host_ns": pl.Int64(),
    "marked_by": pl.String(),
}
DEVICE = (
    "self_device_ns",
    "total_device_ns",
    "forward_device_ns",
    "backward_device_ns",
    "recompute_device_ns",
)


def modules(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
    only: Only | None = None,
) -> pl.DataFrame:
    """Return a row for each place in the tree of modules, depth first, siblings by first call.

    `path` names the instances from the outermost down (`GPT_0/Block_3/Linear_2`), `class` is the
    name without the profiler's number. An activity counts to the module whose call its operator
    ran in; without an operator, to the call around its launch (a graph replay); a backward
    operator's to the module of its forward partner (`workbench.trace.partners:modules`). A module
    that activation checkpointing calls again counts where it stands in the forward pass.

    `self_device_ns` is the union of the activities of the module itself, clipped to the window;
    `total_device_ns` that of its whole subtree, so only self times may be added up.
    `forward_device_ns`, `backward_device_ns` and `recompute_device_ns` split the total by the phase
    of the launch; forward is all that is not of the other two. On several devices each is the sum
    over devices. `device_share` = total / busy time |A| in the window. The last row, without a
    path, is device time of no module.

    `calls` are those that begin in the window's host steps. `self_host_ns` is their time less
    that of the module calls right below; `total_host_ns` adds up the self times of the subtree
    (several threads count each). Backward operators run in no module call, so their host time is
    not in it. Both and `calls` are null where only names of modules are recorded. `marked_by` is
    `module`, or `range` in formats without modules, whose NVTX or roctx ranges stand for them.

    With `only`, device times and shares are of that part of the work and rows of the modules that
    have some of it; `calls` and host times stay those of the module.
    """
    found = select(source, window=window, step=step, rank=rank, device=device, within=within)
    found = narrowed(found, only)
    frames = []
    for trace in source.ranks:
        chosen = [s for s in found if s.trace is trace]
        if chosen:
            own = own_time(trace, source, within)
            frames.append(_of_rank(trace, chosen, own, is_part=bool(only)))
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


class _Host(NamedTuple):
    """By place: number of calls and host time."""

    calls: Times
    own: Times


def _of_rank(
    trace: Trace, chosen: list[Selection], within: Range | None, *, is_part: bool
) -> pl.DataFrame:
    tree = calltree.tree(trace)
    if not tree.name:
        return pl.DataFrame(schema=SCHEMA)
    measured, busy = _device_times(tree, chosen)
    host = _host_times(tree, chosen, within)
    path = tree.path
    listed = range(len(path))
    total_host = _added_up(tree.parent, host.own)
    frame = pl.DataFrame(
        {
            "path": [*path, None],
            "name": [*tree.name, None],
            "depth": [*nesting.depths(tree.parent).tolist(), 0],
            "parent": [*(path[p] if p != NONE else None for p in tree.parent.tolist()), None],
            "calls": [*host.calls.tolist(), None],
            **dict(zip(DEVICE, measured, strict=True)),
            "self_host_ns": [*host.own.tolist(), None],
            "total_host_ns": [*total_host.tolist(), None],
            "place": [*listed, None],
        },
        schema_overrides={"path": pl.String, "name": pl.String, "parent": pl.String},
    )
    if not len(tree.node):
        unknown = (pl.lit(None).alias(n) for n in ("calls", "self_host_ns", "total_host_ns"))
        frame = frame.with_columns(*unknown)
    some = pl.col("total_device_ns") > 0
    if not is_part:
        some |= pl.col("calls") > 0
    kept = frame.filter(_or_below(tree.parent, frame.select(some.fill_null(value=False))))
    return kept.with_columns(
        pl.lit(trace.meta.rank).alias("rank"),
        _class(tree.kind).alias("class"),
        pl.lit(tree.kind).alias("marked_by"),
        (pl.col("total_device_ns") / (busy or None)).alias("device_share"),
    ).select(pl.col(n).cast(t) for n, t in SCHEMA.items())


def _or_below(parent: Rows, some: pl.DataFrame) -> pl.Series:
    """Keep also the places around one that is kept, so that the tree has no holes."""
    kept = some.to_series().to_numpy().copy()
    for node in range(len(parent) - 1, -1, -1):
        if kept[node] and parent[node] != NONE:
            kept[parent[node]] = True
    return pl.Series(kept)


def _class(kind: str) -> pl.Expr:
    if kind == calltree.RANGE:
        return pl.lit(None, pl.String)
    return pl.col("name").str.replace(r"_\d+$", "")


def _device_times(tree: Tree, chosen: list[Selection]) -> tuple[list[Times], int]:
    """Return the device times of each place (and of none, last), in `DEVICE`'s order; and |A|."""
    count = len(tree.name)
    sums = [np.zeros(count + 1, np.int64) for _ in DEVICE]
    of_op = places.of_operators(tree, chosen[0].trace)
    for s in chosen:
        node = places.of_activities(tree, s.trace, s.activities, of_op)
        parts = pieces.of(s)
        phase = s.activities["phase"].cast(pl.String).fill_null("").to_numpy()[parts.row]
        node = node[parts.row]
        back, again = phase == "backward", phase == "recomputation"
        every = np.ones(len(node), np.bool_)
        own = np.where(node == NONE, count, node)
        sums[0] += intervals.grouped_length(own, parts.start, parts.end, count + 1)
        for i, keep in enumerate((every, ~back & ~again, back, again), 1):
            sums[i] += _totals(tree.parent, node, parts, keep)
    return sums, sum(intervals.length(s.times()) for s in chosen)


def _totals(
    parent: Rows, node: Rows, parts: pieces.Pieces, keep: np.typing.NDArray[np.bool_]
) -> Times:
    inside, outside = keep & (node != NONE), keep & (node == NONE)
    owned = subtree.Owned(node[inside], parts.start[inside], parts.end[inside])
    none = intervals.union(parts.start[outside], parts.end[outside])
    return np.append(subtree.totals(parent, owned), intervals.length(none))


def _host_times(tree: Tree, chosen: list[Selection], within: Range | None) -> _Host:
    keep = pieces.begun(tree.calls.start, chosen, within)
    places, own = tree.node[keep], calltree.own_ns(tree.calls)[keep]
    calls = np.bincount(places, minlength=len(tree.name))
    host = np.zeros(len(tree.name), np.int64)
    np.add.at(host, places, own)
    return _Host(calls, host)


def _added_up(parent: Rows, own: Times) -> Times:
    """Add each place's time to all places around it; rows are in depth-first order."""
    total = own.copy()
    for node in range(len(parent) - 1, -1, -1):
        if parent[node] != NONE:
            total[parent[node]] += total[node]
    return total
