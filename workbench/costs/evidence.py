"""What kernels and inner operators tell of a call that its recorded arguments do not.

Profilers record the type of a list of tensors as `TensorList`, and older ones no flags. The names
of the kernels say which element type they were made for, and whether a batch norm trained; a
gather of rows runs one column of thread blocks for each index (torch,
`aten/src/ATen/native/cuda/IndexKernelUtils.cu`). Kernels that disagree tell nothing.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from workbench.costs import shapes
from workbench.costs.shapes import DTYPES, LIST

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.trace.core import Trace

_SPACE = r"(?:at::native::(?:\(anonymous namespace\)::|<unnamed>::)?)?"
# The first one or two types that these templates are made for: Functor<float, 2, 2, 0>,
# CopyFunctor<int, long, 2, 1, 1> (destination, source), CatArrayBatchedCopy<OpaqueType<2u>, …>.
TYPES = (
    rf"(?:Functor|CatArrayBatchedCopy\w*)<\s*{_SPACE}(?P<first>OpaqueType<[^>]*>|[\w:]+(?:<[\w:]+>)?)"
    rf"(?:,\s*(?P<second>[A-Za-z][\w:]*))?"
)
BATCH_NORMS = ("aten::cudnn_batch_norm", "aten::miopen_batch_norm", "aten::native_batch_norm")
TRAINS = r"bn_fw_tr|BnFwdTrain|batch_norm_collect_statistics"
EVALUATES = r"bn_fw_inf|BnFwdInfer"
GATHER = r"vectorized_gather_kernel<\s*(\d+),\s*(long|int)>"
"""Bytes a thread moves, type of indices; the grid is (indices, ceil(row / (256 * bytes)))."""
GATHER_THREADS = 256
_TRAINING = '["","","","","","{}","",""]'
"""The concrete inputs of a batch norm: `training` is argument 5."""


def completed(trace: Trace, ops: pl.DataFrame) -> pl.DataFrame:
    """Return operators with what was told of their lists, batch norms and indices filled in."""
    lists = ops.filter(_any(ops["input_types"], lambda types: LIST in types))
    norms = ops.filter(
        pl.col("concrete_inputs").is_null() & _any(ops["name"], BATCH_NORMS.__contains__)
    )
    picks = ops.filter(
        _any(ops["name"], "aten::index".__eq__)
        & _any(ops["input_types"], lambda types: types.endswith('""]'))
    )
    if lists.height:
        ops = _replaced(ops, "input_types", _types(lists, trace))
    if picks.height:
        rows = _indices(picks, trace)
        for column in ("input_dims", "input_types"):
            ops = _replaced(ops, column, rows.select("id", pl.col(column).alias("told")))
    return _replaced(ops, "concrete_inputs", _modes(norms, trace)) if norms.height else ops


def _any(column: pl.Series, wanted: Callable[[str], bool]) -> pl.Expr:
    """Say which rows have a text that fits; asked once for each different text."""
    texts = column.unique().cast(pl.String).drop_nulls()
    return pl.col(column.name).is_in([text for text in texts if wanted(text)])


def _replaced(ops: pl.DataFrame, column: str, found: pl.DataFrame) -> pl.DataFrame:
    """Take the text of `found` (id, told) in place of a column's, where there is one."""
    if found.is_empty():
        return ops
    joined = ops.join(found, on="id", how="left", maintain_order="left")
    told = pl.coalesce(pl.col("told").cast(ops.schema[column]), pl.col(column))
    return joined.with_columns(told.alias(column)).drop("told")


def _kernels(ops: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Return (id, kernel) for the activities that some operators launched."""
    wanted = ops.select("id")
    launched = trace.activities.select(
        pl.col("op").alias("id"), pl.col("name").cast(pl.String).alias("kernel"), "grid"
    )
    return launched.join(wanted, on="id", how="semi")


def _types(lists: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    told = pl.concat([_from_kernels(lists, trace), _from_inner(lists, trace)])
    told = told.unique("id", keep="first", maintain_order=True)
    joined = lists.select("id", pl.col("input_types").cast(pl.String)).join(told, on="id")
    distinct = joined.select("input_types", "first", "second").unique()
    texts = [_typed(*row) for row in distinct.iter_rows()]
    distinct = distinct.with_columns(pl.Series("told", texts, dtype=pl.String))
    keys = ["input_types", "first", "second"]
    return joined.join(distinct, on=keys, nulls_equal=True).select("id", "told")


def _from_kernels(lists: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    kernels = _kernels(lists, trace)
    names = kernels.select("kernel").unique()
    parts = names["kernel"].str.extract_groups(TYPES).struct.unnest()
    known = [
        pl.Series(n, [element_type(v) for v in parts[n]], dtype=pl.String) for n in parts.columns
    ]
    names = names.hstack(known)
    typed = kernels.join(names, on="kernel").filter(pl.col("first").is_not_null())
    agreed = typed.group_by("id").agg(
        pl.col("first", "second").unique(),
    )
    one = (pl.col("first").list.len() == 1) & (pl.col("second").list.len() == 1)
    return agreed.filter(one).select("id", pl.col("first", "second").list.first())


def element_type(name: str | None) -> str | None:
    """Return the name that profilers write of a template's type; None for no element type."""
    if name is None:
        return None
    digits = "".join(c for c in name.partition("<")[2] if c.isdigit())
    opaque = f"OpaqueType<{digits}u>" if name.startswith("OpaqueType") else name
    return opaque if opaque in DTYPES else None


def _from_inner(lists: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Return the type of a list from the operators on one tensor that were called in its place."""
    calls = lists.filter(_any(lists["name"], lambda name: "::_foreach_" in name))
    inner = trace.ops.select(
        pl.col("parent").alias("id"), pl.col("input_types").alias("types"), "name"
    )
    inner = inner.join(calls.select("id", pl.col("name").alias("outer")), on="id")
    inner = inner.with_columns(pl.col("types").cast(pl.String))
    base = _base("outer").str.strip_prefix("aten::_foreach_")
    called = _base("name").str.strip_prefix("aten::").str.strip_prefix("linalg_vector_")
    inner = inner.filter((base == called) & pl.col("types").is_not_null())
    first = pl.col("types").str.extract(r'^\["([^"]+)"')
    agreed = inner.group_by("id").agg(first.unique().alias("first"))
    one = agreed.filter(pl.col("first").list.len() == 1)
    one = one.select("id", pl.col("first").list.first(), pl.lit(None, pl.String).alias("second"))
    return one.filter(pl.col("first").is_in(list(DTYPES)))


def _base(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.String).str.strip_suffix("_")


def _typed(types: str, first: str, second: str | None) -> str:
    """Write element types in place of `TensorList`: the second one for all lists but the first."""
    try:
        names = msgspec.json.decode(types, type=list[Any])
    except (msgspec.DecodeError, RecursionError):
        return types
    told = [first, *[second or first] * (len(names) - 1)]
    both = zip(names, told, strict=True)
    return msgspec.json.encode([to if name == LIST else name for name, to in both]).decode()


def _modes(norms: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    kernels = _kernels(norms, trace)
    modes = kernels.group_by("id").agg(
        pl.col("kernel").str.contains(TRAINS).any().alias("trains"),
        pl.col("kernel").str.contains(EVALUATES).any().alias("evaluates"),
    )
    told = modes.filter(pl.col("trains") != pl.col("evaluates"))
    text = (
        pl.when("trains")
        .then(pl.lit(_TRAINING.format("True")))
        .otherwise(pl.lit(_TRAINING.format("False")))
    )
    return told.select("id", text.alias("told"))


def _indices(picks: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Return dims and types of `index` with the number of its indices, from the gather's grid."""
    gathers = _kernels(picks, trace).filter(pl.col("kernel").str.contains(GATHER))
    calls = gathers.join(picks.select("id", "input_dims", "input_types"), on="id")
    rows = [(row["id"], *found) for row in calls.iter_rows(named=True) if (found := _rows(row))]
    schema = {"id": pl.UInt32(), "input_dims": pl.String(), "input_types": pl.String()}
    return pl.DataFrame(rows, schema=schema, orient="row").unique("id", keep="none")


def _rows(row: dict[str, Any]) -> tuple[str, str] | None:
    """Return the texts with one index list, when the grid fits rows along the first dimension."""
    aligned, index = re.search(GATHER, row["kernel"]).groups()  # type: ignore[union-attr]
    try:
        given = shapes.parse(row["input_dims"], row["input_types"]).tensor(0)
        size = math.prod(given.dims[1:]) * given.dtype.bytes
    except shapes.ShapeError:
        return None
    count, blocks = (*(row["grid"] or ()), 0, 0)[:2]
    if not count or blocks != -(-size // (GATHER_THREADS * int(aligned))):
        return None
    dims, types = list(given.dims), given.type_name
    encoded = msgspec.json.encode([dims, [[count]]]), msgspec.json.encode([types, [index]])
    return encoded[0].decode(), encoded[1].decode()
