"""`Trace`: what one rank recorded, as tables. `Job`: the traces of all ranks of one run."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from workbench.errors import UsageError
from workbench.trace import clocks, schema

HOST_STEPS: dict[str, pl.DataType] = {
    n: schema.TABLES["steps"][n].dtype for n in ("step", "host_start_ns", "host_dur_ns", "complete")
}


@dataclass(frozen=True, slots=True)
class Thread:
    """One host thread; its position in `TraceMeta.threads` is the `thread` of the tables."""

    pid: int | str
    tid: int | str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as the recording describes it; properties keep the producer's own names."""

    index: int
    name: str | None
    properties: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """One process group of a distributed program."""

    name: str
    description: str | None
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """One of several files that one rank recorded, and the stretch of the trace that it fills."""

    path: Path
    sha256: str
    start_ns: int
    """Relative to the trace's origin, as `end_ns`."""
    end_ns: int


@dataclass(frozen=True, slots=True)
class TraceMeta:
    """What is known about a recording besides its events."""

    path: Path
    format: str
    sha256: str
    origin_ns: int
    """Absolute time of the earliest valid event; the tables are relative to it."""
    rank: int | None = None
    world_size: int | None = None
    threads: tuple[Thread, ...] = ()
    devices: tuple[Device, ...] = ()
    groups: tuple[ProcessGroup, ...] = ()
    producer: Mapping[str, object] = field(default_factory=dict)
    """Version and switch fields of the recording, by the producer's names."""
    events: int = 0
    truncated: bool = False
    device_kind: str = "cuda"
    """cuda, rocm, mtia, npu, … or cpu for host execution."""
    device_reason: str | None = None
    """Why there are no device figures, when there are none."""
    timed: bool = True
    """False for a format that says what ran and in which order, but not when."""
    recording: tuple[int, int] | None = None
    """First and last ns of the recording, relative to the origin; null when that isn't known."""
    windows: tuple[Window, ...] = ()
    """The files in order of time, when there are several; `path` is then the first one's."""

    def described(self, device: int | None) -> Device | None:
        """Return what the recording says of a device; None when it says nothing.

        ROCm numbers the devices of activities as agents, processors included, and those that it
        describes from 0. Where a number is not among the described, and these are all alike, it is
        one of them.
        """
        exact = next((d for d in self.devices if d.index == device), None)
        if exact is not None or self.device_kind != "rocm" or not self.devices:
            return exact
        first, *others = (_without_id(d) for d in self.devices)
        return self.devices[0] if all(other == first for other in others) else None


def _without_id(device: Device) -> tuple[str | None, dict[str, object]]:
    return device.name, {k: v for k, v in device.properties.items() if k != "id"}


@dataclass(frozen=True)
class Trace:
    """One rank's recording: frozen metadata and one polars frame a table (see `schema.TABLES`)."""

    meta: TraceMeta
    tables: Mapping[str, pl.DataFrame]
    build_frames: Callable[[], pl.DataFrame] | None = None
    """Python frames are the bulk of a trace with stacks, so they are built when asked for."""
    host_steps: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=HOST_STEPS))
    """Every marked step, also one without activity: `step host_start_ns host_dur_ns complete`."""
    _known: dict[str, pl.DataFrame] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    def remembered(self, name: str, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """Return what follows from the tables alone, made when it is first asked for."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def rows(self, name: str) -> int:
        """Return how many rows a table has, without reading a stored one."""
        tables: Any = self.tables
        if isinstance(tables, ChainMap):  # asked by its names, for `in` would read the table
            tables = next((m for m in tables.maps if name in {*m}), tables)
        counted = getattr(tables, "rows", None)
        return int(counted(name)) if counted else int(tables[name].height)

    @property
    def ranks(self) -> tuple[Trace, ...]:
        """Return this trace alone; the shape that analyses share with `Job`."""
        return (self,)

    @property
    def origin_ns(self) -> int:
        """Return the absolute time that the tables are relative to."""
        return self.meta.origin_ns

    @property
    def activities(self) -> pl.DataFrame:
        """Return everything that occupied a device."""
        return self.tables["activities"]

    @property
    def launches(self) -> pl.DataFrame:
        """Runtime and driver calls."""
        return self.tables["launches"]

    @property
    def ops(self) -> pl.DataFrame:
        """Framework operators on host threads."""
        return self.tables["ops"]

    @property
    def ranges(self) -> pl.DataFrame:
        """Annotations."""
        return self.tables["ranges"]

    @property
    def steps(self) -> pl.DataFrame:
        """Training steps by device."""
        return self.tables["steps"]

    @property
    def collectives(self) -> pl.DataFrame:
        """Collectives on this rank."""
        return self.tables["collectives"]

    @property
    def memory(self) -> pl.DataFrame:
        """Allocations and frees."""
        return self.tables["memory"]

    @property
    def segments(self) -> pl.DataFrame:
        """Memory that an allocator held from its device at the end."""
        return self.tables["segments"]

    @property
    def dependencies(self) -> pl.DataFrame:
        """Which operator of an execution graph comes after which."""
        return self.tables["dependencies"]

    @property
    def counters(self) -> pl.DataFrame:
        """Samples of counters."""
        return self.tables["counters"]

    @property
    def kernel_counters(self) -> pl.DataFrame:
        """Hardware counters of single kernels."""
        return self.tables["kernel_counters"]

    @property
    def problems(self) -> pl.DataFrame:
        """Faults met while reading."""
        return self.tables["problems"]

    @cached_property
    def frames(self) -> pl.DataFrame:
        """Python calls, built at the first use."""
        return self.build_frames() if self.build_frames else schema.empty("frames")

    def __repr__(self) -> str:
        """Say what it is in one line, without paths or times (notebook checks compare it)."""
        rank = "" if self.meta.rank is None else f", rank {self.meta.rank}"
        return (
            f"Trace({self.meta.format}, {self.meta.device_kind}{rank}, "
            f"{self.activities.height} activities, {self.ops.height} operators)"
        )


@dataclass(frozen=True)
class Job:
    """All ranks of one run: the same tables with a `rank` column, re-based to one origin."""

    ranks: tuple[Trace, ...]

    def __post_init__(self) -> None:
        """Refuse a job without ranks, and two traces of one rank."""
        if not self.ranks:
            raise UsageError("A job needs the trace of at least one rank; none was given.")
        numbers = [t.meta.rank for t in self.ranks]
        if None in numbers or len(set(numbers)) != len(numbers):
            files = ", ".join(t.meta.path.name for t in self.ranks)
            raise UsageError(
                f"A job needs one trace of each rank, and the ranks of {files} read as {numbers}; "
                "open the files one by one, or name them rank0…, rank1…."
            )

    @property
    def origin_ns(self) -> int:
        """Return the earliest origin of all ranks."""
        return min(t.meta.origin_ns for t in self.ranks)

    def table(self, name: str) -> pl.DataFrame:
        """Concatenate one table over ranks, with times relative to the job's origin."""
        parts = []
        for trace in self.ranks:
            frame = trace.frames if name == "frames" else trace.tables[name]
            shift = trace.meta.origin_ns - self.origin_ns
            times = [pl.col(c) + shift for c in frame.columns if c in schema.TIME_COLUMNS]
            rank = pl.lit(trace.meta.rank, pl.Int32()).alias("rank")
            parts.append(frame.with_columns(times).select(rank, pl.all()))
        if name == "problems":
            parts.append(clocks.problems(self.clock_offsets, self.clock_corrections))
        return pl.concat(parts)

    @cached_property
    def clock_offsets(self) -> pl.DataFrame:
        """Return how far each rank's clock is ahead of the lowest rank's; see `clocks.offsets`."""
        return clocks.offsets(self.ranks)

    @cached_property
    def clock_corrections(self) -> pl.DataFrame:
        """Return what waits take off recorded times; see `clocks.corrections`."""
        return clocks.corrections(self.ranks, self.clock_offsets)

    @cached_property
    def activities(self) -> pl.DataFrame:
        """Return everything that occupied a device, on all ranks."""
        return self.table("activities")

    @cached_property
    def launches(self) -> pl.DataFrame:
        """Runtime and driver calls, on all ranks."""
        return self.table("launches")

    @cached_property
    def ops(self) -> pl.DataFrame:
        """Framework operators, on all ranks."""
        return self.table("ops")

    @cached_property
    def ranges(self) -> pl.DataFrame:
        """Annotations, on all ranks."""
        return self.table("ranges")

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Training steps, on all ranks."""
        return self.table("steps")

    @cached_property
    def collectives(self) -> pl.DataFrame:
        """Collectives, on all ranks."""
        return self.table("collectives")

    @cached_property
    def frames(self) -> pl.DataFrame:
        """Python calls, on all ranks."""
        return self.table("frames")

    @cached_property
    def memory(self) -> pl.DataFrame:
        """Allocations and frees, on all ranks."""
        return self.table("memory")

    @cached_property
    def segments(self) -> pl.DataFrame:
        """Memory held from devices at the end, on all ranks."""
        return self.table("segments")

    @cached_property
    def dependencies(self) -> pl.DataFrame:
        """Which operator of an execution graph comes after which, on all ranks."""
        return self.table("dependencies")

    @cached_property
    def counters(self) -> pl.DataFrame:
        """Samples of counters, on all ranks."""
        return self.table("counters")

    @cached_property
    def kernel_counters(self) -> pl.DataFrame:
        """Hardware counters of single kernels, on all ranks."""
        return self.table("kernel_counters")

    @cached_property
    def problems(self) -> pl.DataFrame:
        """Faults met while reading, on all ranks."""
        return self.table("problems")

    def __repr__(self) -> str:
        """Say what it is in one line."""
        return f"Job({len(self.ranks)} ranks, {self.ranks[0]!r} …)"


class Source(Protocol):
    """What analyses take: a `Trace` or a `Job`."""

    @property
    def ranks(self) -> tuple[Trace, ...]:
        """Return the traces, one a rank."""
        ...

    @property
    def origin_ns(self) -> int:
        """Return the absolute time that results of an analysis are relative to."""
        ...
