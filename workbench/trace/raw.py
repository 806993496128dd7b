"""What a reader hands over: bare tables in recorded order, before anything is tied together."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from workbench.trace import schema
from workbench.trace.core import TraceMeta
from workbench.trace.problems import Problem

_PROCESS = {"process": pl.Int32()}
"""Which process a correlation id belongs to; null where the recording has only one."""
JSON_TEXTS = ("input_dims", "input_types", "input_strides", "concrete_inputs")
"""Columns of JSON text; few distinct values, so categorical."""
_TEXT = {"input_dims": schema.NAME, "input_types": schema.NAME}
_COMM = {
    "comm_name": pl.String(),
    "comm_group": pl.String(),
    "comm_group_size": pl.Int32(),
    "comm_members": pl.String(),
    "comm_seq": pl.Int64(),
    "comm_dtype": pl.String(),
    "comm_in": pl.Int64(),
    "comm_out": pl.Int64(),
}


def _pick(table: str, *names: str) -> dict[str, pl.DataType]:
    return {n: schema.TABLES[table][n].dtype for n in names}


ACTIVITIES = (
    _pick("activities", "kind", "name", "device", "stream", "start_ns", "dur_ns")
    | {"correlation": pl.Int64(), "external_id": pl.Int64()}
    | _PROCESS
    | _pick("activities", "graph_node", "grid", "block", "registers", "shared_bytes")
    | _pick("activities", "occupancy", "bytes")
    | _COMM
)
"""`external_id` is the profiler's id of the operator that an activity itself names."""
LAUNCHES = (
    _pick("launches", "name", "thread", "start_ns", "dur_ns", "correlation")
    | _PROCESS
    | {"external_id": pl.Int64()}
)
OPS = (
    _pick("ops", "name", "thread", "start_ns", "dur_ns", "sequence", "external_id")
    | {"forward_thread": pl.Int64()}
    | _pick("ops", "input_dims", "input_types", "input_strides", "concrete_inputs")
    | {"kernel_backend": pl.String(), "kernel_file": pl.String(), "kernel_hash": pl.String()}
    | _COMM
)
"""The three kernel columns are what Inductor says of the kernel that an operator launches."""
RANGES = _pick("ranges", "name", "domain", "thread", "device", "stream", "start_ns", "dur_ns")
RANGES |= _pick("ranges", "form", "waits_on_stream") | _TEXT | _COMM | _PROCESS
RANGES |= dict.fromkeys(("correlation", "waits_on_correlation"), pl.Int64())
"""A null form is nested. The communication columns are what an annotation carries as payload
(NCCL's NVTX ranges). The correlations of a recorded wait are that of the call that it belongs to,
and that of the call that recorded the event it waits for."""
MEMORY = _pick(
    "memory", "t_ns", "device", "address", "bytes", "total_allocated", "total_reserved"
) | {"thread": pl.Int32()}
OTHER = {
    "name": schema.NAME,
    "domain": pl.String(),
    "thread": pl.Int32(),
    "start_ns": schema.NS,
    "dur_ns": schema.NS,
    "pid": pl.UInt32(),
    "tid": pl.Int64(),
    "correlation": pl.Int64(),
    "task_type": pl.String(),
    "comm_in": pl.Int64(),
    "comm_dtype": pl.String(),
}
"""Chrome events of unknown category, until the names of their processes tell what they are."""
MODULES = _pick("frames", "name", "thread", "start_ns", "dur_ns")
"""Calls of `nn.Module`s, the part of the Python frames that attribution needs."""
COUNTERS = {n: c.dtype for n, c in schema.TABLES["counters"].items()}


def empty(columns: dict[str, pl.DataType]) -> pl.DataFrame:
    """Return a bare table with no rows."""
    return pl.DataFrame(schema=columns)


@dataclass(frozen=True)
class RawTrace:
    """Bare tables of one rank with times relative to the origin; ids are not yet resolved."""

    meta: TraceMeta
    activities: pl.DataFrame
    launches: pl.DataFrame
    ops: pl.DataFrame
    ranges: pl.DataFrame
    memory: pl.DataFrame
    recording: tuple[int, int]
    """First and last ns of the recording, relative to the origin."""
    accelerator: bool
    """Some category or call shows that an accelerator was in use."""
    unread_accelerator: str | None = None
    """An accelerator whose activity rows this reader does not know yet."""
    problems: list[Problem] = field(default_factory=list)
    modules: pl.DataFrame = field(default_factory=lambda: empty(MODULES))
    counters: pl.DataFrame = field(default_factory=lambda: empty(COUNTERS))
