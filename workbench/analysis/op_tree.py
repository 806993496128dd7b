"""`op_tree`: device and host time by the chain of operators that call one another."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.analysis import calltree
from workbench.analysis.ops import measured
from workbench.analysis.window import Range, Selection, own_time, select
from workbench.trace import nesting
from workbench.trace.core import Source, Trace

NEEDS = ("ops",)
SCHEMA = {
    "rank": pl.Int32(),
    "path": pl.String(),
    "name": pl.String(),
    "depth": pl.Int64(),
    "calls": pl.Int64(),
    "self_device_ns": pl.Int64(),
    "total_device_ns": pl.Int64(),
    "device_share": pl.Float64(),
    "self_host_ns": pl.Int64(),
    "total_host_ns": pl.Int64(),
}


def op_tree(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return a row for each chain of operators, depth first, siblings by their first call.

    `path` names the operators from the outermost down; two calls are of one place when their names
    and those around them are the same, on whatever thread. The operators and their times are those
    of `ops`, so a name's rows add up to its row there; `device_share` is the total, of the sum of
    self device times. A format without times has no rows.
    """
    found = select(source, window=window, step=step, rank=rank, within=within)
    frames = []
    for trace in source.ranks:
        chosen = [s for s in found if s.trace is trace]
        if trace.meta.timed and rank in {None, trace.meta.rank} and (chosen or step is None):
            frames.append(_places(trace, chosen, own_time(trace, source, within)))
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _places(trace: Trace, chosen: list[Selection], within: Range | None) -> pl.DataFrame:
    ops = measured(trace, chosen, within)
    if not ops.height:
        return pl.DataFrame(schema=SCHEMA)
    tree = calltree.of_operators(ops)
    columns = ("own", "total", "self_ns", "dur_ns")
    sums = {c: np.zeros(len(tree.name), np.int64) for c in columns}
    for column, total in sums.items():
        np.add.at(total, tree.node, ops[column].to_numpy())
    whole = int(sums["own"].sum())
    frame = pl.DataFrame(
        {
            "path": tree.path,
            "name": tree.name,
            "depth": nesting.depths(tree.parent),
            "calls": np.bincount(tree.node, minlength=len(tree.name)),
            "self_device_ns": sums["own"],
            "total_device_ns": sums["total"],
            "device_share": sums["total"] / whole if whole else None,
            "self_host_ns": sums["self_ns"],
            "total_host_ns": sums["dur_ns"],
        }
    )
    frame = frame.with_columns(rank=pl.lit(trace.meta.rank, pl.Int32()))
    return frame.select(pl.col(n).cast(t) for n, t in SCHEMA.items())
