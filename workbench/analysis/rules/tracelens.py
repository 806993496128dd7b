"""TraceLens' GPU timeline (`gpu_timeline` of its reports, AMD-AGI/TraceLens, mid 2026).

All devices of a file are one timeline over the whole recording. A GPU event counts when a flow
links it to a call: events without a launch record are left out, and so are sets launched by HIP,
from which Kineto draws no flow. Sets count as compute; communication goes by name (nccl, rccl,
vLLM's cross_device_reduce); ROCm 7.1's copy kernels count as copies.
Source: `TraceLens/TreePerf/gpu_event_analyser.py`, `TraceLens/util.py`. TraceLens adds in doubles
of microseconds, which moves its figures by some nanoseconds.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.analysis.rules import account
from workbench.analysis.rules.account import Account, Events, Stage, View
from workbench.trace.core import Source, Trace

COPY_KERNEL = (
    r"^(MEMORY_COPY_(HOST_TO_DEVICE|DEVICE_TO_HOST|DEVICE_TO_DEVICE)"
    r"|__amd_rocclr_copyBuffer(Rect)?(Aligned)?)(\.kd)?$"
)
COMMUNICATION = "(?i)rccl|nccl|cross_device_reduce"
MEASURES = ("window", "busy", "compute", "communication", "exposed_communication", "copy",
            "exposed_copy", "idle")  # fmt: skip


def linked(trace: Trace, activities: pl.DataFrame) -> pl.DataFrame:
    """Return the activities that a flow links to a call; all where no call is recorded."""
    if not trace.launches.height:
        return activities
    name = trace.launches["name"].cast(pl.String)
    without_flow = trace.launches.filter(name.str.starts_with("hipMemset"))["id"]
    is_linked = pl.col("launch").is_not_null() & ~pl.col("launch").is_in(without_flow.implode())
    return activities.filter(is_linked)


def sorts(activities: pl.DataFrame) -> NDArray[np.int8]:
    """Return the sort of each activity: copies by kind, all else by name."""
    rules = {account.COPY: COPY_KERNEL, account.COMMUNICATION: COMMUNICATION}
    named = account.by_name(activities["name"], rules, account.COMPUTE)
    is_copy = (activities["kind"] == "copy").to_numpy()
    return np.where(is_copy, np.int8(account.COPY), named)


def timeline(trace: Trace, *, recomputed: bool | None = None) -> dict[str, int]:
    """Return the rows of `gpu_timeline` in ns, by our names of the measures (`MEASURES`).

    `recomputed` picks the block of recomputed kernels or that of all others, which TraceLens tells
    apart in a recording with activation checkpointing.
    """
    found = linked(trace, trace.activities)
    if recomputed is not None:
        again = (pl.col("phase") == "recomputation").fill_null(value=False)
        found = found.filter(again if recomputed else ~again)
    named = account.as_events(found).sorted_as(sorts(found))
    return account.read(account.painted(named, named.span), MEASURES)


def collectives(source: Source) -> pl.DataFrame:
    """Return TraceLens' view of collectives across ranks, a row a rank and collective.

    A collective is the same on two ranks by process group and by its place in order of start,
    whatever its sequence number. `wait_ns` = latest start - own start, on clocks as recorded;
    `skew_in_start_ns` and `skew_in_end_ns` are the largest differences; `latency_ns` is the
    shortest duration. `algorithm_gib_per_s` = bytes / latency, in 2^30 bytes though printed as GB.
    """
    frames = [
        trace.collectives.sort("start_ns", maintain_order=True).select(
            pl.col("group").cast(pl.String),
            "bytes",
            "dur_ns",
            rank=pl.lit(trace.meta.rank, pl.Int32()),
            index=pl.int_range(pl.len()).over("group"),
            start_ns=pl.col("start_ns") + trace.meta.origin_ns - source.origin_ns,
        )
        for trace in source.ranks
    ]
    same = ("group", "index")
    start, end = pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")
    latency = pl.col("dur_ns").min().over(same)
    return pl.concat(frames).select(
        *same,
        "rank",
        wait_ns=start.max().over(same) - start,
        skew_in_start_ns=start.max().over(same) - start.min().over(same),
        skew_in_end_ns=end.max().over(same) - end.min().over(same),
        latency_ns=latency,
        algorithm_gib_per_s=pl.col("bytes") / 2**30 / (latency / 1e9),
    )


def accounts(view: View) -> list[Account]:
    """Return what TraceLens says of a rank, beside ours."""
    stages = view.start(MEASURES)
    found = linked(view.trace, view.activities)
    left = account.as_events(found)
    lost = view.activities.height - found.height
    if lost:
        why = f"what no flow links to a call is left out ({lost} of {view.activities.height})"
        stages.append(_stage(why, left))
    without_sets = left.sorted_as(
        np.where(left.sort == account.SET, np.int8(account.COMPUTE), left.sort)
    )
    sets = int((left.sort == account.SET).sum())
    stages.append(_stage(f"sets count as compute ({sets} of them)", without_sets))
    named = left.sorted_as(sorts(found))
    stages.append(_stage(account.reclassed(without_sets, named, found["name"]), named))
    return [Account("tracelens", view.device, stages, {"window": stages[-1].values["window"]})]


def _stage(why: str, found: Events) -> Stage:
    return Stage(why, account.read(account.painted(found, found.span), MEASURES))
