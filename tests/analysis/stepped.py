"""Traces with steps for the tests of utilisation and energy: kernels and steps by hand."""

import dataclasses

import polars as pl

from workbench.trace import schema

S = 10**9
BF2 = ["c10::BFloat16"] * 2


def kernel(number, op, step, start, end, *, name="gemm", device=0):
    return {
        "id": number, "kind": "kernel", "name": name, "device": device, "stream": 7,
        "start_ns": start, "dur_ns": end - start, "op": op, "step": step, "source": "device",
    }  # fmt: skip


def marked(trace, durations, *, device=0, rank=0, tail=True):
    """Steps 1, 2, … of these durations, one after another; the last one is the tail."""
    starts = [sum(durations[:n]) for n in range(len(durations))]
    rows = [
        {
            "step": n + 1, "device": device, "host_start_ns": starts[n], "host_dur_ns": dur,
            "start_ns": starts[n], "dur_ns": dur, "complete": True,
            "tail": tail and n == len(durations) - 1,
        }
        for n, dur in enumerate(durations)
    ]  # fmt: skip
    steps = pl.DataFrame(rows, schema=schema.polars_schema("steps"))
    meta = dataclasses.replace(trace.meta, rank=rank)
    return dataclasses.replace(trace, meta=meta, tables={**trace.tables, "steps": steps})
