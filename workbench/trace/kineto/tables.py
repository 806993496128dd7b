"""Events of one category to a bare table; times still absolute as recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.trace import raw
from workbench.trace.core import Thread
from workbench.trace.families import range_domain
from workbench.trace.kineto import columns as col
from workbench.trace.kineto.arguments import (
    ActivityArgs,
    CommunicationArgs,
    FrameArgs,
    LaunchArgs,
    MemoryArgs,
    OperatorArgs,
)
from workbench.trace.kineto.events import Args, Event, arguments, starts_and_durations

MODULE = "nn.Module: "
"""How the profiler begins the name of a module's frame."""
DEVICE_MEMORY = 1
"""c10::DeviceType of CUDA and HIP in [memory] events; 0 is the host."""


@dataclass
class Builder:
    """Collects host threads and misfits while tables are built."""

    threads: dict[tuple[object, object], int] = field(default_factory=dict)
    bad_args: dict[str, int] = field(default_factory=dict)

    def thread(self, events: Sequence[Event]) -> pl.Series:
        """Return each event's host thread as an index into `thread_list`."""
        for key in dict.fromkeys((e.pid, e.tid) for e in events):
            self.threads.setdefault(key, len(self.threads))
        pids = {pid for pid, _ in self.threads}
        if len(pids) == 1:  # nearly always: one process, so its thread ids alone tell them apart
            by_tid = {tid: i for (_, tid), i in self.threads.items()}
            return pl.Series([by_tid[e.tid] for e in events], dtype=pl.Int32)
        return pl.Series([self.threads[e.pid, e.tid] for e in events], dtype=pl.Int32)

    def thread_list(self, thread_names: dict[tuple[object, object], str]) -> tuple[Thread, ...]:
        """Return the threads in the order of their indices."""
        return tuple(
            Thread(pid=_plain(pid), tid=_plain(tid), name=thread_names.get((pid, tid)))
            for pid, tid in self.threads
        )

    def arguments(self, events: Sequence[Event], kind: type[Args]) -> list[Args]:
        """Decode args and count those that did not fit."""
        decoded, bad = arguments(events, kind)
        if bad:
            name = str(events[0].cat)
            self.bad_args[name] = self.bad_args.get(name, 0) + bad
        return decoded

    def activities(self, kind: str, events: Sequence[Event]) -> pl.DataFrame:
        """Build kernels, copies or sets."""
        args = self.arguments(events, ActivityArgs)
        both = list(zip(args, events, strict=True))
        device = [a.device if a.device is not None else e.pid for a, e in both]
        stream = [a.stream if a.stream is not None else e.tid for a, e in both]
        return _frame(
            raw.ACTIVITIES,
            events,
            kind=pl.repeat(kind, len(events), dtype=pl.String, eager=True),
            device=col.indices(device),
            stream=col.indices(stream),
            correlation=col.ids([a.correlation for a in args]),
            graph_node=col.ids([a.graph_node for a in args]),
            grid=col.triples([a.grid for a in args]),
            block=col.triples([a.block for a in args]),
            registers=col.indices([a.registers for a in args]),
            shared_bytes=col.indices([a.shared for a in args]),
            occupancy=col.doubles([a.occupancy for a in args]) / 100,
            bytes=col.indices([a.bytes for a in args]),
            **_communication(args),
        )

    def launches(self, events: Sequence[Event]) -> pl.DataFrame:
        """Build runtime and driver calls."""
        args = self.arguments(events, LaunchArgs)
        return _frame(
            raw.LAUNCHES,
            events,
            thread=self.thread(events),
            correlation=col.ids([a.correlation for a in args]),
            external_id=col.ids(
                [a.external if a.external is not None else a.external_old for a in args]
            ),
        )

    def ops(self, events: Sequence[Event]) -> pl.DataFrame:
        """Build framework operators."""
        args = self.arguments(events, OperatorArgs)
        return _frame(
            raw.OPS,
            events,
            thread=self.thread(events),
            sequence=col.indices([a.sequence for a in args]),
            external_id=col.ids([a.external for a in args]),
            forward_thread=col.ids([a.forward_thread for a in args]),
            input_dims=col.texts(a.dims for a in args),
            input_types=col.texts(a.types for a in args),
            input_strides=col.texts(a.strides for a in args),
            concrete_inputs=col.texts(a.concrete for a in args),
            kernel_backend=col.words([a.kernel_backend for a in args]),
            kernel_file=col.words([a.kernel_file for a in args]),
            kernel_hash=col.words([a.kernel_hash for a in args]),
            **_communication(args),
        )

    def host_ranges(self, events: Sequence[Event]) -> pl.DataFrame:
        """Build annotations made on the host."""
        args = self.arguments(events, OperatorArgs)
        return _frame(
            raw.RANGES,
            events,
            domain=pl.Series([range_domain(e.name or "") for e in events], dtype=pl.String),
            thread=self.thread(events),
            input_dims=col.texts(a.dims for a in args),
            input_types=col.texts(a.types for a in args),
        )

    def device_ranges(self, events: Sequence[Event]) -> pl.DataFrame:
        """Build annotations that the profiler mirrors onto streams."""
        return _frame(
            raw.RANGES,
            events,
            domain=pl.repeat("device", len(events), dtype=pl.String, eager=True),
            device=col.indices([e.pid for e in events]),
            stream=col.indices([e.tid for e in events]),
        )

    def modules(self, events: Sequence[Event]) -> pl.DataFrame:
        """Build the calls of `nn.Module`s among the Python frames."""
        chosen = [e for e in events if e.name and e.name.startswith(MODULE)]
        return _frame(raw.MODULES, chosen, thread=self.thread(chosen))

    def memory(self, events: Sequence[Event]) -> pl.DataFrame:
        """Build allocations and frees; those without a size are left out."""
        args = self.arguments(events, MemoryArgs)
        start, _ = starts_and_durations(events)
        on_device = [a.device if a.device_type == DEVICE_MEMORY else None for a in args]
        frame = pl.DataFrame(
            {
                "t_ns": start,
                "device": col.indices(on_device),
                "address": pl.Series([_address(a.address) for a in args], dtype=pl.UInt64),
                "bytes": col.ints([a.bytes for a in args]),
                "total_allocated": col.indices([a.allocated for a in args]),
                "total_reserved": col.indices([a.reserved for a in args]),
                "thread": self.thread(events),
            }
        )
        return frame.cast(raw.MEMORY, strict=False).filter(pl.col("bytes").is_not_null())  # type: ignore[arg-type]

    def frames(self, events: Sequence[Event]) -> Callable[[int, int], pl.DataFrame]:
        """Hold Python calls back; the result builds them, given base and origin in ns."""
        thread = self.thread(events)
        return lambda base, origin: _frames(events, thread, base - origin)


def _plain(value: object) -> int | str:
    return value if isinstance(value, int | str) else str(value)


def _address(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**64 else None


def _communication(args: Sequence[CommunicationArgs]) -> dict[str, pl.Series]:
    if all(a.comm_name is None and a.comm_group is None for a in args):
        return {}
    return {
        "comm_name": col.words([a.comm_name for a in args]),
        "comm_group": col.words([a.comm_group for a in args]),
        "comm_group_size": col.ids([a.comm_size for a in args]),
        "comm_members": col.rank_lists(a.comm_members for a in args),
        "comm_seq": col.indices([a.comm_seq for a in args]),
        "comm_dtype": col.words([a.comm_dtype for a in args]),
        "comm_in": col.indices([a.comm_in for a in args]),
        "comm_out": col.indices([a.comm_out for a in args]),
    }


def _frame(
    wanted: dict[str, pl.DataType], events: Sequence[Event], **series: pl.Series | NDArray[np.int64]
) -> pl.DataFrame:
    start, duration = starts_and_durations(events)
    given = {"name": col.names(events), "start_ns": start, "dur_ns": duration, **series}
    n = len(events)
    return pl.DataFrame(
        {
            name: pl.Series(name, given[name]).cast(dtype, strict=False)
            if name in given
            else pl.repeat(None, n, dtype=dtype, eager=True)
            for name, dtype in wanted.items()
        },
        schema=wanted,
    )


def _frames(events: Sequence[Event], thread: pl.Series, shift: int) -> pl.DataFrame:
    """Build the table of Python calls with their callers."""
    start, duration = starts_and_durations(events)
    args, _ = arguments(events, FrameArgs)
    module = pl.Series([a.module is not None for a in args], dtype=pl.Boolean)
    frame = pl.DataFrame(
        {
            "name": col.names(events),
            "thread": thread,
            "start_ns": start + shift,
            "dur_ns": duration,
            "py_id": col.ids([a.id for a in args]),
            "py_parent": col.ids([a.parent for a in args]),
            "is_module": module,
        }
    )
    frame = frame.filter(pl.col("dur_ns") >= 0, pl.col("start_ns") >= 0).sort(
        "start_ns", maintain_order=True
    )
    frame = frame.with_row_index("id")
    callers = frame.select(pl.col("py_id").alias("py_parent"), pl.col("id").alias("parent"))
    callers = callers.drop_nulls().unique("py_parent", keep="first")
    frame = frame.join(callers, on="py_parent", how="left", maintain_order="left")
    return frame.with_columns(module=pl.when("is_module").then(pl.col("name")))
