"""The PyTorch TensorBoard plugin's overview: each step painted in order of priority.

A moment of a step counts to the first of kernel, memcpy, memset, communication, runtime, data
loader, CPU operator, other that is active then, on any device or thread. A step runs from the end
of the one before it (or its own host start, if later) to the last work that it launched, or to its
host end; last steps of which kernels seem lost are dropped. A kernel is communication when a
`nccl:…` or `gloo:…` operator of five names launched it; annotations, also those mirrored on a
device, count as CPU operators.

Not seen here: Python events of the profiler's own category (none since 2021).
Source: `tb_plugin/torch_tb_profiler/profiler/event_parser.py`, `overall_parser.py`,
`gpu_metrics_parser.py` of pytorch/kineto, until April 2026.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from workbench import intervals
from workbench.analysis.rules import account
from workbench.analysis.rules.account import Account, Stage, View
from workbench.analysis.window import spans
from workbench.intervals import Intervals, Times
from workbench.trace.core import Trace
from workbench.trace.families import STEP

ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "data_loader", "cpu_op")
OTHER = "other"
"""What of a step none of the roles fills."""
HOST_ROLES = ("runtime", "data_loader", "cpu_op", OTHER)
COLLECTIVES = tuple(
    f"{library}:{name}"
    for library in ("nccl", "gloo")
    for name in ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
)
_LOADER = r"^enumerate\(DataLoader\)#.*\.__next__$|^enumerate\(DataPipe\)#"
_DRIVER = "^cu[A-Z]"
"""Driver calls, which the plugin does not know."""
_OURS = {
    "kernel": "compute",
    "memcpy": "exposed_memcpy",
    "memset": "exposed_memset",
    "communication": "exposed_communication",
    "step": "window",
    "idle": "idle",
}
_LOST = 0.8
"""A last step with fewer device events than this share of the one before it is dropped."""


class Steps(NamedTuple):
    """Spans of steps, with the numbers in their names (-1: no step is marked)."""

    number: Times
    start: Times
    end: Times

    def head(self, count: int) -> Steps:
        """Return the first of them."""
        return Steps(self.number[:count], self.start[:count], self.end[:count])


def overall(trace: Trace) -> pl.DataFrame:
    """Return `step dur_ns` and a column of ns for each role and for `other`, a row a step."""
    return _overall(trace, device_steps(trace))


def _overall(trace: Trace, steps: Steps) -> pl.DataFrame:
    whole = intervals.union(steps.start, steps.end)
    left, painted = intervals.EMPTY, {}
    for role, found in roles(trace).items():
        # with nothing left to paint the plugin begins anew, with all of the role and of the steps
        is_empty = not len(left.start)
        painted[role] = found if is_empty else intervals.intersection(left, found)
        left = intervals.difference(whole if is_empty else left, painted[role])
    painted[OTHER] = left
    return pl.DataFrame(
        {
            "step": steps.number,
            "dur_ns": steps.end - steps.start,
            **{r: intervals.covered(x, steps.start, steps.end) for r, x in painted.items()},
        }
    )


def gpu_utilisation(activities: pl.DataFrame, steps: Steps) -> tuple[int, int]:
    """Return kernel time, communication among it, and the time from first step to last, in ns."""
    inside = _span(steps)
    kernels = activities.filter(pl.col("kind").is_in(["kernel", "collective"]))
    busy = intervals.intersection(intervals.union(*spans(kernels)), inside)
    return intervals.length(busy), intervals.length(inside)


def roles(trace: Trace) -> dict[str, Intervals]:
    """Return when each role is active, by priority."""
    activities = trace.activities
    kernels = activities.filter(pl.col("kind").is_in(["kernel", "collective"]))
    by_operator = _launched_by_collectives(trace, kernels)
    calls = trace.launches.filter(~pl.col("name").cast(pl.String).str.contains(_DRIVER))
    host = pl.concat(
        [_host(trace.ops), _host(trace.ranges.filter(pl.col("domain") != "cuda_sync"))]
    )
    name = host["name"].str
    is_step, loads = name.contains(STEP.pattern), name.contains(_LOADER)
    communicates = host["name"].is_in(COLLECTIVES)
    frames = {
        "kernel": kernels.filter(~by_operator),
        "memcpy": activities.filter(pl.col("kind") == "copy"),
        "memset": activities.filter(pl.col("kind") == "set"),
        "communication": pl.concat(
            f.select("start_ns", "dur_ns")
            for f in (kernels.filter(by_operator), host.filter(communicates))
        ),
        "runtime": calls,
        "data_loader": host.filter(loads),
        "cpu_op": host.filter(~(is_step | loads | communicates)),
    }
    return {role: intervals.union(*spans(frames[role])) for role in ROLES}


def device_steps(trace: Trace) -> Steps:
    """Return the steps as the plugin draws them out to the device."""
    marked = _marks(trace)
    first, last, count, loose = _launched(trace, marked)
    if not count.any():
        return marked
    reach = int(marked.start[0])
    if count[0]:
        earlier = loose[loose < first[0]]
        reach = max(reach, int(earlier.max(initial=reach)))
    start, end = [], []
    for k in range(len(marked.start)):
        begin = max(reach, int(marked.start[k]))
        reach = max(int(marked.end[k]), int(last[k]) if count[k] else begin, begin)
        start.append(begin)
        end.append(reach)
    steps = Steps(marked.number, np.array(start, np.int64), np.array(end, np.int64))
    return steps.head(_whole(count))


def accounts(view: View) -> list[Account]:
    """Return what the plugin says of a rank, beside ours."""
    steps = device_steps(view.trace)
    found = _overall(view.trace, steps)
    total = {c: int(found[c].sum()) for c in found.columns if c != "step"}
    theirs = {r: total[r] for r in ("kernel", "memcpy", "memset", "communication")}
    theirs |= {"step": total["dur_ns"], "idle": sum(total[r] for r in HOST_ROLES)}
    in_steps = account.painted(view.events, intervals.union(steps.start, steps.end))
    stages = [
        Stage("", _ours(view.ours)),
        Stage(_why(view, found.height), _ours(in_steps)),
        Stage("painted in the plugin's order and classes, copies before communication", theirs),
    ]
    why = "idle time by what a host thread does then; ours is split by what caused it"
    alone = {r: (total[r], why) for r in HOST_ROLES}
    overview = Account("tensorboard", view.device, stages, {"window": total["dur_ns"]}, alone)
    return [overview, *(_utilisation(v, steps) for v in view.each_device())]


def _utilisation(view: View, steps: Steps) -> Account:
    busy, whole = gpu_utilisation(view.activities, steps)
    in_steps = account.painted(view.events, _span(steps))
    stages = [
        Stage("", account.read(view.ours, ("busy",))),
        Stage(
            "time counts from the plugin's first step to its last",
            account.read(in_steps, ("busy",)),
        ),
        Stage("copies and sets do not count", {"busy": busy}),
    ]
    return Account("tensorboard gpu_utilization", view.device, stages, {"window": whole})


def _ours(times: Times) -> dict[str, int]:
    found = account.read(times, tuple(_OURS.values()))
    return {theirs: found[ours] for theirs, ours in _OURS.items()}


def _why(view: View, steps: int) -> str:
    several = f", the {len(view.chosen)} devices as one timeline" if len(view.chosen) > 1 else ""
    return (
        f"{steps} step{'s' if steps != 1 else ''} from host start to the last work launched, "
        f"in place of our window{several}"
    )


def _span(steps: Steps) -> Intervals:
    return intervals.union(steps.start[:1], steps.end[-1:])


def _host(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.col("name").cast(pl.String), "start_ns", "dur_ns")


def _launched_by_collectives(trace: Trace, kernels: pl.DataFrame) -> pl.Series:
    named = trace.ops.filter(pl.col("name").cast(pl.String).is_in(COLLECTIVES))["id"]
    return kernels["op"].is_in(named.implode()).fill_null(value=False)


def _marks(trace: Trace) -> Steps:
    """Return marked steps by start, mirrored ones too; without any, all that the host does."""
    number = pl.col("name").cast(pl.String).str.extract(f"^{STEP.pattern}$").cast(pl.Int64)
    marks = trace.ranges.with_columns(number=number).drop_nulls("number")
    marks = marks.sort("start_ns", maintain_order=True)
    if marks.height:
        return Steps(marks["number"].to_numpy(), *spans(marks))
    start, end = spans(trace.ops)
    whole = intervals.union(start.min(keepdims=True), end.max(keepdims=True)) if len(start) else (
        intervals.EMPTY
    )  # fmt: skip
    return Steps(np.full(len(whole.start), -1), *whole)


def _launched(trace: Trace, marks: Steps) -> tuple[Times, Times, Times, Times]:
    """Return first start, last end and number of what each step launched, and ends of the rest.

    A call belongs to a step when it lies inside it from begin to end.
    """
    calls = trace.launches.filter(~pl.col("name").cast(pl.String).str.contains(_DRIVER))
    begin, finish = spans(calls)
    size = len(marks.start)
    step = np.searchsorted(np.maximum.accumulate(marks.end), begin, "right") if size else begin
    inside = step < size
    at = np.minimum(step, max(size - 1, 0))
    if size:
        inside &= (begin >= marks.start[at]) & (finish <= marks.end[at])
    owner = calls.select(launch="id", owner=pl.Series(np.where(inside, at, -1)))
    found = trace.activities.join(owner, on="launch", how="left", maintain_order="left")
    of = found["owner"].fill_null(-1).to_numpy()
    start, end = spans(found)
    first = np.full(size, np.iinfo(np.int64).max)
    last, count = np.full(size, np.iinfo(np.int64).min), np.zeros(size, np.int64)
    mine = of >= 0
    np.minimum.at(first, of[mine], start[mine])
    np.maximum.at(last, of[mine], end[mine])
    np.add.at(count, of[mine], 1)
    return first, last, count, end[~mine]


def _whole(count: Times) -> int:
    """Return how many steps stay: to the last with device events, less one that lost many."""
    last = int(np.flatnonzero(count)[-1])
    if len(count) == 1:
        return 1
    return last if last > 0 and count[last - 1] * _LOST > count[last] else last + 1
