"""How much a collective moved, where only the tensors that somebody recorded tell.

Traces from before torch 2.0 have no communication arguments, but shapes: the `c10d` operators of
one tensor each record output and input, the `nccl:*` ranges their input. A range says what the
message is only where the input is the larger side: not for a gather, and not for an all-to-all of
unequal parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import polars as pl

from workbench.trace import nesting
from workbench.trace.names import matching
from workbench.trace.nesting import NONE, Rows

TWO_TENSORS = frozenset(
    {"c10d::alltoall_base_", "c10d::_allgather_base_", "c10d::_reduce_scatter_base_"}
)
"""Operators whose first two arguments are output and input."""
INPUT_TELLS = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "_reduce_scatter_base")
"""Collectives whose output is no larger than their input, as `nccl:*` ranges name them."""
_SIZES = pl.Schema({"comm_in": pl.Int64(), "comm_out": pl.Int64(), "comm_dtype": pl.String()})


def filled(found: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Fill element counts and type, a row each, where neither count is known yet."""
    told = told.rename({name: f"{name}_told" for name in _SIZES})
    silent = pl.col("comm_in").is_null() & pl.col("comm_out").is_null()
    return (
        found.hstack(told)
        .with_columns(
            pl.when(silent & pl.col("comm_in_told").is_not_null())
            .then(f"{name}_told")
            .otherwise(name)
            .alias(name)
            for name in _SIZES
        )
        .drop(told.columns)
    )


def of_operators(ops: pl.DataFrame, op: Rows) -> pl.DataFrame:
    """Return counts and type from the operator with two tensors around each operator, or null."""
    if not ops.height or "input_dims" not in ops.columns:
        return _none(len(op))
    named = matching(ops["name"], lambda name: name in TWO_TENSORS)
    row = nesting.nearest(nesting.ids(ops["parent"]), named.to_numpy())
    return _read(ops, np.where(op == NONE, NONE, row[op]), _output_first)


def of_ranges(ranges: pl.DataFrame, around: Rows) -> pl.DataFrame:
    """Return input and type from the `nccl:*` range around each launch, or null."""
    if not ranges.height or "input_dims" not in ranges.columns:
        return _none(len(around))
    told = matching(ranges["name"], lambda name: name.partition(":")[2] in INPUT_TELLS).to_numpy()
    rows = np.where((around != NONE) & told[around], around, NONE)
    return _read(ranges, rows, _sent)


def of_itself(found: pl.DataFrame) -> pl.DataFrame:
    """Fill count and type from the inputs that a gloo range recorded."""
    if "input_dims" not in found.columns:
        return found
    told = _read(found, np.arange(found.height), _sent)
    return found.with_columns(
        comm_in=pl.coalesce(found["comm_in"], told["comm_in"]),
        comm_dtype=pl.coalesce(found["comm_dtype"], told["comm_dtype"]),
    )


_Side = tuple[int | None, str | None]
"""Elements and type of what a collective takes, or gives."""
_NOTHING: _Side = (None, None)


def _read(
    frame: pl.DataFrame, rows: Rows, read: Callable[[list[_Side]], tuple[_Side, _Side]]
) -> pl.DataFrame:
    dims, types = (
        nesting.gathered(frame[c], rows).cast(pl.String) for c in ("input_dims", "input_types")
    )
    sides = [read(_inputs(d, t)) for d, t in zip(dims, types, strict=True)]
    columns = ([s[0] for s, _ in sides], [g[0] for _, g in sides], [s[1] for s, _ in sides])
    return pl.DataFrame(dict(zip(_SIZES, columns, strict=True)), schema=_SIZES)


def _none(length: int) -> pl.DataFrame:
    return pl.DataFrame({name: [None] * length for name in _SIZES}, schema=_SIZES)


def _output_first(inputs: list[_Side]) -> tuple[_Side, _Side]:
    """Return what is sent and what is received, from (output, input, …)."""
    known = len(inputs) > 1 and inputs[0][0] is not None and inputs[1][0] is not None
    return (inputs[1], inputs[0]) if known else (_NOTHING, _NOTHING)


def _sent(inputs: list[_Side]) -> tuple[_Side, _Side]:
    """Return the elements of all inputs, and the type of the first."""
    counts = [count for count, _ in inputs if count is not None]
    total = sum(counts)
    dtype = inputs[0][1] if inputs else None
    return (total if counts and total < 2**63 else None, dtype), _NOTHING


def _inputs(dims: str | None, types: str | None) -> list[_Side]:
    """Return the elements and the type of each recorded argument; None: it is no tensor."""
    try:
        shapes = msgspec.json.decode(dims or "[]", type=list[list[Any]])
        kinds = msgspec.json.decode(types or "[]", type=list[str])
    except (msgspec.DecodeError, RecursionError):
        return []
    names = [kind.partition("[")[0] or None for kind in kinds]
    padded = names + [None] * (len(shapes) - len(names))
    return [(_elements(shape), name) for shape, name in zip(shapes, padded, strict=False)]


def _elements(shape: list[Any]) -> int | None:
    """Return the element count of one argument: a tensor's shape, or a list of such."""
    tensors = [shape] if all(type(n) is int for n in shape) else shape
    counts = [
        math.prod(t)
        for t in tensors
        if isinstance(t, list) and t and all(type(n) is int and n >= 0 for n in t)
    ]
    return sum(counts) if counts else None
