"""Writes a schedule as the PyTorch profiler (Kineto) writes a trace of a CUDA device.

Field names, categories, flow events and the layout of the text follow files recorded on A100 and
H100 with torch 2.4 to 2.6; the graph fields follow Kineto's `CudaMetadataFields.h`. Stream-wait
records lie at the time of the host call, as CUPTI reports them.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench.trace.synthetic.recorder import AUTOGRAD, CBIDS, MAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.trace.synthetic.program import Program
    from workbench.trace.synthetic.recorder import Activity, Call, HostEvent, Wait

MARK = "training-workbench synthetic"
"""Value of the top-level key `generated` of every file."""
EPOCH_NS = 1_716_423_322_000_000_000
"""Absolute time of the schedule's 0."""
BASE_NS = 1_711_964_646_000_000_000
"""baseTimeNanoseconds of rank 0; each rank's is a second earlier, so that readers must re-base."""
RANK_BASE_NS = 1_000_000_000
PID = 21_587
NO_STREAM = 4_294_967_295
SEGMENT_BYTES = 20 * 2**20
"""In which torch reserves memory for blocks of 1 to 10 MiB (c10's `kLargeBuffer`)."""
SHAPES = {
    "kernel": {"registers per thread": 168, "shared memory": 231_424},
    "collective": {"registers per thread": 96, "shared memory": 87_568},
}
GRIDS = {"kernel": ([256, 1, 1], [384, 1, 1]), "collective": ([24, 1, 1], [544, 1, 1])}
SMS = 132
WARP = 32
CATEGORIES = {
    "kernel": "kernel",
    "collective": "kernel",
    "copy": "gpu_memcpy",
    "set": "gpu_memset",
}


def write(program: Program, path: Path) -> None:
    """Write one rank's trace, gzipped, the same bytes for the same schedule."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 4, raw, mtime=0) as file:
        file.write(_head(program).encode())
        lines = _Lines(program).all()
        file.write(next(lines).encode())
        batch: list[str] = []
        for line in lines:
            batch.append(line)
            if len(batch) == 10_000:  # noqa: PLR2004
                file.write((",\n" + ",\n".join(batch)).encode())
                batch.clear()
        if batch:
            file.write((",\n" + ",\n".join(batch)).encode())
        file.write(f'\n  ],\n  "traceName": "{path.name}"\n}}\n'.encode())


def _head(program: Program) -> str:
    """Return everything before the events."""
    spec = program.spec
    ranks = list(range(spec.ranks))
    group = {
        "pg_name": "0",
        "pg_desc": "default_pg",
        "backend_config": "cuda:nccl",
        "pg_size": spec.ranks,
        "ranks": ranks,
    }
    head = {
        "schemaVersion": 1,
        "generated": MARK,
        "synthetic_spec": asdict(spec),
        "deviceProperties": [_device(rank) for rank in ranks],
        "cuda_runtime_version": 12040,
        "cuda_driver_version": 12090,
        "cupti_version": 22,
        "record_shapes": 1,
        "profile_memory": int(spec.memory),
        "with_stack": int(spec.stacks),
        "distributedInfo": {
            "backend": "nccl",
            "rank": program.rank,
            "world_size": spec.ranks,
            "pg_count": 1,
            "pg_config": [group],
            "nccl_version": "2.21.5",
        },
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": _base(program.rank),
    }
    return json.dumps(head, indent=2)[:-2] + ',\n  "traceEvents": [\n'


def _device(index: int) -> dict[str, Any]:
    """Return what CUDA tells about an H100."""
    return {
        "id": index,
        "name": "NVIDIA H100 80GB HBM3",
        "totalGlobalMem": 85_018_279_936,
        "computeMajor": 9,
        "computeMinor": 0,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65_536,
        "warpSize": WARP,
        "sharedMemPerBlock": 49_152,
        "numSms": SMS,
        "regsPerMultiprocessor": 65_536,
        "sharedMemPerBlockOptin": 232_448,
        "sharedMemPerMultiprocessor": 233_472,
    }


def _base(rank: int) -> int:
    """Return the rank's baseTimeNanoseconds."""
    return BASE_NS - rank * RANK_BASE_NS


class _Lines:
    """The events of one rank as text."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.recorder = program.recorder
        self.device = program.rank
        self.pid = PID + program.rank
        self.tids = {MAIN: self.pid, AUTOGRAD: self.pid + 400}
        self.offset = EPOCH_NS - _base(program.rank)
        self.index = -1
        self.frames: list[tuple[int, int]] = []

    def all(self) -> Iterator[str]:
        """Yield every event in the order in which Kineto writes them."""
        for event in self.recorder.host:
            yield self._host(event)
        yield from self._fwdbwd()
        yield from self._memory()
        kept = {a.correlation for a in self.recorder.activities}
        for call in self.recorder.calls:
            if not call.lost:
                yield self._call(call)
                if call.correlation in kept:
                    yield self._flow("s", call.correlation, "ac2g", self._thread(call), call.start)
        for activity in self.recorder.activities:
            yield self._activity(activity)
            if activity.call:
                place = (self.device, activity.stream)
                yield self._flow("f", activity.correlation, "ac2g", place, activity.start)
        yield from self._annotations()
        yield from self._sync()
        yield from self._invalid()
        yield from self._metadata()

    def _time(self, time: int) -> str:
        """Return a time as decimal microseconds of three decimals."""
        whole, rest = divmod(time + self.offset, 1000)
        return f"{whole}.{rest:03d}"

    def _span(
        self, category: str, name: str, place: tuple[int, int], span: tuple[int, int], args: Any
    ) -> str:
        start, end = span
        whole, rest = divmod(end - start, 1000)
        return (
            f'  {{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, '
            f'"pid": {place[0]}, "tid": {place[1]},\n'
            f'    "ts": {self._time(start)}, "dur": {whole}.{rest:03d},\n'
            f'    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'
        )

    def _flow(self, ph: str, number: int, name: str, place: tuple[int, int], time: int) -> str:
        tail = ', "bp": "e"' if ph == "f" else ""
        return (
            f'  {{\n    "ph": "{ph}", "id": {number}, "pid": {place[0]}, "tid": {place[1]}, '
            f'"ts": {self._time(time)},\n    "cat": "{name}", "name": "{name}"{tail}\n  }}'
        )

    def _thread(self, event: HostEvent | Call) -> tuple[int, int]:
        return self.pid, self.tids[event.thread]

    def _host(self, event: HostEvent) -> str:
        self.index += 1
        args: dict[str, Any] = {**event.args, "Ev Idx": self.index}
        if event.category == "python_function" and event.name != "Python GC":
            args = {"Python parent id": self._parent(event), "Python id": self.index + 1} | args
        span = (event.start, event.end)
        return self._span(event.category, event.name, self._thread(event), span, args)

    def _parent(self, event: HostEvent) -> int | None:
        """Return the frame that encloses this one; frames come in the order of their begins."""
        while self.frames and self.frames[-1][0] <= event.start:
            self.frames.pop()
        parent = self.frames[-1][1] if self.frames else None
        self.frames.append((event.end, self.index + 1))
        return parent

    def _call(self, call: Call) -> str:
        args: dict[str, Any] = {"cbid": CBIDS[call.name], "correlation": call.correlation}
        if call.op is not None:
            args = {"External id": call.op.args["External id"], **args}
        span = (call.start, call.end)
        return self._span("cuda_runtime", call.name, self._thread(call), span, args)

    def _activity(self, activity: Activity) -> str:
        args: dict[str, Any] = {}
        if activity.call is not None and activity.call.op is not None:
            args["External id"] = activity.call.op.args["External id"]
        place = {
            "device": self.device,
            "context": 1,
            "stream": activity.stream,
            "correlation": activity.correlation,
        }
        if activity.kind in SHAPES:
            args |= {"queued": 0} | place | self._shape(activity) | activity.args
        else:
            rate = activity.args["bytes"] / (activity.end - activity.start)
            args |= place | activity.args | {"memory bandwidth (GB/s)": rate}
        span = (activity.start, activity.end)
        place_ids = (self.device, activity.stream)
        return self._span(CATEGORIES[activity.kind], activity.name, place_ids, span, args)

    def _shape(self, activity: Activity) -> dict[str, Any]:
        grid, block = GRIDS[activity.kind]
        blocks = grid[0] / SMS
        shape: dict[str, Any] = {
            **SHAPES[activity.kind],
            "blocks per SM": round(blocks, 6),
            "warps per SM": round(blocks * block[0] / WARP, 6),
            "grid": grid,
            "block": block,
            "est. achieved occupancy %": 19,
        }
        if activity.graph_node is not None:
            shape |= {"graph id": 1, "graph node id": activity.graph_node}
        return shape

    def _fwdbwd(self) -> Iterator[str]:
        for number, (forward, backward) in enumerate(self.recorder.flows, 1):
            yield self._flow("s", number, "fwdbwd", self._thread(forward), forward.start)
            yield self._flow("f", number, "fwdbwd", self._thread(backward), backward.start)

    def _memory(self) -> Iterator[str]:
        peak = max((row[-1] for row in self.recorder.memory), default=0)
        reserved = -(-peak // SEGMENT_BYTES) * SEGMENT_BYTES  # warm-up steps had the same peak
        for time, thread, size, allocated in self.recorder.memory:
            self.index += 1
            args = {
                "Total Reserved": reserved,
                "Total Allocated": allocated,
                "Bytes": size,
                "Addr": 140_000_000_000_000 + allocated - max(size, 0),
                "Device Id": self.device,
                "Device Type": 1,
                "Ev Idx": self.index,
            }
            yield (
                f'  {{\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", '
                f'"pid": {self.pid}, "tid": {self.tids[thread]},\n'
                f'    "ts": {self._time(time)},\n'
                f'    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'
            )

    def _annotations(self) -> Iterator[str]:
        """Yield the device-side copies of annotations."""
        for event, stream, first, last in self.recorder.mirrors.values():
            args = {"External id": event.args["External id"]}
            place = (self.device, stream)
            yield self._span("gpu_user_annotation", event.name, place, (first, last), args)

    def _sync(self) -> Iterator[str]:
        if not self.program.spec.sync_events:
            return
        for wait in self.recorder.waits:
            yield self._sync_event("Stream Wait Event", wait.call, wait.stream, _waited(wait))
        for name, call, stream in self.recorder.syncs:
            yield self._sync_event(name, call, stream, {})

    def _sync_event(self, name: str, call: Call, stream: int | None, more: dict[str, int]) -> str:
        args = {
            "cuda_sync_kind": name,
            **more,
            "stream": NO_STREAM if stream is None else stream,
            "correlation": call.correlation,
            "device": self.device,
            "context": 1,
        }
        place = (self.device, -1 if stream is None else stream)
        return self._span("cuda_sync", name, place, (call.start + 500, call.end), args)

    def _invalid(self) -> Iterator[str]:
        """Yield the fault `invalid_record`, on rank 0 alone."""
        if "invalid_record" in self.program.spec.faults and self.device == 0:
            args = {"device": self.device, "context": 1, "stream": 7, "correlation": 999}
            line = self._span("kernel", "planted_invalid", (self.device, 7), (0, 0), args)
            yield line.replace(f'"ts": {self._time(0)}', '"ts": 0.000')

    def _metadata(self) -> Iterator[str]:
        """Yield names and order of processes and threads, and the profiler's own span."""
        first = self.recorder.host[0].start
        last = max(t.now for t in self.recorder.threads.values())
        begin, end = first - 200_000, max(last, self.recorder.device_end) + 100_000
        for name, pid, tid, args in self._names():
            yield (
                f'  {{\n    "name": "{name}", "ph": "M", "ts": {self._time(begin)}, '
                f'"pid": {pid}, "tid": {tid},\n    "args": {{\n      {json.dumps(args)[1:-1]}\n'
                "    }\n  }"
            )
        whole, rest = divmod(end - begin, 1000)
        yield (
            f'  {{\n    "ph": "X", "cat": "Trace", "ts": {self._time(begin)}, '
            f'"dur": {whole}.{rest:03d},\n    "pid": "Spans", "tid": "PyTorch Profiler",\n'
            '    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    }\n  }'
        )
        yield (
            '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
            f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {self._time(begin)}\n  }}'
        )
        yield (
            '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
            f'    "pid": "", "tid": "", "ts": {self._time(end)}\n  }}'
        )

    def _names(self) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
        for pid, label in ((self.pid, "CPU"), (self.device, f"GPU {self.device}")):
            yield "process_name", pid, 0, {"name": "python3"}
            yield "process_labels", pid, 0, {"labels": label}
            order = pid if label == "CPU" else 5_000_000 + pid
            yield "process_sort_index", pid, 0, {"sort_index": order}
        for stream in sorted({a.stream for a in self.recorder.activities}):
            yield "thread_name", self.device, stream, {"name": f"stream {stream} "}
            yield "thread_sort_index", self.device, stream, {"sort_index": stream}
        for tid, name in zip(self.tids.values(), ("python3", "pt_autograd_0"), strict=True):
            yield "thread_name", self.pid, tid, {"name": f"thread {tid} ({name})"}
            yield "thread_sort_index", self.pid, tid, {"sort_index": tid}


def _waited(wait: Wait) -> dict[str, int]:
    """Return the fields of a wait on an event."""
    return {
        "wait_on_stream": wait.source,
        "wait_on_cuda_event_record_corr_id": wait.record,
        "wait_on_cuda_event_id": wait.event,
    }
