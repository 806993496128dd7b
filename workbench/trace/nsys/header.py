"""What an export says beside its events: versions, session, devices."""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from workbench.trace.core import Device
from workbench.trace.sqlite import Database

KNOWN_MAJOR = 3
"""Exports declare major.minor.micro; a new major may change the meaning of what is there."""
_PAIRS = {"name": pl.String(), "value": pl.String()}
_TOLD = {
    "META_DATA_EXPORT": (
        "EXPORT_PRODUCT_NAME",
        "EXPORT_PRODUCT_VERSION",
        "EXPORT_SCHEMA_VERSION",
    ),
    "META_DATA_CAPTURE": ("CUDA_GRAPH_TRACE_OPTIONS:MODE",),
    "TARGET_INFO_SYSTEM_ENV": ("OsDescription", "NvDriverVersion", "CudaDriverVersion"),
}
"""What is kept of the thousand fields: neither hosts, users, paths nor environment variables."""
_GPU_NUMBERS = (
    "id", "cuDevice", "smCount", "totalMemory", "memoryBandwidth", "clockRate", "l2CacheSize",
    "maxShmemPerBlock", "maxShmemPerBlockOptin", "maxShmemPerSm", "maxRegistersPerBlock",
    "maxRegistersPerSm", "threadsPerWarp", "maxWarpsPerSm", "maxBlocksPerSm",
    "maxThreadsPerBlock", "asyncEngines", "computeMajor", "computeMinor",
)  # fmt: skip
_GPU = dict.fromkeys(_GPU_NUMBERS, pl.Int64()) | dict.fromkeys(
    ("name", "chipName", "busLocation", "uuid"), pl.String()
)
_CUDA_DEVICE = dict.fromkeys(("gpuId", "cudaId", "pid"), pl.Int64())


def producer(database: Database) -> dict[str, object]:
    """Return version fields by their own names; a schema newer than known is noted."""
    told: dict[str, object] = {}
    for table, names in _TOLD.items():
        rows = database.read(table, _PAIRS).drop_nulls()
        told |= {n: v for n, v in zip(rows["name"], rows["value"], strict=True) if n in names}
    version = str(told.get("EXPORT_SCHEMA_VERSION", ""))
    major = re.match(r"\d{1,9}", version)
    if major and int(major[0]) > KNOWN_MAJOR:
        database.tally.add(
            "newer_schema",
            1,
            f"schema {version}",
            f"newer than the known schema {KNOWN_MAJOR}: read as if it were that, which may miss "
            "or misread what is new",
        )
    return told


def base_ns(database: Database) -> int:
    """Return the absolute time of the export's zero; 0 where it isn't recorded."""
    export = database.read("META_DATA_EXPORT", _PAIRS).drop_nulls()
    told = dict(zip(export["name"], export["value"], strict=True))
    shift = str(told.get("EXPORT_PARAM_TIME_SHIFT", "0"))
    shifted = int(shift) if re.fullmatch(r"-?\d{1,18}", shift) else 0
    if told.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return -shifted
    start = database.read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": pl.Int64()})
    known = start["utcEpochNs"].drop_nulls()
    return (int(known[0]) if len(known) else 0) - shifted


class Numbering(NamedTuple):
    """How devices are numbered, and what is known of each."""

    devices: tuple[Device, ...]
    gpu_of: dict[tuple[int, int], int] | None
    """GPU by (pid, CUDA device), where processes number different GPUs alike; else None."""
    of_gpu: dict[int, int]
    """The number of a GPU of the machine, where it is known by another."""


def numbering(database: Database) -> Numbering:
    """Give devices CUDA's numbers, or the machine's where processes contradict each other.

    Each process numbers the devices that it may see from 0, so device 0 of two processes can be
    two GPUs; TARGET_INFO_CUDA_DEVICE, where it was recorded, tells.
    """
    gpus = database.read("TARGET_INFO_GPU", _GPU).filter(_is_index("id"))
    rows = database.read("TARGET_INFO_CUDA_DEVICE", _CUDA_DEVICE).drop_nulls()
    rows = rows.filter(_is_index("gpuId") & _is_index("cudaId"))
    pairs = rows.select("gpuId", "cudaId").unique()
    if pairs["cudaId"].is_duplicated().any() or pairs["gpuId"].is_duplicated().any():
        gpu_of = {(p, c): g for g, c, p in rows.select("gpuId", "cudaId", "pid").iter_rows()}
        return Numbering(_devices(gpus, {}), gpu_of, {})
    of_gpu = dict(pairs.iter_rows())
    if not of_gpu:
        known = gpus.filter(_is_index("cuDevice") & ~pl.col("cuDevice").is_duplicated())
        whole = known.height == gpus.height
        of_gpu = dict(known.select("id", "cuDevice").iter_rows()) if whole else {}
    return Numbering(_devices(gpus, of_gpu), None, of_gpu)


def _is_index(column: str) -> pl.Expr:
    return pl.col(column).is_between(0, 2**31 - 1)


def _devices(gpus: pl.DataFrame, of_gpu: dict[int, int]) -> tuple[Device, ...]:
    found: dict[int, Device] = {}
    for row in gpus.iter_rows(named=True):
        index = of_gpu.get(row["id"]) if of_gpu else row["id"]
        properties = {k: v for k, v in row.items() if v is not None}
        if index is not None and index not in found:
            found[index] = Device(index=index, name=row["name"], properties=properties)
    return tuple(found[i] for i in sorted(found))
