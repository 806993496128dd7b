"""Host execution: what the host threads did, for a trace without an accelerator."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.trace import nesting, raw, schema
from workbench.trace.collectives import collective_name
from workbench.trace.nesting import NONE
from workbench.trace.phases import Cover
from workbench.trace.raw import RawTrace

COPY_OPS = ("aten::copy_", "aten::_to_copy")
_GLOO = "gloo:"
_C10D = "c10d::"


def applies(bare: RawTrace, launches: pl.DataFrame) -> bool:
    """Say whether the trace has no sign of an accelerator at all."""
    launched = launches["kind"].is_in(schema.LAUNCH_TYPE_KINDS).any()
    return not (bare.activities.height or bare.accelerator or launched)


def activities(ops: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return the host's activities: segments of innermost operators, and gloo's collectives.

    At each instant a thread is doing its innermost running operator, so an operator with children
    yields a row for each stretch between them. A `gloo:*` range is one activity, and whatever runs
    inside it on its thread is part of it.
    """
    gloo = _gloo(ops, ranges)
    inside = Cover(gloo).holds(ops["thread"].to_numpy(), ops["start_ns"].to_numpy())
    own = ops.filter(pl.Series(~inside, dtype=pl.Boolean))
    events = pl.concat(
        [
            own.select("name", "thread", "start_ns", "dur_ns", "phase", op="id"),
            gloo.select("name", "thread", "start_ns", "dur_ns", "phase", "op"),
        ]
    ).with_columns(is_gloo=pl.int_range(pl.len()) >= own.height)
    frame = _segments(events)
    name = pl.col("name").cast(pl.String)
    kind = (
        pl.when("is_gloo")
        .then(pl.lit("collective"))
        .when(name.is_in(COPY_OPS))
        .then(pl.lit("copy"))
        .otherwise(pl.lit("compute"))
    )
    return _with_communication(frame.with_columns(kind=kind.cast(schema.KIND)), gloo)


def _gloo(ops: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return gloo's collectives, whichever category the profiler gave them; outermost only."""
    wanted = ["name", "thread", "start_ns", "dur_ns", "input_dims", "input_types"]
    name = pl.col("name").cast(pl.String)
    found = pl.concat(
        [
            ranges.filter(pl.col("device").is_null()).select(*wanted, op=pl.lit(None, schema.ID)),
            ops.select(*wanted, op="id"),
        ]
    ).filter(name.str.starts_with(_GLOO) & (pl.col("dur_ns") >= 0))
    thread, start = found["thread"].to_numpy(), found["start_ns"].to_numpy()
    end = start + found["dur_ns"].to_numpy()
    order = nesting.order(thread, start, end)
    parent = nesting.parents(thread[order], start[order], end[order])
    outermost = found[order].filter(pl.Series(parent == NONE, dtype=pl.Boolean))
    requests = _requests(outermost, ops)
    return outermost.join(
        requests, on=["thread", "start_ns"], how="left", maintain_order="left"
    ).with_columns(phase=pl.lit("communication", schema.PHASE), op=pl.coalesce("request", "op"))


def _requests(gloo: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Pair gloo's collectives with the `c10d::*` operators that asked for them.

    Gloo runs what it is given in order, so the k-th request that runs as one kind of collective is
    the k-th of that kind; where counts differ or a request would come after its collective, none
    of that kind is paired. Gloo does a reduce-scatter as an all-reduce.
    """
    name = pl.col("name").cast(pl.String)
    is_c10d = ops["name"].cast(pl.String).str.starts_with(_C10D)
    inner = is_c10d.gather(ops["parent"].fill_null(0)) & ops["parent"].is_not_null()
    asked = ops.filter(is_c10d & ~inner).sort("start_ns", maintain_order=True)
    asked = asked.select(
        asked_ns="start_ns",
        request="id",
        comm_name=name.map_elements(collective_name, return_dtype=pl.String),
    ).with_columns(ran=pl.col("comm_name").replace({"reduce_scatter": "all_reduce"}))
    ran = gloo.sort("start_ns", maintain_order=True).select(
        "thread", "start_ns", ran=name.map_elements(collective_name, return_dtype=pl.String)
    )
    turn = pl.int_range(pl.len()).over("ran").alias("turn")
    total = pl.len().over("ran").alias("total")
    pairs = ran.with_columns(turn, total).join(
        asked.with_columns(turn, total), on=["ran", "turn", "total"], how="inner"
    )
    in_order = (pl.col("asked_ns") <= pl.col("start_ns")).all().over("ran")
    return pairs.filter(in_order).select("thread", "start_ns", "request", "comm_name")


def _segments(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events again, once for each maximal stretch in which they are the innermost.

    Between two neighbouring starts or ends on a thread nothing changes, so one look a stretch is
    enough; neighbours with the same innermost event are one.
    """
    if not events.height:
        return events
    thread, start = events["thread"].to_numpy(), events["start_ns"].to_numpy()
    end = start + events["dur_ns"].to_numpy()
    order = nesting.order(thread, start, end)
    nested = nesting.nest(thread[order], start[order], end[order])
    on, at = np.tile(thread, 2), np.concatenate((start, end))
    by_thread = np.lexsort((at, on))
    on, at = on[by_thread], at[by_thread]
    doing = nesting.innermost(nested, on[:-1], at[:-1])
    other_thread = on[1:] != on[:-1]
    doing[other_thread] = NONE
    some = (at[1:] > at[:-1]) | other_thread  # equal edges make stretches of no length
    doing, at = doing[some], np.append(at[:-1][some], at[-1])
    begins = np.flatnonzero(np.diff(doing, prepend=NONE - 1))
    row = doing[begins]
    until = at[np.append(begins[1:], len(doing))]
    keep = row != NONE
    found: pl.DataFrame = events[order[row[keep]]]
    return found.with_columns(
        start_ns=pl.Series(at[begins[keep]]), dur_ns=pl.Series((until - at[begins])[keep])
    )


def _with_communication(frame: pl.DataFrame, gloo: pl.DataFrame) -> pl.DataFrame:
    """Add what is known of each collective, and the columns that host execution leaves null."""
    inputs = gloo.select("thread", "start_ns", "input_dims", "input_types", "comm_name")
    frame = frame.join(
        inputs.with_columns(is_gloo=pl.lit(True)),
        on=["thread", "start_ns", "is_gloo"],
        how="left",
        maintain_order="left",
    )
    known = {"kind", "name", "start_ns", "dur_ns", "comm_name"}
    nulls = [pl.lit(None, t).alias(n) for n, t in raw.ACTIVITIES.items() if n not in known]
    return (
        frame.with_columns(nulls)
        .with_columns(
            stream=pl.col("thread").cast(pl.Int64),
            source=pl.lit("host", schema.SOURCE),
            launch=pl.lit(None, schema.ID),
        )
        .sort("start_ns", "stream", maintain_order=True)
    )
