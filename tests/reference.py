"""A slow reader of profiler JSON, to hold the fast one against: standard library and plain loops.

It knows device activity only: what each device did, in integer nanoseconds, and for how long.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

ACTIVITY = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "copy",
    "Memcpy": "copy",
    "gpu_memset": "set",
    "Memset": "set",
}
HOST = {
    "cpu_op", "Operator", "user_annotation", "gpu_user_annotation", "cuda_sync", "python_function",
    "cuda_runtime", "cuda_driver", "Runtime",
}  # fmt: skip
DAY_NS = 86_400 * 10**9
Spans = list[tuple[int, int]]


def totals(data: bytes) -> dict[int, dict[str, int]]:
    """Return what each device did: busy, copying, kernels and copies; ValueError if no JSON."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.strip()
    if text[:1] == b"[" and text[-1:] != b"]":  # a bare list may stay open
        text = text.rstrip(b", \r\n\t") + b"]"
    whole = json.loads(text, parse_float=Decimal)
    events = whole["traceEvents"] if isinstance(whole, dict) else whole
    complete = [e for e in events if isinstance(e, dict) and e.get("ph") == "X"]
    starts = [
        t for e in complete if e.get("cat") in HOST | set(ACTIVITY) and (t := ns(e.get("ts")))
    ]
    far = min((t for t in starts if t > 0), default=0) > DAY_NS
    busy: dict[int, Spans] = defaultdict(list)
    copies: dict[int, Spans] = defaultdict(list)
    for e in complete:
        kind = ACTIVITY.get(e.get("cat"))
        start, duration = ns(e.get("ts")), ns(e.get("dur"))
        if kind is None or start is None or duration is None or duration < 0:
            continue
        if start == 0 and (duration == 0 or far):
            continue
        args = e.get("args") or {}
        device = int(args.get("device", e.get("pid")))
        busy[device].append((start, start + duration))
        if kind != "kernel":
            copies[device].append((start, start + duration))
    return {
        device: {
            "busy_ns": covered(spans),
            "copy_ns": covered(copies[device]),
            "window_ns": max(b for _, b in spans) - min(a for a, _ in spans),
            "kernels": len(spans) - len(copies[device]),
            "copies": len(copies[device]),
        }
        for device, spans in busy.items()
    }


def ns(us: object) -> int | None:
    """Read microseconds, as a number or as text, to nanoseconds; half to even."""
    if isinstance(us, bool) or not isinstance(us, int | str | Decimal):
        return None
    try:
        return int((Decimal(us) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))
    except InvalidOperation:
        return None


def covered(spans: Spans) -> int:
    """Return the length of a union, one span after the other."""
    total, reached = 0, None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            total += end - start
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total
