"""`recompute`: device and host time spent on computing activations a second time."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis import calltree, needs, pieces
from workbench.analysis.window import Range, Selection, own_time, select, step_numbers
from workbench.trace import nesting, schema
from workbench.trace.core import Source, Trace
from workbench.trace.nesting import NONE, Nested

NEEDS = ("phases", "autograd numbers")
SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "op": pl.String(),
    "calls": pl.Int64(),
    "count": pl.Int64(),
    "device_ns": pl.Int64(),
    "kernel_ns": pl.Int64(),
    "device_share": pl.Float64(),
    "host_ns": pl.Int64(),
    "host_share": pl.Float64(),
}
PHASE = "recomputation"


def recompute(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
    device: int | None = None,
    within: Range | None = None,
) -> pl.DataFrame:
    """Return for each (rank, device) one row for all recomputation, then one an operator.

    Recomputation is the phase of that name (`workbench.trace.phases:classifier`): forward operators
    below a backward node, which is how activation checkpointing runs them. In the first row `op` is
    null and the times are of all of them together; the rest are by innermost launching operator,
    longest first. `count` is of activities that start in the window; `device_ns` is the length of
    their union and `kernel_ns` that of the compute kernels |C| alone, both clipped to the window.
    `device_share` = device_ns / |A|. `calls` and `host_ns` are of the operators that begin in the
    window's steps: each one's duration less that of the operators in it (runtime calls count to
    it); they are of the whole rank. `host_share` is of the same time of all operators. There are no
    rows where no operator has an autograd number, for then nothing tells forward operators.

    TraceLens's rows `[recompute]` leave out copies and sets, which its tree does not hold:
    its computation time is `kernel_ns` in the window `all`.
    """
    found = select(source, window=window, step=step, rank=rank, device=device, within=within)
    frames = []
    for trace in source.ranks:
        chosen = [s for s in found if s.trace is trace]
        if chosen and all(needs.NEEDS[n].present(trace) for n in NEEDS):
            host = _on_host(trace, chosen, own_time(trace, source, within))
            frames += [_of(s, host) for s in chosen]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def _of(chosen: Selection, host: pl.DataFrame) -> pl.DataFrame:
    whole_host = int(host["host_ns"].sum())
    mine = host.filter(pl.col("phase") == PHASE).drop("phase")
    by_op = _on_device(chosen).join(mine, on="op", how="full", coalesce=True)
    zeros = [pl.col(n).fill_null(0) for n in ("calls", "count", "device_ns", "kernel_ns")]
    by_op = by_op.with_columns(*zeros).sort(
        "device_ns", "host_ns", "op", descending=[True, True, False], nulls_last=True
    )
    totals = pl.DataFrame(
        {
            "op": [None],
            "device_ns": [_union(chosen, ())],
            "kernel_ns": [_union(chosen, schema.COMPUTE_KINDS)],
        },
        schema={"op": pl.String, "device_ns": pl.Int64, "kernel_ns": pl.Int64},
    )
    summed = by_op.select(pl.col("calls", "count", "host_ns").sum())
    busy = intervals.length(chosen.times())
    return (
        pl.concat([totals.hstack(summed), by_op], how="diagonal_relaxed")
        .with_columns(
            rank=pl.lit(chosen.rank, pl.Int32),
            device=pl.lit(chosen.device, pl.Int32),
            device_share=pl.col("device_ns") / (busy or None),
            host_share=pl.col("host_ns") / (whole_host or None),
        )
        .select(pl.col(n).cast(t) for n, t in SCHEMA.items())
    )


def _union(chosen: Selection, kinds: tuple[str, ...]) -> int:
    """Return the length of the union of recomputed activities, of some kinds or of all."""
    keep = chosen.activities["phase"] == PHASE
    if kinds:
        keep &= chosen.activities["kind"].is_in(kinds)
    group = np.where(keep.fill_null(value=False).to_numpy(), 0, NONE)
    return int(pieces.filled(pieces.of(chosen), group, 1)[0])


def _on_device(chosen: Selection) -> pl.DataFrame:
    """Return `op count device_ns kernel_ns` of recomputed activities by operator name."""
    acts, ops = chosen.activities, chosen.trace.ops
    again = (acts["phase"] == PHASE).fill_null(value=False).to_numpy()
    name = ops["name"].cast(pl.String)[nesting.ids(acts["op"])[again].tolist()]
    names = name.unique(maintain_order=True)
    code = np.full(acts.height, NONE)
    code[again] = name.replace_strict(names, np.arange(len(names))).to_numpy()
    kernels = np.where(acts["kind"].is_in(schema.COMPUTE_KINDS).to_numpy(), code, NONE)
    inside = intervals.contains(chosen.inside, acts["start_ns"].to_numpy())
    thing = pl.coalesce("op", "id") if chosen.is_host else pl.col("id")
    counts = (
        acts.select(thing=thing, place=pl.Series(code))
        .filter(pl.Series(inside & again))
        .group_by("place")
        .agg(count=pl.col("thing").n_unique())
    )
    parts = pieces.of(chosen)
    return (
        pl.DataFrame(
            {
                "op": names,
                "place": np.arange(len(names)),
                "device_ns": pieces.filled(parts, code, len(names)),
                "kernel_ns": pieces.filled(parts, kernels, len(names)),
            },
            schema_overrides={"op": pl.String},
        )
        .join(counts, on="place", how="left")
        .drop("place")
    )


def _on_host(trace: Trace, chosen: list[Selection], within: Range | None) -> pl.DataFrame:
    """Return `phase op calls host_ns` of the operators that begin in the window's steps."""
    start = trace.ops["start_ns"].to_numpy()
    end, parent = start + trace.ops["dur_ns"].to_numpy(), nesting.ids(trace.ops["parent"])
    calls = Nested(trace.ops["thread"].to_numpy(), start, end, parent)
    frame = trace.ops.with_columns(own=pl.Series(calltree.own_ns(calls)))
    numbers = step_numbers(chosen)
    if numbers:
        frame = frame.filter(pl.col("step").is_in(numbers))
    if within is not None:
        frame = frame.filter(pl.col("start_ns").is_between(*within, closed="left"))
    return frame.group_by("phase", op=pl.col("name").cast(pl.String)).agg(
        calls=pl.len(), host_ns=pl.col("own").sum()
    )
