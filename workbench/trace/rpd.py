"""rocmProfileData (`.rpd`): calls, what they ran on GPUs, and roctx ranges, in one SQLite file.

Source of the schema: ROCm/rocmProfileData, `rocpd_python` and `tools/rpd2tracing.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from workbench.errors import InputError
from workbench.trace import container, emitted, raw, schema, sqlite
from workbench.trace.attribution import attribute
from workbench.trace.core import Device, Thread, Trace, TraceMeta
from workbench.trace.records import counted, durations, settle, shaped
from workbench.trace.sqlite import Database

OWN = ("rocpd_op", "rocpd_api")
"""Tables that mark a file as RPD; all others may be absent."""
MARKER = "UserMarker"
"""The call that stands for a roctx range, or, without a duration, for a roctx mark."""
UNNAMED = "(unnamed)"
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("copy", re.compile(r"^(Copy|Memcpy|ReadBuffer|WriteBuffer)", re.IGNORECASE)),
    ("set", re.compile(r"^(Fill|Memset)", re.IGNORECASE)),
    ("kernel", re.compile(r"^(Kernel|Dispatch|Task)", re.IGNORECASE)),
)
"""Operation types by their beginning; markers and barriers only annotate."""
_IN_THREADS = re.compile(r"^hip(Ext|Hcc)ModuleLaunchKernel")
"""Calls that take the grid in threads (globalWorkSize); all others take it in blocks."""


def _ints(*names: str) -> dict[str, pl.DataType]:
    return dict.fromkeys(names, pl.Int64())


def read(path: Path) -> Trace:
    """Read one RPD file: every table, attributed and checked.

    Raises
    ------
    InputError
        The file can't be opened, or is so damaged that nothing of it reads.
    """
    with sqlite.opened(path) as database:
        bare = _raw_trace(database, path)
    return attribute(bare, lambda: schema.empty("frames"), reader="rocm RPD")


def _raw_trace(database: Database, path: Path) -> raw.RawTrace:
    texts = database.read("rocpd_string", _ints("id") | {"string": pl.String()})
    texts = texts.unique("id", keep="first")
    calls = _calls(database, texts)
    threads = calls.select("pid", "tid").unique(maintain_order=True).with_row_index("thread")
    calls = calls.join(
        threads, on=["pid", "tid"], how="left", nulls_equal=True, maintain_order="left"
    )
    is_marker = pl.col("name") == MARKER
    ops, ranges = emitted.split(_ranges(calls.filter(is_marker)))
    tables = {
        "activities": _activities(database, texts, calls),
        "launches": shaped(raw.LAUNCHES, calls.filter(~is_marker)),
        "ops": ops,
        "ranges": ranges,
        "counters": _counters(database),
    }
    count = sum(f.height for f in tables.values())
    settled = settle(tables, database.tally)
    if not count and database.partial:
        raise InputError(f"{path} is damaged: none of its events can be read; record it again.")
    meta = TraceMeta(
        path=path,
        format="rocm-rpd",
        sha256=container.sha256(path),
        origin_ns=settled.first_ns,
        threads=tuple(Thread(pid=p or 0, tid=t or 0) for _, p, t in threads.iter_rows()),
        devices=_devices(tables["activities"]),
        producer=_producer(database),
        events=count,
        truncated=database.partial,
        device_kind="rocm",
    )
    return raw.RawTrace(
        meta=meta,
        **settled.tables,
        memory=raw.empty(raw.MEMORY),
        recording=settled.recording,
        accelerator=True,
        unread_accelerator=None,
        problems=database.tally.problems(),
    )


def _text(texts: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """Return the text of each id; an empty one is none."""
    found = pl.DataFrame({"id": ids}).join(texts, on="id", how="left", maintain_order="left")
    return found.select(pl.col("string").replace("", None)).to_series()


def _calls(database: Database, texts: pl.DataFrame) -> pl.DataFrame:
    """Return every row of `rocpd_api`; its id is the correlation of what it ran."""
    rows = database.read(
        "rocpd_api", _ints("id", "pid", "tid", "start", "end", "apiName_id", "args_id")
    )
    return rows.with_columns(
        _text(texts, rows["apiName_id"]).fill_null(UNNAMED).alias("name"),
        _text(texts, rows["args_id"]).alias("args"),
        durations().alias("dur_ns"),
        counted("id", least=1).alias("correlation"),
        start_ns="start",
    )


def _ranges(markers: pl.DataFrame) -> pl.DataFrame:
    name = markers["args"].fill_null(UNNAMED)
    form = pl.when(pl.col("dur_ns") == 0).then(pl.lit("mark")).otherwise(pl.lit("nested"))
    return markers.with_columns(
        name=name,
        domain=pl.lit(None, pl.String),
        form=form,
        process="pid",
    )


def _activities(database: Database, texts: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    rows = database.read(
        "rocpd_op", _ints("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
    )
    sort = _text(texts, rows["opType_id"])
    name = _text(texts, rows["description_id"]).fill_null(sort).fill_null(UNNAMED)
    kinds = {s: _kind(s) for s in sort.unique().drop_nulls()}
    rows = rows.with_columns(
        name=name,
        kind=sort.replace_strict(kinds, default=None, return_dtype=pl.String),
        sort=sort,
    )
    unread = rows.filter(pl.col("kind").is_null())
    database.tally.add(
        "unread_operation",
        unread.height,
        f"rocpd_op: {unread['sort'][0]}" if unread.height else "",
        "operations of this type only annotate, or are unknown, and are in no total",
    )
    rows = rows.drop_nulls("kind")
    return shaped(raw.ACTIVITIES, _with_call(database, rows, calls), database.tally)


def _kind(operation: str) -> str | None:
    return next((kind for kind, rule in _KINDS if rule.search(operation)), None)


def _with_call(database: Database, rows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Add what the calls say of their operations: correlation, sizes, bytes."""
    links = database.read("rocpd_api_ops", _ints("api_id", "op_id")).drop_nulls()
    links = links.unique("op_id", keep="first", maintain_order=True)
    rows = rows.join(links, left_on="id", right_on="op_id", how="left", maintain_order="left")
    copied = database.read("rocpd_copyapi", _ints("api_ptr_id", "size")).drop_nulls()
    rows = _joined(rows, copied).with_columns(
        bytes=pl.when(pl.col("kind") == "copy").then(counted("size"))
    )
    rows = _joined(rows, _launched(database, calls)).with_columns(
        pl.when(pl.col("kind").is_in(["kernel", "collective"])).then(pl.col(c)).alias(c)
        for c in ("grid", "block", "shared_bytes")
    )
    return rows.with_columns(
        counted("gpuId").alias("device"),
        counted("queueId").alias("stream"),
        counted("api_id", least=1).alias("correlation"),
        durations().alias("dur_ns"),
        start_ns="start",
    )


def _joined(rows: pl.DataFrame, of_call: pl.DataFrame) -> pl.DataFrame:
    of_call = of_call.unique("api_ptr_id", keep="first")
    return rows.join(
        of_call, left_on="api_id", right_on="api_ptr_id", how="left", maintain_order="left"
    )


def _launched(database: Database, calls: pl.DataFrame) -> pl.DataFrame:
    """Return grid, block and shared memory by launching call."""
    grid, block = ("gridX", "gridY", "gridZ"), ("workgroupX", "workgroupY", "workgroupZ")
    rows = database.read("rocpd_kernelapi", _ints("api_ptr_id", *grid, *block, "groupSegmentSize"))
    names = calls.select(pl.col("id").alias("api_ptr_id"), "name").drop_nulls()
    rows = rows.join(names.unique("api_ptr_id"), on="api_ptr_id", how="left")
    in_threads = [n for n in calls["name"].unique() if _IN_THREADS.search(n)]
    blocks = [
        pl.when(pl.col("name").is_in(in_threads))
        .then(-(-pl.col(g) // pl.col(b)))
        .otherwise(pl.col(g))
        .alias(g)
        for g, b in zip(grid, block, strict=True)
    ]
    sizes = [pl.col(c).is_between(1, 2**31 - 1) for c in (*grid, *block)]
    rows = rows.filter(*sizes).with_columns(blocks)
    return rows.select(
        "api_ptr_id",
        pl.concat_arr(pl.col(grid).cast(pl.Int32)).alias("grid"),
        pl.concat_arr(pl.col(block).cast(pl.Int32)).alias("block"),
        counted("groupSegmentSize").alias("shared_bytes"),
    )


def _counters(database: Database) -> pl.DataFrame:
    """Return what was monitored; a value holds from its time until the next."""
    rows = database.read(
        "rocpd_monitor",
        _ints("deviceId", "start")
        | {"deviceType": pl.String(), "monitorType": pl.String(), "value": pl.Float64()},
    )
    on_gpu = pl.col("deviceType").str.to_lowercase() == "gpu"
    rows = rows.drop_nulls(["start", "monitorType", "value"]).with_columns(
        t_ns="start", name="monitorType", device=pl.when(on_gpu).then(counted("deviceId"))
    )
    return shaped(raw.COUNTERS, rows)


def _devices(activities: pl.DataFrame) -> tuple[Device, ...]:
    numbers = activities["device"].drop_nulls().unique().sort()
    return tuple(Device(index=i, name=None) for i in numbers.to_list())


def _producer(database: Database) -> dict[str, object]:
    rows = database.read("rocpd_metadata", {"tag": pl.String(), "value": pl.String()})
    told = dict(rows.drop_nulls().iter_rows())
    return {k: told[k] for k in ("schema_version", "session_count") if k in told}
