"""The `collectives` table: what each collective moved, from whatever recorded it."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import polars as pl

from workbench.trace import schema

_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("reduce_scatter", re.compile(r"reduce_?scatter")),
    ("all_gather", re.compile(r"all_?gather")),
    ("all_to_all", re.compile(r"all_?to_?all")),
    ("all_reduce", re.compile(r"all_?reduce")),
    ("broadcast", re.compile(r"broadcast")),
    ("barrier", re.compile(r"barrier")),
    ("send_recv", re.compile(r"send_?recv")),
    ("send", re.compile(r"send")),
    ("recv", re.compile(r"recv")),
    ("gather", re.compile(r"gather")),
    ("scatter", re.compile(r"scatter")),
    ("reduce", re.compile(r"reduce")),
)
MOST_ELEMENTS = 2**59
"""More is damage, and its bytes would not fit 64 bits."""
DTYPE_BYTES = {
    "double": 8, "float64": 8, "long": 8, "long int": 8, "int64": 8,
    "float": 4, "float32": 4, "int": 4, "int32": 4,
    "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "short int": 2,
    "char": 1, "signed char": 1, "unsigned char": 1, "byte": 1, "int8": 1, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip
"""Bytes of an element, by the profiler's names in lower case without `c10::`."""


def collective_name(text: str) -> str:
    """Name a collective after a kernel, a range or a record, as in all_reduce."""
    lowered = text.lower()
    return next((name for name, rule in _NAMES if rule.search(lowered)), "unknown")


def dtype_bytes(name: str | None) -> int | None:
    """Return the bytes of an element type by any of the profiler's names for it."""
    return DTYPE_BYTES.get(str(name).lower().removeprefix("c10::"))


def collectives(activities: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each collective activity.

    Fields come from the kernel's own record first, from the `record_param_comms` operator that
    launched it second, from a gloo range's recorded inputs third. The message size is what
    nccl-tests counts: the larger of input and output on this rank.
    """
    found = activities.filter(pl.col("kind") == "collective")
    comm = [c for c in found.columns if c.startswith("comm_")]
    by_op = ops.select(pl.col("id").alias("op"), *(pl.col(c).alias(f"op_{c}") for c in comm))
    found = found.join(by_op, on="op", how="left", maintain_order="left").with_columns(
        pl.coalesce(c, f"op_{c}").alias(c) for c in comm
    )
    return _sized(_inputs(found))


def _inputs(found: pl.DataFrame) -> pl.DataFrame:
    """Fill element counts and type from the inputs that a gloo range recorded."""
    if "input_dims" not in found.columns:
        return found
    sizes = [
        _first_input(d, t) for d, t in zip(found["input_dims"], found["input_types"], strict=True)
    ]
    elements = pl.Series([s[0] for s in sizes], dtype=pl.Int64)
    dtype = pl.Series([s[1] for s in sizes], dtype=pl.String)
    return found.with_columns(
        comm_in=pl.coalesce("comm_in", elements), comm_dtype=pl.coalesce("comm_dtype", dtype)
    )


def _first_input(dims: str | None, types: str | None) -> tuple[int | None, str | None]:
    """Return the elements of all tensors that a range took, and the type of the first."""
    try:
        shapes = msgspec.json.decode(dims or "[]", type=list[list[Any]])
        kinds = msgspec.json.decode(types or "[]", type=list[str])
    except (msgspec.DecodeError, RecursionError):
        return None, None
    counts = [count for shape in shapes for count in _elements(shape)]
    total = sum(counts)
    dtype = kinds[0].partition("[")[0] if kinds else None
    return (total if counts and 0 <= total < 2**63 else None), dtype or None


def _elements(shape: list[Any]) -> list[int]:
    """Return the element counts in one input: a tensor's shape, or a list of such."""
    tensors = [shape] if all(type(n) is int for n in shape) else shape
    return [
        math.prod(t)
        for t in tensors
        if isinstance(t, list) and t and all(type(n) is int for n in t)
    ]


def _sized(found: pl.DataFrame) -> pl.DataFrame:
    sizes = {d: dtype_bytes(d) for d in found["comm_dtype"].unique().drop_nulls()}
    names = {n: collective_name(n) for n in found["name"].cast(pl.String).unique()}
    asked = {n: collective_name(n) for n in found["comm_name"].unique().drop_nulls()}
    elements = pl.max_horizontal("comm_in", "comm_out")
    width = pl.col("comm_dtype").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    ran = pl.col("name").cast(pl.String).replace_strict(names, return_dtype=pl.String)
    recorded = pl.col("comm_name").replace_strict(asked, default=None, return_dtype=pl.String)
    known = pl.when(ran == "unknown").then(recorded).otherwise(ran).fill_null("unknown")
    return found.select(
        id=pl.int_range(pl.len(), dtype=schema.ID),
        activity="id",
        name=known.cast(schema.NAME),
        requested=recorded.cast(schema.NAME),
        group=pl.col("comm_group").cast(schema.NAME),
        group_size="comm_group_size",
        members="comm_members",
        seq="comm_seq",
        dtype=pl.col("comm_dtype").cast(schema.NAME),
        in_elements="comm_in",
        out_elements="comm_out",
        bytes=pl.when(elements < MOST_ELEMENTS).then(elements * width),
        start_ns="start_ns",
        dur_ns="dur_ns",
    )
