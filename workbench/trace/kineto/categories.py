"""What the category of an event says that it is; the profiler's names of today and of 2021."""

from __future__ import annotations

CATEGORIES: dict[str | None, str] = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "copy",
    "Memcpy": "copy",
    "gpu_memset": "set",
    "Memset": "set",
    "mtia_ccp_events": "mtia",
    "cuda_runtime": "launches",
    "cuda_driver": "launches",
    "Runtime": "launches",
    "mtia_runtime": "launches",
    "xpu_runtime": "launches",
    "xpu_driver": "launches",
    "privateuse1_runtime": "launches",
    "privateuse1_driver": "launches",
    "cpu_op": "ops",
    "Operator": "ops",
    "user_annotation": "ranges",
    "gpu_user_annotation": "device_ranges",
    "cuda_sync": "device_ranges",
    "cuda_profiler_range": "device_ranges",
    "python_function": "frames",
    "Trace": "span",
}
"""Category to the part of the builder that takes it; any other waits for the process names."""
HOST_CATEGORIES = frozenset(
    {None, "cpu_op", "Operator", "user_annotation", "python_function", "Trace", "overhead"}
)
ACCELERATOR_CATEGORIES = (
    frozenset(CATEGORIES) - HOST_CATEGORIES
) | {"mtia_insight", "hpu_op", "async_npu", "HostToDevice", "enqueue", "dequeue"}  # fmt: skip
"""Categories that only a program with an accelerator has."""
UNREAD_ACTIVITY = {"hpu_op": "hpu"}
"""Accelerators whose activity rows are not read."""
WAITS = "cuda_sync"
"""Waits of streams and of the host, which the profiler records when asked to."""
MTIA_HARDWARE: dict[str | None, str] = {
    "dma_request": "copy",
    "event_record": "wait",
    "event_wait": "wait",
}
"""What MTIA's hardware rows are by name; all others run a program. Waits occupy nothing."""
