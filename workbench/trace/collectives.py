"""The `collectives` table: what each collective moved, from whatever recorded it."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from workbench.trace import messages, nesting, schema
from workbench.trace.names import matching
from workbench.trace.nesting import NONE, Rows
from workbench.trace.phases import is_communication

RECORD = "record_param_comms"
"""The operator in which torch records what a collective moves."""

NCCL = "nccl:"
"""How torch names the range around a collective's launch, as in `nccl:all_reduce`."""
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
    **dict.fromkeys(("complexdouble", "complex128", "complex<double>"), 16),
    **dict.fromkeys(("complexfloat", "complex64", "complex<float>"), 8),
    **dict.fromkeys(("complexhalf", "complex32", "complex<half>", "complex<c10::half>"), 4),
    **dict.fromkeys(("double", "float64", "fp64"), 8),
    **dict.fromkeys(("long", "long int", "int64", "long long", "long long int"), 8),
    **dict.fromkeys(("uint64", "unsigned long", "unsigned long int", "unsigned long long"), 8),
    **dict.fromkeys(("long unsigned int", "long long unsigned int"), 8),
    **dict.fromkeys(("float", "float32", "fp32", "tf32"), 4),
    **dict.fromkeys(("int", "int32", "uint32", "unsigned int", "qint32"), 4),
    **dict.fromkeys(("half", "float16", "fp16", "bfloat16", "bf16"), 2),
    **dict.fromkeys(("short", "short int", "int16"), 2),
    **dict.fromkeys(("uint16", "unsigned short", "short unsigned int", "bits16"), 2),
    **dict.fromkeys(("char", "signed char", "int8", "qint8"), 1),
    **dict.fromkeys(("byte", "unsigned char", "uint8", "quint8", "bool", "bits8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8e4m3"), 1),
    **dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz", "float8e5m2", "fp8"), 1),
    **dict.fromkeys(("float4_e2m1fn_x2", "quint4x2", "quint2x4"), 1),
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2"), 1),
}
"""Bytes of an element by the names of c10::ScalarType, of C++ types, of torch and of NCCL's types,
in lower case without `c10::`, `torch.`, `nccl`. Packed types count the byte that holds several."""
_DTYPE_PREFIX = re.compile(r"c10::|torch\.|nccl|hccl_data_type_")


def collective_name(text: str) -> str:
    """Name a collective after a kernel, a range or a record, as in all_reduce."""
    lowered = text.lower()
    return next((name for name, rule in _NAMES if rule.search(lowered)), "unknown")


def dtype_bytes(name: str | None) -> int | None:
    """Return the bytes of an element type by any of the profiler's names for it."""
    return DTYPE_BYTES.get(_DTYPE_PREFIX.sub("", str(name).lower(), count=1))


def records(ops: pl.DataFrame, parent: Rows) -> Rows:
    """Return the `record_param_comms` that each operator is, or that it stands in directly; or -1.

    Between the two may only be other operators of communication: a record encloses the whole call,
    and what an `aten::` operator in it launches is preparation, not the collective.
    """
    named = matching(ops["name"], lambda name: name == RECORD)
    is_record = (named | ops["comm_name"].is_not_null()).to_numpy()
    if not is_record.any():
        return np.full(ops.height, NONE, np.int64)
    foreign = ~matching(ops["name"], is_communication).to_numpy()
    row = nesting.nearest(parent, is_record | foreign)
    return np.where((row != NONE) & is_record[row], row, NONE)


def mark(activities: pl.DataFrame, launches: pl.DataFrame, record: Rows) -> pl.DataFrame:
    """Make collectives of kernels that a record launched though their names say nothing.

    Only where none of the record's activities is known for a collective by its own arguments or
    name (the others are helpers then), and only kernels of a kernel launch: a copy call may run as
    a kernel too. `record` is that of each operator.
    """
    if not activities.height or not (record != NONE).any():
        return activities
    op = nesting.ids(activities["op"])
    of = np.where(op == NONE, NONE, record[op])
    known = np.zeros(len(record), np.bool_)
    known[of[(activities["kind"] == "collective").to_numpy() & (of != NONE)]] = True
    launched = nesting.gathered(launches["kind"] == "launch", nesting.ids(activities["launch"]))
    new = (
        (activities["kind"] == "kernel").to_numpy()
        & launched.fill_null(value=False).to_numpy()
        & (of != NONE)
        & ~known[of]
    )
    becomes = {"kind": pl.lit("collective", schema.KIND)}
    if "family" in activities.columns:
        becomes["family"] = pl.lit("communication", schema.NAME)
    fresh = pl.Series(new)
    return activities.with_columns(
        pl.when(fresh).then(value).otherwise(column).alias(column)
        for column, value in becomes.items()
    )


def collectives(
    activities: pl.DataFrame,
    ops: pl.DataFrame,
    record: Rows,
    launches: pl.DataFrame,
    ranges: pl.DataFrame,
) -> pl.DataFrame:
    """Return a row for each collective activity.

    Fields come from the kernel's own record first, from the `record_param_comms` operator that
    launched it second, from the payload of an annotation around its launch third. Where none says
    how much was moved, recorded tensors do: those of the `c10d` operator, of the `nccl:` range
    around the launch, of a gloo range. The message size is what nccl-tests counts: the larger of
    input and output on this rank.
    """
    found = activities.filter(pl.col("kind") == "collective")
    if not found.height:
        return schema.empty("collectives")
    comm = [c for c in found.columns if c.startswith("comm_")]
    op = nesting.ids(found["op"])
    by_op = np.where(op == NONE, NONE, record[op]) if len(record) else op
    told = [(ops, by_op), (ranges, _payload(found, launches, ranges))]
    found = found.with_columns(
        pl.coalesce(c, *(nesting.gathered(f[c], rows) for f, rows in told if c in f.columns))
        for c in comm
    )
    around = _around(found, launches, ranges, pl.col("name").cast(pl.String).str.starts_with(NCCL))
    found = messages.filled(found, messages.of_operators(ops, op))
    found = messages.filled(found, messages.of_ranges(ranges, around))
    return _sized(messages.of_itself(found))


def _payload(found: pl.DataFrame, launches: pl.DataFrame, ranges: pl.DataFrame) -> Rows:
    """Return the innermost annotation with a payload around each collective's launch, or -1."""
    if "comm_name" not in ranges.columns:
        return np.full(found.height, NONE, np.int64)
    return _around(found, launches, ranges, pl.col("comm_name").is_not_null())


def _around(
    found: pl.DataFrame, launches: pl.DataFrame, ranges: pl.DataFrame, wanted: pl.Expr
) -> Rows:
    """Return the innermost wanted range around each collective's launch, or -1."""
    out = np.full(found.height, NONE, np.int64)
    told = ranges.with_row_index("row").filter(wanted & pl.col("thread").is_not_null())
    calls = found.with_row_index("at").join(
        launches, left_on="launch", right_on="id", suffix="_call"
    )
    if not (told.height and calls.height):
        return out
    order, nested = nesting.sort_and_nest(told)
    inner = nesting.innermost(nested, calls["thread"].to_numpy(), calls["start_ns_call"].to_numpy())
    row = told["row"].to_numpy()[order][inner].astype(np.int64)
    out[calls["at"].to_numpy()] = np.where(inner == NONE, NONE, row)
    return out


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
