"""Small hand-made traces for the tests of views."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from workbench.trace import schema
from workbench.trace.core import Thread, Trace, TraceMeta


def trace(rank=None, origin_ns=0, device_kind="cuda", threads=(), **tables):
    """Make a Trace from lists of dicts; columns that a test does not name are null or filled."""
    meta = TraceMeta(
        path=Path("hand-made.json"),
        format="hand-made",
        sha256="0" * 64,
        origin_ns=origin_ns,
        rank=rank,
        threads=tuple(Thread(1, i, name) for i, name in enumerate(threads)),
        device_kind=device_kind,
    )
    frames = {name: schema.empty(name) for name in schema.TABLES if name != "frames"}
    for name, rows in tables.items():
        frame = pl.DataFrame(rows)
        if "id" in schema.TABLES[name] and "id" not in frame:
            frame = frame.with_row_index("id")
        frames[name] = schema.conform(name, frame)
    return Trace(meta, frames)


def kernel(name, start_ns, dur_ns, *, stream=7, device=0, kind="kernel", **more):
    row = {"name": name, "start_ns": start_ns, "dur_ns": dur_ns, "stream": stream}
    return row | {"device": device, "kind": kind, "source": "device"} | more


def host(name, start_ns, dur_ns, *, thread=0, kind="compute", **more):
    return (
        kernel(name, start_ns, dur_ns, stream=thread, device=None, kind=kind)
        | {"source": "host"}
        | more
    )


def op(name, start_ns, dur_ns, depth=0, thread=0, **more):
    row = {"name": name, "start_ns": start_ns, "dur_ns": dur_ns, "self_ns": dur_ns}
    return row | {"depth": depth, "thread": thread} | more


def three_events():
    """Two kernels and a collective on two streams: gemm 100-140, relu 150-160, reduce 120-170."""
    return trace(
        activities=[
            kernel("gemm", 100, 40, step=3),
            kernel("all_reduce", 120, 50, stream=20, kind="collective", step=3),
            kernel("relu", 150, 10, step=4),
        ]
    )
