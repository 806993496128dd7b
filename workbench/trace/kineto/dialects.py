"""Events whose category says nothing: the names of their processes tell what they are.

Ascend's trace_view keeps the tasks of its hardware, its runtime (CANN), its collectives (HCCL) and
a summary (Overlap Analysis) in processes of these names. A collective is taken from HCCL's row for
the whole of it, and the tasks that it ran on the hardware are parts of that row; of the rest of
the hardware only what computes or copies occupies it. rocprof's and RPD's Chrome files name a
process `GPU0`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from workbench.trace import raw
from workbench.trace.kineto.columns import Codes, as_int

ASCEND = "Ascend Hardware"
_KERNEL_TASKS = re.compile(r"AI_?CORE|AI_?VECTOR|AIV|MIX_AI|AI_?CPU|AIC|DSA")
"""Task types that compute, by the names of msprof."""
_COPIES = ("MEMCPY_ASYNC",)
_WHOLE_COLLECTIVE = re.compile(r"^hcom_|AllReduce|AllGather|ReduceScatter|AlltoAll|Broadcast")
_GPU = re.compile(r"GPU ?(\d{1,4})")
_COPY_NAME = re.compile(r"^(Copy(Host|Device)To(Host|Device)|(hip)?memcpy)", re.IGNORECASE)
_SET_NAME = re.compile(r"^(FillBuffer|(hip)?memset)", re.IGNORECASE)
_CALL = re.compile(r"^(hip|hsa_|cuda|cu)[A-Z]")
_SUMMARY = "Overlap Analysis"


class Told(NamedTuple):
    """What the uncategorised events turned out to be."""

    activities: pl.DataFrame
    launches: pl.DataFrame
    ranges: pl.DataFrame
    device_kind: str | None


def tell(other: pl.DataFrame, pids: Codes, processes: Mapping[object, str]) -> Told:
    """Sort uncategorised events by the process that they belong to."""
    titles = pl.Series([processes.get(pid, "") for pid in pids], dtype=pl.String)
    other = other.with_columns(process=titles.gather(other["pid"]))
    if ASCEND in titles:
        return _ascend(other)
    if titles.str.contains(f"^{_GPU.pattern}$").any():
        return _gpu_processes(other, pids)
    return Told(raw.empty(raw.ACTIVITIES), raw.empty(raw.LAUNCHES), _ranges(other), None)


def _ascend(other: pl.DataFrame) -> Told:
    process, name = pl.col("process"), pl.col("name").cast(pl.String)
    hardware = other.filter(process == ASCEND)
    whole = other.filter((process == "HCCL") & name.str.contains(_WHOLE_COLLECTIVE.pattern))
    stream = hardware.group_by("correlation").agg(stream=pl.col("tid").min())
    whole = whole.join(stream, on="correlation", how="left", maintain_order="left")
    parts = hardware.join(whole.select("correlation"), on="correlation", how="semi")
    own = hardware.join(parts.select("correlation").unique(), on="correlation", how="anti")
    kernels = own.filter(pl.col("task_type").str.contains(_KERNEL_TASKS.pattern))
    copies = own.filter(name.is_in(_COPIES))
    activities = pl.concat(
        [
            _activities(kernels, "kernel", pl.col("tid")),
            _activities(copies, "copy", pl.col("tid")),
            _activities(whole, "collective", pl.col("stream")),
        ]
    )
    calls = other.filter((process == "CANN") & pl.col("correlation").is_not_null())
    known = {ASCEND, "HCCL", "CANN", _SUMMARY}
    return Told(activities, _launches(calls), _ranges(other.filter(~process.is_in(known))), "npu")


def _gpu_processes(other: pl.DataFrame, pids: Codes) -> Told:
    title = pl.col("process").str.extract(f"^{_GPU.pattern}$")
    on_gpu = other.filter(title.is_not_null())
    devices = pl.Series([as_int(p) for p in pids], dtype=pl.Int64)
    on_gpu = on_gpu.with_columns(device=devices.gather(on_gpu["pid"]))
    name = pl.col("name").cast(pl.String)
    kind = (
        pl.when(name.str.contains(f"(?i){_COPY_NAME.pattern}"))
        .then(pl.lit("copy"))
        .when(name.str.contains(f"(?i){_SET_NAME.pattern}"))
        .then(pl.lit("set"))
        .otherwise(pl.lit("kernel"))
    )
    activities = _activities(on_gpu, kind, pl.col("tid"), pl.col("device"))
    host = other.filter(title.is_null())
    is_call = name.str.contains(_CALL.pattern)
    return Told(activities, _launches(host.filter(is_call)), _ranges(host.filter(~is_call)), "rocm")


def _activities(
    rows: pl.DataFrame, kind: str | pl.Expr, stream: pl.Expr, device: pl.Expr | None = None
) -> pl.DataFrame:
    kind = pl.lit(kind) if isinstance(kind, str) else kind
    return _fill(
        rows.with_columns(kind=kind, stream=stream, device=pl.lit(0) if device is None else device),
        raw.ACTIVITIES,
    )


def _launches(rows: pl.DataFrame) -> pl.DataFrame:
    return _fill(rows, raw.LAUNCHES)


def _ranges(rows: pl.DataFrame) -> pl.DataFrame:
    return _fill(rows.with_columns(pl.col("domain").fill_null("user")), raw.RANGES)


def _fill(rows: pl.DataFrame, wanted: dict[str, pl.DataType]) -> pl.DataFrame:
    return rows.select(
        pl.col(n).cast(dtype, strict=False) if n in rows.columns else pl.lit(None, dtype).alias(n)
        for n, dtype in wanted.items()
    )
