"""What host threads did, as events: ranges, calls, operators, Python frames, allocations."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.trace import nesting, schema
from workbench.trace.families import HOST_DOMAINS
from workbench.trace.kineto.categories import CATEGORIES
from workbench.trace.write.part import Part
from workbench.trace.write.shared import Block, at, digits, largest, literal, span, word
from workbench.trace.write.text import embedded, event, quoted

_MOST_THREADS = 64
_INPUTS = {
    "Input Dims": "input_dims",
    "Input type": "input_types",
    "Input Strides": "input_strides",
    "Concrete Inputs": "concrete_inputs",
}
_SOURCES = ("kernel_backend", "kernel_file", "kernel_hash")


def _on_threads(part: Part, rows: pl.DataFrame) -> pl.DataFrame:
    """Add `pid` and `tid` of host threads as text, and names as JSON strings."""
    threads = part.meta.threads
    pids = pl.Series([literal(t.pid) for t in threads], dtype=pl.String)
    tids = pl.Series([literal(t.tid) for t in threads], dtype=pl.String)
    return rows.with_columns(
        quoted(rows["name"]).alias("name"),
        pids.gather(rows["thread"]).alias("pid"),
        tids.gather(rows["thread"]).alias("tid"),
    )


def ranges(part: Part) -> Block:
    """Write annotations of host threads."""
    found = part.tables["ranges"].filter(pl.col("thread").is_not_null())
    rows = _on_threads(part, _with_gloo_inputs(part, found)).with_columns(
        category=quoted(_categories(found["domain"]))
    )
    args = {"Input Dims": _dims(), "Input type": _types()}
    return Block(rows, event(span(pl.col("category")), args))


def _categories(domains: pl.Series) -> pl.Series:
    """Return the domain of each range, when that is a category that a reader takes for a domain."""
    names = domains.cast(pl.String)
    plain = names.is_in([*HOST_DOMAINS, *(c for c in CATEGORIES if c is not None)])
    return pl.select(pl.when(plain).then(pl.lit("user_annotation")).otherwise(names)).to_series()


def _with_gloo_inputs(part: Part, ranges: pl.DataFrame) -> pl.DataFrame:
    """Add element count and type of host collectives, which readers take from a gloo range."""
    host = part.tables["activities"].filter(pl.col("source") == "host")
    known = (
        part.tables["collectives"]
        .select("in_elements", "dtype", id="activity")
        .join(host.select("id", "start_ns", thread="stream"), on="id")
        .unique(["thread", "start_ns"], keep="first")
        .select("in_elements", "dtype", "start_ns", pl.col("thread").cast(pl.Int32))
    )
    is_gloo = pl.col("domain") == "gloo"
    rows = ranges.join(known, on=["thread", "start_ns"], how="left", maintain_order="left")
    return rows.with_columns(
        in_elements=pl.when(is_gloo).then("in_elements"),
        dtype=quoted(rows.select(pl.when(is_gloo).then("dtype")).to_series()),
    )


def _dims() -> pl.Expr:
    return pl.lit("[[") + digits("in_elements") + pl.lit("]]")


def _types() -> pl.Expr:
    return pl.lit("[") + pl.col("dtype") + pl.lit("]")


def launches(part: Part, work: pl.DataFrame) -> pl.DataFrame:
    """Return calls with the correlation to write: that of a call whose link it would break is new.

    A reader gives an activity to one call of its correlation: to one that puts work on a device
    before others, and among those to the earliest.
    """
    calls = part.tables["launches"]
    other = ~pl.col("kind").is_in(schema.LAUNCH_TYPE_KINDS)
    known = calls.drop_nulls("correlation").sort(other, "start_ns", maintain_order=True)
    winner = known.unique("correlation", keep="first", maintain_order=True)["id"]
    used = pl.col("id").is_in(work["launch"].drop_nulls().unique().implode())
    lost = used & ~pl.col("id").is_in(winner.implode())
    fresh = largest(calls["correlation"]) + lost.cum_sum().cast(pl.Int64)
    ops = part.tables["ops"].select("external_id", op="id")
    return (
        _on_threads(part, calls)
        .join(ops, on="op", how="left", maintain_order="left")
        .with_columns(correlation=pl.when(lost).then(fresh).otherwise("correlation"))
    )


def launch_event() -> pl.Expr:
    """Write a runtime or driver call."""
    driver = pl.col("name").str.contains(r'^"cu[A-Z]')
    category = pl.when(driver).then(word("cuda_driver")).otherwise(word("cuda_runtime"))
    args = {"correlation": digits("correlation"), "External id": digits("external_id")}
    return event(span(category), args)


def ops(part: Part) -> Block:
    """Write operators with their recorded inputs."""
    table = part.tables["ops"]
    rows = _on_threads(part, table).with_columns(
        *(embedded(table[c]).alias(c) for c in _INPUTS.values()),
        *(quoted(table[c]).alias(c) for c in _SOURCES),
        forward=_forward_thread(table),
    )
    args = {
        "External id": digits("external_id"),
        "Sequence number": digits("sequence"),
        "Fwd thread id": digits("forward"),
        **{name: pl.col(c) for name, c in _INPUTS.items()},
        **{name: pl.col(name) for name in _SOURCES},
    }
    return Block(rows, event(span(word("cpu_op")), args))


def _forward_thread(ops: pl.DataFrame) -> pl.Series:
    """Give backward operators a forward thread, which tells them from recomputed ones.

    Which thread it was is not in the tables: 1 is the profiler's first.
    """
    backward = (pl.col("phase") == "backward") & pl.col("sequence").is_not_null()
    return ops.select(pl.when(backward).then(1)).to_series()


def frames(part: Part) -> Block:
    """Write Python calls, with their callers."""
    rows = _on_threads(part, part.tables["frames"])
    module = pl.when(pl.col("module").is_not_null()).then(pl.lit("0"))
    args = {
        "Python id": (pl.col("id").cast(pl.Int64) + 1).cast(pl.String),
        "Python parent id": (pl.col("parent").cast(pl.Int64) + 1).cast(pl.String),
        "Python module id": module,
    }
    return Block(rows, event(span(word("python_function")), args))


def memory(part: Part) -> Block:
    """Write allocations on the thread of their operator, the rest where no operator was running."""
    rows = part.tables["memory"].with_columns(
        name=pl.lit("[memory]"), thread=_memory_threads(part.tables, len(part.meta.threads))
    )
    rows = _on_threads(part, rows).with_columns(
        pl.col("pid").fill_null("0"), pl.col("tid").fill_null(word("thread not recorded"))
    )
    args = {
        "Device Type": pl.when(pl.col("device").is_null()).then(pl.lit("0")).otherwise(pl.lit("1")),
        "Device Id": digits("device").fill_null("-1"),
        "Addr": digits("address"),
        "Bytes": digits("bytes"),
        "Total Allocated": digits("total_allocated"),
        "Total Reserved": digits("total_reserved"),
    }
    place = {n: pl.col(n) for n in ("name", "pid", "tid")}
    kind = {"ph": word("i"), "cat": word("cpu_instant_event"), "s": word("t")}
    return Block(rows, event({**kind, **place, "ts": at("t_ns")}, args))


def _memory_threads(tables: dict[str, pl.DataFrame], threads: int) -> pl.Series:
    """Return a thread for each allocation that gives it its operator, or none, when read back."""
    ops = tables["ops"]
    memory = tables["memory"].join(
        ops.select("thread", op="id"), on="op", how="left", maintain_order="left"
    )
    at, thread = memory["t_ns"].to_numpy(), memory["thread"].fill_null(-1).to_numpy().copy()
    start = ops["start_ns"].to_numpy()
    nested = nesting.nest(ops["thread"].to_numpy(), start, start + ops["dur_ns"].to_numpy())
    for k in range(min(threads, _MOST_THREADS)):
        open_ = np.flatnonzero(thread < 0)
        if not len(open_):
            break
        running = nesting.innermost(nested, np.full(len(open_), k), at[open_])
        thread[open_[running == nesting.NONE]] = k
    return pl.select(pl.when(pl.Series(thread) >= 0).then(pl.Series(thread))).to_series()
