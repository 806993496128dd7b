"""`read`: an SQLite export of Nsight Systems to a `Trace`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from workbench.errors import InputError
from workbench.trace import container, emitted, raw, schema, sqlite
from workbench.trace.attribution import attribute
from workbench.trace.core import Trace, TraceMeta
from workbench.trace.nsys import calls, device, header, metrics, nvtx
from workbench.trace.nsys.ids import TID_BITS, Hosts, Texts, thread_names
from workbench.trace.records import Settled, settle, shaped
from workbench.trace.sqlite import Database

OWN = ("StringIds", "META_DATA_EXPORT", "TARGET_INFO_GPU")
"""Tables that mark a file as an export of Nsight Systems; all others may be absent."""
_PID_BITS = (1 << 24) - 1


def read(path: Path) -> Trace:
    """Read one export: every table, attributed and checked.

    Raises
    ------
    InputError
        The file can't be opened, or is so damaged that nothing of it reads.
    """
    with sqlite.opened(path) as database:
        bare = _raw_trace(database, path)
    return attribute(bare, lambda: schema.empty("frames"), reader="Nsight Systems SQLite")


def _raw_trace(database: Database, path: Path) -> raw.RawTrace:
    texts = Texts(database)
    activities = device.activities(database, texts)
    launches = calls.calls(database, texts)
    ranges = nvtx.marked(database, texts)
    hosts = Hosts(pl.concat([launches["globalTid"], ranges["globalTid"]]))
    numbers = header.numbering(database)
    ops, rest = emitted.split(_placed(ranges, hosts))
    tables = {
        "activities": _on_devices(database, activities, hosts, numbers),
        "launches": shaped(raw.LAUNCHES, _placed(launches, hosts)),
        "ops": ops,
        "ranges": rest,
        "counters": metrics.counters(database, numbers.of_gpu),
    }
    count = sum(f.height for f in tables.values())
    settled = settle(tables, database.tally)
    _note_absent(database, settled)
    if not count and database.partial:
        raise InputError(f"{path} is damaged: none of its events can be read; export it again.")
    meta = TraceMeta(
        path=path,
        format="nsight-systems",
        sha256=container.sha256(path),
        origin_ns=header.base_ns(database) + settled.first_ns,
        threads=hosts.list(thread_names(database, texts)),
        devices=numbers.devices,
        producer=header.producer(database),
        events=count,
        truncated=database.partial,
        device_kind="cuda",
    )
    return raw.RawTrace(
        meta=meta,
        **settled.tables,
        memory=raw.empty(raw.MEMORY),
        recording=settled.recording,
        accelerator=_has_accelerator(database, numbers),
        unread_accelerator=None,
        problems=database.tally.problems(),
    )


def _placed(rows: pl.DataFrame, hosts: Hosts) -> pl.DataFrame:
    """Turn global thread ids into threads and processes."""
    return rows.with_columns(
        hosts.thread(rows["globalTid"]).alias("thread"),
        hosts.process(rows["globalTid"].fill_null(0)).alias("process"),
    )


def _on_devices(
    database: Database, rows: pl.DataFrame, hosts: Hosts, numbers: header.Numbering
) -> pl.DataFrame:
    """Give the activities their processes, and their devices where processes disagree."""
    pid = (pl.col("globalPid") // (1 << TID_BITS)) & _PID_BITS
    rows = rows.with_columns(hosts.process(rows["globalPid"]).alias("process"), pid.alias("pid"))
    if numbers.gpu_of is not None:
        of_gpu = pl.DataFrame(
            [(p, c, g) for (p, c), g in numbers.gpu_of.items()],
            schema={"pid": pl.Int64, "device": pl.Int32, "gpu": pl.Int32},
            orient="row",
        )
        rows = rows.join(of_gpu, on=["pid", "device"], how="left", maintain_order="left")
        rows = rows.with_columns(pl.coalesce("gpu", "device").alias("device"))
    elif len(numbers.devices) > 1 and not database.has("TARGET_INFO_CUDA_DEVICE"):
        _note_ambiguous(database, rows)
    return shaped(raw.ACTIVITIES, rows, database.tally)


def _note_ambiguous(database: Database, rows: pl.DataFrame) -> None:
    shared = (
        rows.group_by("device")
        .agg(processes=pl.col("pid").n_unique())
        .filter(pl.col("processes") > 1)
    ).sort("device")
    database.tally.add(
        "ambiguous_device",
        shared.height,
        f"device {shared['device'][0]}" if shared.height else "",
        "several processes use a device of this number, and whether it is one GPU was not "
        "recorded; it counts as one",
    )


def _has_accelerator(database: Database, numbers: header.Numbering) -> bool:
    cupti = any(t.startswith("CUPTI_ACTIVITY_KIND_") for t in database.tables)
    return cupti or bool(numbers.devices)


def _note_absent(database: Database, settled: Settled) -> None:
    """Say that there are no kernels or no annotations, which most questions are about."""
    kernels = settled.tables["activities"].filter(pl.col("kind").is_in(["kernel", "collective"]))
    annotated = settled.tables["ranges"].height + settled.tables["ops"].height
    database.tally.add(
        "no_kernels",
        int(not kernels.height),
        f"{device.KERNEL} is {'empty' if device.KERNEL in database.tables else 'absent'}",
        "no GPU kernels in this export",
    )
    database.tally.add(
        "no_annotations",
        int(not annotated),
        f"{nvtx.EVENTS} is {'empty' if nvtx.EVENTS in database.tables else 'absent'}",
        "no annotations captured: operators, ranges and steps are unknown",
    )
