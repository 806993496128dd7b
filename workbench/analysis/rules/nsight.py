"""Nsight Systems' recipes and reports, and nsys-ai's overlap, each device alone.

By NVIDIA's documentation: `gpu_gaps` lists idle time between a device's first and last operation,
gaps longer than 500 ms unless told otherwise; `gpu_time_util` adds up operations, so concurrent
ones count each and it may pass 100 %; `nccl_gpu_overlap` (and `nccl_gpu_time_util_map`) takes a
kernel for communication when its name starts with `nccl`, all others for compute;
`cuda_gpu_kern_sum` adds up kernels' durations. nsys-ai (`src/nsys_ai/overlap.py`) looks at kernels
alone: nccl anywhere in the name is communication, and a copy is idle time.
Not seen here: the profiler's own overhead, which the recipes leave out of idle time.
"""

from __future__ import annotations

import numpy as np

from workbench import intervals
from workbench.analysis.rules import account
from workbench.analysis.rules.account import Account, Events, Stage, View

GAP_NS = 500_000_000
"""The shortest gap that `gpu_gaps` lists."""
STARTS_WITH_NCCL = {account.COMMUNICATION: "^nccl"}
HOLDS_NCCL = {account.COMMUNICATION: "(?i)nccl"}
_CONCURRENT = "what runs beside others counts again"
_OVERLAP = ("compute", "communication", "overlap")
_NSYS_AI = ("window", "compute", "communication", "overlap", "exposed_communication", "idle")


def accounts(view: View) -> list[Account]:
    """Return what the recipes say of each device, beside ours."""
    made = (gaps, operations, kernel_sum, overlap, nsys_ai)
    return [rule(alone) for alone in view.each_device() for rule in made]


def gaps(view: View, longer_than_ns: int = GAP_NS) -> Account:
    """Return `gpu_gaps`: idle time in gaps longer than the threshold."""
    stages = view.start(("idle",))
    busy = intervals.union(view.events.start, view.events.end)
    between = busy.start[1:] - busy.end[:-1]
    long = between > longer_than_ns
    why = (
        f"gaps of at most {longer_than_ns / 1e6:g} ms are left out "
        f"({len(between) - long.sum()} of {len(between)})"
    )
    stages.append(Stage(why, {"idle": int(between[long].sum())}))
    return Account("nsight gpu_gaps", view.device, stages, _span(view.events))


def operations(view: View) -> Account:
    """Return `gpu_time_util`: summed durations of operations, as a share of their span."""
    stages = view.start(("busy",))
    stages.append(Stage(_CONCURRENT, {"busy": _sum(view.events)}))
    return Account("nsight gpu_time_util", view.device, stages, _span(view.events))


def kernel_sum(view: View) -> Account:
    """Return `cuda_gpu_kern_sum`: summed durations of kernels, as a share of their own sum."""
    stages = view.start(("kernel",))
    kernels = _kernels(view)[0]
    whole = _sum(kernels)
    stages.append(Stage(_CONCURRENT, {"kernel": whole}))
    return Account("nsight cuda_gpu_kern_sum", view.device, stages, {"window": whole})


def overlap(view: View) -> Account:
    """Return `nccl_gpu_overlap`: kernels by the prefix nccl."""
    stages = view.start(_OVERLAP)
    old, named, why = _named(view, STARTS_WITH_NCCL)
    stages.append(_stage(why, named, _OVERLAP))
    wholes = _span(old) | {"overlap": stages[-1].values["communication"]}
    return Account("nsight nccl_gpu_overlap", view.device, stages, wholes)


def nsys_ai(view: View) -> Account:
    """Return nsys-ai's overlap: compute, communication, both and idle over the kernels' span."""
    stages = view.start(_NSYS_AI)
    old, named, why = _named(view, HOLDS_NCCL)
    stages.append(_stage("copies and sets are idle time", old, _NSYS_AI))
    stages.append(_stage(why, named, _NSYS_AI))
    wholes = _span(named) | {"overlap": stages[-1].values["communication"]}
    return Account("nsys-ai", view.device, stages, wholes)


def _kernels(view: View) -> tuple[Events, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    which = np.isin(view.events.sort, (account.COMPUTE, account.COMMUNICATION))
    return view.events.keep(which), which


def _named(view: View, rules: dict[int, str]) -> tuple[Events, Events, str]:
    """Return kernels as we sort them and as their names do, and how these differ."""
    old, which = _kernels(view)
    names = view.activities["name"].filter(which)
    named = old.sorted_as(account.by_name(names, rules, account.COMPUTE))
    return old, named, account.reclassed(old, named, names)


def _stage(why: str, found: Events, measures: tuple[str, ...]) -> Stage:
    return Stage(why, account.read(account.painted(found, found.span), measures))


def _sum(found: Events) -> int:
    return int((found.end - found.start).sum())


def _span(found: Events) -> dict[str, int]:
    return {"window": intervals.length(found.span)}
