"""The tables of a trace: one declared schema each, checked where a reader returns.

A column's `null` says what a missing value means; a column without it is never null. Times are
integer ns relative to the trace's origin; an id is the row's position in its own table.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from workbench.errors import SchemaError, unknown_name

ACTIVITY_KINDS = ("kernel", "compute", "collective", "copy", "set")
"""`kernel` ran on an accelerator; `compute` is host execution (no accelerator in the trace)."""
COMPUTE_KINDS = ("kernel", "compute")
COPY_KINDS = ("copy", "set")
LAUNCH_KINDS = ("launch", "graph_launch", "copy", "set", "sync", "malloc", "other")
LAUNCH_TYPE_KINDS = ("launch", "graph_launch", "copy", "set")
"""Calls that put work on a device."""
SOURCES = ("device", "host", "model")
DEPENDENCY_KINDS = ("control", "data")
RANGE_FORMS = ("nested", "free", "mark")
"""Of annotations: on a thread's or stream's stack; begun and ended anywhere; an instant."""
PHASES = (
    "data",
    "optimizer",
    "communication",
    "recomputation",
    "backward",
    "forward",
    "other",
)

ID = pl.UInt32()
NS = pl.Int64()
NAME = pl.Categorical()
KIND = pl.Enum(ACTIVITY_KINDS)
LAUNCH_KIND = pl.Enum(LAUNCH_KINDS)
PHASE = pl.Enum(PHASES)
SOURCE = pl.Enum(SOURCES)
DEPENDENCY_KIND = pl.Enum(DEPENDENCY_KINDS)
RANGE_FORM = pl.Enum(RANGE_FORMS)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, what it holds, and what null means there (None: never null)."""

    dtype: pl.DataType
    meaning: str
    null: str | None = None


UNKNOWN = "not recorded"
NO_WAIT = "no recorded wait, or not recorded"
UNTIMED = "the format records no times (`TraceMeta.timed` is false)"
"""Null only in the tables of such a format; `check` holds every other reader to it."""
DEVICE_NODE = "a node of an execution graph that runs on a device"
NULLS_OF_UNTIMED = (UNTIMED, DEVICE_NODE)
TABLES: dict[str, dict[str, Column]] = {
    "activities": {
        "id": Column(ID, "row number"),
        "kind": Column(KIND, "what sort of work"),
        "family": Column(
            NAME,
            "family of data/families.toml; other: a kernel in none",
            "host operator in none: a view, a node of autograd, a wrapper",
        ),
        "name": Column(NAME, "kernel, copy or operator name"),
        "device": Column(
            pl.Int32(),
            "accelerator index",
            "host execution; with source `device`: not readable (problem device_unknown)",
        ),
        "stream": Column(pl.Int64(), "stream; host thread for host execution", UNKNOWN),
        "start_ns": Column(NS, "start", UNTIMED),
        "dur_ns": Column(NS, "duration, at least 0", UNTIMED),
        "launch": Column(ID, "row in launches", "no launch record, or host execution"),
        "op": Column(ID, "innermost operator that launched it", "none found"),
        "step": Column(pl.Int32(), "step that launched it", "launched outside steps, or unknown"),
        "phase": Column(PHASE, "phase of the launching host position", "unknown"),
        "graph_node": Column(pl.Int64(), "graph node id", "not in a graph, or not recorded"),
        "grid": Column(pl.Array(pl.Int32(), 3), "blocks in x, y, z", UNKNOWN),
        "block": Column(pl.Array(pl.Int32(), 3), "threads per block in x, y, z", UNKNOWN),
        "registers": Column(pl.Int32(), "registers per thread", UNKNOWN),
        "shared_bytes": Column(pl.Int64(), "shared memory per block", UNKNOWN),
        "occupancy": Column(pl.Float32(), "estimated achieved occupancy, 0 to 1", UNKNOWN),
        "bytes": Column(pl.Int64(), "bytes copied or set", UNKNOWN),
        "source": Column(SOURCE, "where the row comes from"),
    },
    "launches": {
        "id": Column(ID, "row number"),
        "kind": Column(LAUNCH_KIND, "what sort of call"),
        "name": Column(NAME, "runtime or driver call"),
        "thread": Column(pl.Int32(), "host thread, an index into meta.threads"),
        "start_ns": Column(NS, "start"),
        "dur_ns": Column(NS, "duration, at least 0"),
        "correlation": Column(pl.Int64(), "id that ties it to its activities", "0 or missing"),
        "op": Column(ID, "innermost operator running at its start", "none"),
    },
    "ops": {
        "id": Column(ID, "row number"),
        "name": Column(NAME, "operator name"),
        "thread": Column(pl.Int32(), "host thread, an index into meta.threads", DEVICE_NODE),
        "start_ns": Column(NS, "start", UNTIMED),
        "dur_ns": Column(NS, "duration, at least 0", UNTIMED),
        "self_ns": Column(NS, "duration less child operators and runtime calls", UNTIMED),
        "parent": Column(ID, "enclosing operator", "outermost"),
        "depth": Column(pl.UInt32(), "number of enclosing operators"),
        "sequence": Column(pl.Int64(), "autograd sequence number", UNKNOWN),
        "external_id": Column(pl.Int64(), "profiler's id of the operator", "0 or missing"),
        "phase": Column(PHASE, "phase of the step"),
        "step": Column(pl.Int32(), "host step it starts in", "outside steps"),
        "module": Column(
            NAME,
            "innermost nn.Module that it ran in, as `Linear_3`; of backward operators that ran in "
            "none: that of their forward partner",
            "outside modules, or modules not recorded",
        ),
        "forward": Column(
            ID, "operator whose gradient a backward node computes", "no backward node, or unknown"
        ),
        "input_dims": Column(NAME, "JSON text", UNKNOWN),
        "input_types": Column(NAME, "JSON text", UNKNOWN),
        "input_strides": Column(NAME, "JSON text", UNKNOWN),
        "concrete_inputs": Column(NAME, "JSON text", UNKNOWN),
        "kernel_backend": Column(NAME, "what generated the kernel: triton, …", "not generated"),
        "kernel_file": Column(NAME, "source file of the generated kernel", "not generated"),
        "kernel_hash": Column(NAME, "hash of the generated kernel's source", "not generated"),
    },
    "ranges": {
        "id": Column(ID, "row number"),
        "name": Column(NAME, "annotation"),
        "domain": Column(NAME, "step, user, gloo, nccl, device or an NVTX domain"),
        "thread": Column(pl.Int32(), "host thread, an index into meta.threads", "device side"),
        "device": Column(pl.Int32(), "accelerator index", "host side"),
        "stream": Column(pl.Int64(), "stream", "host side"),
        "start_ns": Column(NS, "start"),
        "dur_ns": Column(NS, "duration, at least 0"),
        "parent": Column(ID, "enclosing range on the same thread or stream", "outermost or free"),
        "form": Column(RANGE_FORM, "nested, free (its thread is where it began) or mark"),
        "launch": Column(ID, "row in launches: the call that it records a wait of", NO_WAIT),
        "waits_on_stream": Column(pl.Int64(), "stream whose event it waits for", NO_WAIT),
        "waits_on_launch": Column(ID, "row in launches: the call that recorded the event", NO_WAIT),
    },
    "steps": {
        "step": Column(pl.Int32(), "step number as recorded"),
        "device": Column(pl.Int32(), "accelerator index", "host execution"),
        "host_start_ns": Column(NS, "start of the host range"),
        "host_dur_ns": Column(NS, "duration of the host range"),
        "start_ns": Column(NS, "start of the device step"),
        "dur_ns": Column(NS, "duration of the device step"),
        "complete": Column(pl.Boolean(), "recorded from begin to end"),
        "tail": Column(pl.Boolean(), "last step: ends with its latest activity"),
    },
    "collectives": {
        "id": Column(ID, "row number"),
        "activity": Column(ID, "row in activities", "no device record"),
        "name": Column(NAME, "what ran: all_reduce, all_gather, …"),
        "requested": Column(NAME, "what the program asked for", UNKNOWN),
        "group": Column(NAME, "process group", UNKNOWN),
        "group_size": Column(pl.Int32(), "ranks in the group", UNKNOWN),
        "members": Column(pl.String(), "JSON list of global ranks", UNKNOWN),
        "seq": Column(pl.Int64(), "sequence number in the group", UNKNOWN),
        "dtype": Column(NAME, "element type", UNKNOWN),
        "in_elements": Column(pl.Int64(), "input elements on this rank", UNKNOWN),
        "out_elements": Column(pl.Int64(), "output elements on this rank", UNKNOWN),
        "bytes": Column(pl.Int64(), "message size as nccl-tests counts it", UNKNOWN),
        "start_ns": Column(NS, "start", UNTIMED),
        "dur_ns": Column(NS, "duration, at least 0", UNTIMED),
    },
    "frames": {
        "id": Column(ID, "row number"),
        "parent": Column(ID, "calling frame", "outermost"),
        "name": Column(NAME, "file(line): function, or nn.Module"),
        "module": Column(NAME, "nn.Module instance", "a plain function"),
        "thread": Column(pl.Int32(), "host thread, an index into meta.threads"),
        "start_ns": Column(NS, "start"),
        "dur_ns": Column(NS, "duration, at least 0"),
    },
    "memory": {
        "t_ns": Column(NS, "time", UNTIMED),
        "device": Column(pl.Int32(), "accelerator index", "host memory, or not recorded"),
        "address": Column(pl.UInt64(), "address", UNKNOWN),
        "bytes": Column(pl.Int64(), "allocated (positive) or freed (negative); 0: a segment"),
        "total_allocated": Column(pl.Int64(), "allocated after it", UNKNOWN),
        "total_reserved": Column(pl.Int64(), "reserved after it", UNKNOWN),
        "op": Column(ID, "operator running on that thread", "none"),
        "category": Column(NAME, "what the memory holds: parameter, activation, …", UNKNOWN),
        "site": Column(NAME, "Python line that allocated it, as file(line): function", UNKNOWN),
    },
    "segments": {
        "device": Column(pl.Int32(), "accelerator index", UNKNOWN),
        "address": Column(pl.UInt64(), "address", UNKNOWN),
        "bytes": Column(pl.Int64(), "reserved from the device"),
        "allocated": Column(pl.Int64(), "bytes in use by the program", UNKNOWN),
        "active": Column(pl.Int64(), "bytes in use or waiting to be freed", UNKNOWN),
        "requested": Column(pl.Int64(), "bytes that the program asked for", UNKNOWN),
        "largest_free": Column(pl.Int64(), "largest block that is not in use", UNKNOWN),
        "stream": Column(pl.Int64(), "stream it belongs to", UNKNOWN),
        "kind": Column(NAME, "large or small", UNKNOWN),
        "pool": Column(pl.String(), "JSON list: id of the private pool", UNKNOWN),
        "is_expandable": Column(pl.Boolean(), "it can grow", UNKNOWN),
    },
    "counters": {
        "t_ns": Column(NS, "time"),
        "device": Column(pl.Int32(), "accelerator index", "host"),
        "name": Column(NAME, "counter"),
        "value": Column(pl.Float64(), "value"),
        "unit": Column(NAME, "unit", UNKNOWN),
    },
    "kernel_counters": {
        "activity": Column(ID, "row in activities: the kernel that it was counted for"),
        "name": Column(NAME, "counter, by the tool's own name"),
        "value": Column(pl.Float64(), "value of the whole launch, in the base unit"),
        "unit": Column(NAME, "byte, ns, hz, … without a prefix", UNKNOWN),
        "source": Column(NAME, "file or section of the report that it stands in"),
    },
    "dependencies": {
        "op": Column(ID, "row in ops"),
        "depends_on": Column(ID, "row in ops that comes first"),
        "kind": Column(
            DEPENDENCY_KIND, "control: order alone; data: it reads what the other wrote"
        ),
    },
    "problems": {
        "code": Column(pl.String(), "stable short name of the fault"),
        "count": Column(pl.Int64(), "how often it was met"),
        "first_example": Column(pl.String(), "the first place"),
        "effect": Column(pl.String(), "what it means for the numbers"),
    },
}

SELDOM = ("segments", "dependencies", "kernel_counters")
"""Tables that only formats of their own fill; everywhere else they are empty."""
TIME_COLUMNS = ("start_ns", "t_ns", "host_start_ns")
"""Columns of moments, relative to the trace's origin."""
POINTS_TO = {
    "id": None,
    "parent": None,
    "forward": None,
    "launch": "launches",
    "op": "ops",
    "depends_on": "ops",
    "activity": "activities",
    "waits_on_launch": "launches",
}
"""The table whose rows an id column names, in whatever table it stands; None: its own."""


def polars_schema(table: str) -> pl.Schema:
    """Return the polars schema of a table by name."""
    if table not in TABLES:
        raise unknown_name("table", table, TABLES)
    return pl.Schema({name: column.dtype for name, column in TABLES[table].items()})


def empty(table: str) -> pl.DataFrame:
    """Return a table with its declared columns and no rows."""
    return pl.DataFrame(schema=polars_schema(table))


def conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Put the columns of a reader's frame in order, with those that it does not know as null."""
    given = frame.schema
    return frame.select(
        pl.lit(None, dtype).alias(name)
        if name not in given
        else pl.col(name)
        if given[name] == dtype
        else pl.col(name).cast(dtype)
        for name, dtype in polars_schema(table).items()
    )


def check(table: str, frame: pl.DataFrame, reader: str, *, timed: bool = True) -> pl.DataFrame:
    """Return the frame when it matches its schema; else raise with column, table and reader.

    A null that means `UNTIMED` is refused unless the format has no times (`timed` is false).
    """
    wanted, given = polars_schema(table), frame.schema
    nulls = frame.null_count().row(0, named=True) if frame.width else {}
    for name, dtype in wanted.items():
        if name not in given:
            raise SchemaError(f"The {reader} reader left out column {name!r} of table {table!r}.")
        if given[name] != dtype:
            raise SchemaError(
                f"The {reader} reader gave column {name!r} of table {table!r} the type "
                f"{given[name]}, and {dtype} is declared."
            )
        null = TABLES[table][name].null
        if nulls[name] and (null is None or (timed and null in NULLS_OF_UNTIMED)):
            raise SchemaError(
                f"The {reader} reader left nulls in column {name!r} of table {table!r}, "
                "which has none by its schema."
            )
    if extra := set(given) - set(wanted):
        raise SchemaError(
            f"The {reader} reader added undeclared columns {sorted(extra)} to table {table!r}."
        )
    return frame.select(wanted.names())
