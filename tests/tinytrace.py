"""Tiny profiler traces written by hand in tests: one line an event, times in microseconds."""

import gzip
import json


def op(name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def mark(name, ts, dur, tid=1, **args):
    return op(name, ts, dur, tid, **args) | {"cat": "user_annotation"}


def step(number, ts, dur):
    return mark(f"ProfilerStep#{number}", ts, dur)


def call(name, ts, dur, correlation, tid=1):
    return op(name, ts, dur, tid, correlation=correlation) | {"cat": "cuda_runtime"}


def kernel(name, ts, dur, correlation=0, *, stream=7, device=0, cat="kernel", **args):
    args |= {"device": device, "stream": stream, "correlation": correlation}
    return {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": ts,
            "dur": dur, "args": args}  # fmt: skip


def allocation(ts, size, address, total, *, reserved=0, device=0, kind=1, tid=1):
    """An allocation, or a free when the size is negative; kind: 0 host, 1 CUDA, 6 HIP."""
    args = {"Bytes": size, "Addr": address, "Total Allocated": total, "Total Reserved": reserved,
            "Device Type": kind, "Device Id": device}  # fmt: skip
    known = {k: v for k, v in args.items() if v is not None}
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 9,
            "tid": tid, "ts": ts, "args": known}  # fmt: skip


def write(folder, events, name="t.json", **header):
    path = folder / name
    text = json.dumps({"schemaVersion": 1, **header, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path
