"""What ran on devices: kernels, copies, sets, and CUDA graphs that were recorded whole."""

from __future__ import annotations

import polars as pl

from workbench.trace import raw
from workbench.trace.nsys.ids import UNNAMED, Texts
from workbench.trace.problems import Tally
from workbench.trace.records import counted, durations, shaped
from workbench.trace.sqlite import Database

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPY_KINDS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP", 11: "Unified HtoD", 12: "Unified DtoH", 13: "Unified DtoD",
}  # fmt: skip
"""The export's ENUM_CUDA_MEMCPY_OPER; unified memory's migrations are copies too."""
MEMORY_KINDS = (
    "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static",
)  # fmt: skip
"""The export's ENUM_CUDA_MEM_KIND."""
_OTHER_NAMES = ("shortName", "mangledName")
_GRID, _BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
_SHARED = ("staticSharedMemory", "dynamicSharedMemory")


def _columns(*more: str) -> dict[str, pl.DataType]:
    place = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId")
    return dict.fromkeys((*place, *more), pl.Int64())


def activities(database: Database, texts: Texts) -> pl.DataFrame:
    """Return everything that occupied a device, with `globalPid`; times as recorded."""
    own = pl.concat([_kernels(database, texts), _copies(database), _sets(database)])
    return pl.concat([own, _graphs(database, own)])


def _kernels(database: Database, texts: Texts) -> pl.DataFrame:
    rows = database.read(
        KERNEL, _columns("demangledName", "registersPerThread", *_SHARED, *_GRID, *_BLOCK)
    )
    name = texts.of(rows["demangledName"])
    if name.null_count():
        others = database.read(KERNEL, dict.fromkeys(_OTHER_NAMES, pl.Int64()))
        for other in _OTHER_NAMES:
            name = name.fill_null(texts.of(others[other]))
    return _activities(
        rows.with_columns(
            _triple(_GRID).alias("grid"),
            _triple(_BLOCK).alias("block"),
            counted("registersPerThread").alias("registers"),
            name=name,
            kind=pl.lit("kernel"),
            shared_bytes=pl.sum_horizontal(_SHARED, ignore_nulls=False),
        ),
        database.tally,
    )


def _copies(database: Database) -> pl.DataFrame:
    rows = database.read(MEMCPY, _columns("bytes", "copyKind", "srcKind", "dstKind"))
    kind = pl.col("copyKind").replace_strict(COPY_KINDS, default=None, return_dtype=pl.String)
    ends = pl.concat_str(
        pl.lit(" ("), _memory("srcKind"), pl.lit(" -> "), _memory("dstKind"), pl.lit(")")
    )
    name = pl.concat_str(pl.lit("Memcpy"), (pl.lit(" ") + kind).fill_null(""), ends.fill_null(""))
    return _activities(
        rows.with_columns(counted("bytes"), name=name, kind=pl.lit("copy")), database.tally
    )


def _sets(database: Database) -> pl.DataFrame:
    rows = database.read(MEMSET, _columns("bytes", "memKind"))
    where = pl.concat_str(pl.lit("Memset ("), _memory("memKind"), pl.lit(")"))
    return _activities(
        rows.with_columns(counted("bytes"), name=where.fill_null("Memset"), kind=pl.lit("set")),
        database.tally,
    )


def _graphs(database: Database, own: pl.DataFrame) -> pl.DataFrame:
    """Return launches of CUDA graphs that were recorded as one stretch each.

    Nsight Systems does so unless told `--cuda-graph-trace=node`. The device was at work all that
    time, so it counts as busy, as one kernel; a launch whose nodes are recorded isn't repeated.
    """
    rows = database.read(GRAPH, _columns("graphId"))
    nodes = own.select("globalPid", correlationId="correlation").drop_nulls().unique()
    rows = rows.join(nodes, on=["globalPid", "correlationId"], how="anti", maintain_order="left")
    database.tally.add(
        "graph_as_one",
        rows.height,
        f"{GRAPH}: start {rows['start'][0]}" if rows.height else "",
        "a launch of a CUDA graph was recorded as one stretch and counts as one kernel; what ran "
        "in it is unknown (record with --cuda-graph-trace=node)",
    )
    number = pl.concat_str(pl.lit("CUDA graph "), pl.col("graphId")).fill_null("CUDA graph")
    return _activities(rows.with_columns(name=number, kind=pl.lit("kernel")), database.tally)


def _memory(column: str) -> pl.Expr:
    """Name a kind of memory, null where none is recorded."""
    kinds = dict(enumerate(MEMORY_KINDS))
    name = pl.col(column).replace_strict(kinds, default="Unknown", return_dtype=pl.String)
    return pl.when(pl.col(column).is_not_null()).then(name)


def _triple(names: tuple[str, ...]) -> pl.Expr:
    """Return three sizes as one value, null unless all are recorded."""
    sizes = pl.col(*names).cast(pl.Int32, strict=False)
    known = pl.all_horizontal(pl.col(*names).is_between(0, 2**31 - 1))
    return pl.when(known).then(pl.concat_arr(sizes))


def _activities(rows: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    rows = rows.with_columns(
        durations().alias("dur_ns"),
        pl.col("name").fill_null(UNNAMED),
        counted("deviceId").alias("device"),
        counted("streamId").alias("stream"),
        counted("correlationId", least=1).alias("correlation"),
        counted("graphNodeId").alias("graph_node"),
        start_ns="start",
    )
    return shaped(raw.ACTIVITIES | {"globalPid": pl.Int64()}, rows, tally)
