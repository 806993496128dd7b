"""`read`: one rocprofv3 JSON file to a `Trace`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from workbench.trace import container, raw, schema
from workbench.trace.assemble import Threads, placed
from workbench.trace.attribution import attribute
from workbench.trace.core import Device, Trace, TraceMeta
from workbench.trace.jsontext import NOTHING, Raw, Record, many, one
from workbench.trace.problems import Problem
from workbench.trace.rocprof import records, tables

GPU = 2
API = ("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api")
"""Arrays of calls; all of one form."""
READ = {"kernel_dispatch", "memory_copy", "marker_api", *API}


def read(path: Path) -> Trace:
    """Read one file: kernels, copies, calls and markers of every process in it.

    Raises
    ------
    InputError
        The file is missing, cut short or not of this form; one sentence says which.
    """
    data = container.read(path)
    build = Builder()
    for number, process in enumerate(records.processes(data, str(path))):
        build.add(number, process)
    ready = placed(build.joined())
    fini = [p.fini_time for p in build.processes if p.fini_time is not None]
    meta = TraceMeta(
        path=path,
        format="rocprofv3",
        sha256=container.sha256(path),
        origin_ns=ready.origin_ns,
        threads=build.threads.list(),
        devices=tuple(build.devices.values()),
        producer={"fini_time": max(fini)} if fini else {},
        events=build.events,
        device_kind="rocm",
    )
    bare = raw.RawTrace(
        meta=meta,
        activities=ready.tables["activities"],
        launches=ready.tables["launches"],
        ops=ready.tables["ops"],
        ranges=ready.tables["ranges"],
        memory=raw.empty(raw.MEMORY),
        recording=ready.recording,
        accelerator=True,
        problems=[*build.problems(), *ready.problems],
    )
    return attribute(bare, partial(schema.empty, "frames"), reader="rocprofv3 JSON")


@dataclass
class Builder:
    """Collects the tables of all processes, and what in them could not be read."""

    threads: Threads = field(default_factory=Threads)
    devices: dict[int, Device] = field(default_factory=dict)
    processes: list[records.Metadata] = field(default_factory=list)
    events: int = 0
    bad: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    elsewhere: int = 0
    """Kernels and copies that ran on no GPU that the file describes."""
    parts: dict[str, list[pl.DataFrame]] = field(
        default_factory=lambda: {"activities": [], "launches": [], "ops": [], "ranges": []}
    )

    def add(self, number: int, process: records.Process) -> None:
        """Add one process's records."""
        about = one(process.metadata, records.Metadata) or records.Metadata()
        self.processes.append(about)
        strings = one(process.strings, records.Strings) or records.Strings()
        kinds = self._many("strings", strings.buffer_records, records.Kind)
        names = tables.Names(
            kinds,
            self._many("kernel_symbols", process.kernel_symbols, records.Symbol),
            {m.key: m.value for m in self._many("markers", strings.marker_api, records.Message)},
        )
        agents = self._agents(self._many("agents", process.agents, records.Agent))
        thread: Callable[[Sequence[int]], pl.Series] = partial(
            self.threads.of, number if about.pid is None else about.pid
        )
        arrays = process.buffer_records
        dispatches = self._timed("kernel_dispatch", arrays, records.Dispatch)
        copies = self._timed("memory_copy", arrays, records.Copy)
        for made in (
            tables.kernels(dispatches, names, agents),
            tables.copies(copies, names, agents),
        ):
            known = made.filter(pl.col("device").is_not_null())
            self.elsewhere += made.height - known.height
            self.parts["activities"].append(known.with_columns(process=pl.lit(number, pl.Int32())))
        for kind in API:
            calls = tables.calls(self._timed(kind, arrays, records.Timed), names, thread)
            self.parts["launches"].append(calls.with_columns(process=pl.lit(number, pl.Int32())))
        markers = self._timed("marker_api", arrays, records.Timed)
        self.parts["ranges"].append(tables.markers(markers, names, thread))
        for kind in arrays.keys() - READ:
            found, _ = many(arrays[kind], Raw)
            if found:
                self.unread[kind] = self.unread.get(kind, 0) + len(found)
                self.events += len(found)

    def _many(self, what: str, text: Raw, kind: type[Record]) -> list[Record]:
        found, bad = many(text, kind)
        if bad:
            self.bad[what] = self.bad.get(what, 0) + bad
        return found

    def _timed(self, what: str, arrays: dict[str, Raw], kind: type[Record]) -> list[Record]:
        found = self._many(what, arrays.get(what, NOTHING), kind)
        self.events += len(found)
        return found

    def _agents(self, agents: Sequence[records.Agent]) -> dict[int, int]:
        """Give each GPU the number that the tool gives it, or its place where there is none."""
        gpus = [a for a in agents if a.type == GPU]
        own = [a.logical_node_type_id for a in gpus]
        known = len(set(own)) == len(own) and all(0 <= n < 2**31 for n in own)
        numbers = own if known else range(len(gpus))
        for number, agent in zip(numbers, gpus, strict=True):
            shown = {"agent": agent.id.handle, "architecture": agent.name}
            self.devices.setdefault(number, Device(number, agent.product_name or None, shown))
        return {a.id.handle: n for n, a in zip(numbers, gpus, strict=True)}

    def joined(self) -> dict[str, pl.DataFrame]:
        """Return the bare tables of all processes together."""
        columns = {
            "activities": raw.ACTIVITIES,
            "launches": raw.LAUNCHES,
            "ops": raw.OPS,
            "ranges": raw.RANGES,
        }
        return {n: pl.concat([raw.empty(columns[n]), *parts]) for n, parts in self.parts.items()}

    def problems(self) -> list[Problem]:
        """Say what could not be read, and what is not read."""
        bad = [
            Problem("bad_record", count, what, "not of the usual form, so left out of every total")
            for what, count in self.bad.items()
        ]
        unread = [
            Problem("unread_records", count, kind, "records of this kind are in no table")
            for kind, count in sorted(self.unread.items())
        ]
        if self.elsewhere:
            effect = "they name no GPU that the file describes, so they are left out of every total"
            bad.append(Problem("unknown_agent", self.elsewhere, "a kernel or copy", effect))
        return bad + unread
