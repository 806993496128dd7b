"""What is known of a recording besides its events, renamed: threads, devices, groups, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workbench.redaction import pseudonyms as kinds
from workbench.redaction import vocabulary
from workbench.redaction.pseudonyms import Names
from workbench.trace.core import Device, ProcessGroup, Thread, Trace, TraceMeta

PRODUCER_FIELDS = frozenset(
    {
        "schemaVersion", "displayTimeUnit", "record_shapes", "profile_memory", "with_stack",
        "with_flops", "with_modules", "cuda_runtime_version", "cuda_driver_version",
        "cupti_version", "hip_runtime_version", "hip_driver_version", "roctracer_version",
        "generated", "CudaDriverVersion", "NvDriverVersion", "EXPORT_PRODUCT_NAME",
        "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "OsDescription", "schema",
    }
)  # fmt: skip
"""What a recording says of its making that goes along; where it was written is not among them."""
PROPERTIES = """
id agent architecture asyncEngines chipName clockRate clock_rate computeMajor computeMinor
compute_cap_major compute_cap_minor compute_partition core_count cuDevice cu_per_gpu
device_vendor gpu_arch gpu_model hbmBwHigh hbm_bw l2CacheSize maxBlocksPerSm maxGridHeight
maxGridWidth maxRegistersPerBlock maxRegistersPerSm maxSharedMemoryPerMultiProcessor
maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxThreadsPerBlock
maxThreadsPerMultiprocessor maxWarpsPerSm max_mclk max_sclk memoryBandwidth memory_bandwidth
memory_partition memory_size numSms num_xcd regsPerBlock regsPerMultiprocessor
runtimeMajorVersion runtimeMinorVersion sharedMemPerBlock sharedMemPerBlockOptin
sharedMemPerMultiprocessor smCount threadsPerWarp totalGlobalMem totalMemory total_l2_chan
warpSize wave_size FP32Flops FP32FlopsHigh FP32FlopsLow FP64Flops FP64FlopsHigh FP64FlopsLow
HBMBw HBMBwHigh HBMBwLow L1Bw L1BwHigh L1BwLow L2Bw L2BwHigh L2BwLow LDSBw LDSBwHigh LDSBwLow
MFMABF16Flops MFMABF16FlopsHigh MFMABF16FlopsLow MFMAF16Flops MFMAF16FlopsHigh MFMAF16FlopsLow
MFMAF32Flops MFMAF32FlopsHigh MFMAF32FlopsLow MFMAF64Flops MFMAF64FlopsHigh MFMAF64FlopsLow
MFMAFI8OpsLow MFMAI8Ops MFMAI8OpsHigh
"""
"""Properties of a device that belong to its kind: no uuid, no place in the machine."""
_PROPERTIES = frozenset(PROPERTIES.split())


def redacted(meta: TraceMeta, ordinals: Mapping[str, int], names: Names) -> TraceMeta:
    """Return the metadata of a copy; `ordinals` number threads' ids that are text."""
    reason = meta.device_reason
    return replace(
        meta,
        path=Path("redacted"),  # a copy may be renamed, so it does not know its name
        format=names.one(kinds.PHRASE, meta.format),
        sha256=names.key.digest(meta.sha256),
        threads=tuple(_thread(t, ordinals, names) for t in meta.threads),
        devices=tuple(_device(d, names) for d in meta.devices),
        groups=tuple(_group(g, names) for g in meta.groups),
        producer=_producer(meta.producer),
        device_kind=names.one(kinds.PHRASE, meta.device_kind),
        device_reason=None if reason is None else names.one(kinds.PHRASE, reason),
        windows=(),
    )


def thread_ids(traces: Sequence[Trace]) -> dict[str, int]:
    """Return numbers for the ids of threads and processes that are text, in order, over all ranks.

    Readers number threads by the order of these ids, so what stands for them must keep it.
    """
    ids = (i for t in traces for thread in t.meta.threads for i in (thread.pid, thread.tid))
    texts = sorted({i for i in ids if isinstance(i, str)})
    return {text: number for number, text in enumerate(texts)}


def _thread(thread: Thread, ordinals: Mapping[str, int], names: Names) -> Thread:
    name = None if thread.name is None else names.one(kinds.THREAD, thread.name)
    return Thread(_id(thread.pid, ordinals, names), _id(thread.tid, ordinals, names), name)


def _id(value: int | str, ordinals: Mapping[str, int], names: Names) -> int | str:
    if isinstance(value, int):
        return value
    return f"{ordinals[value]:06d} {names.one(kinds.THREAD, value)}"


def _device(device: Device, names: Names) -> Device:
    name = None if device.name is None else names.one(kinds.PRODUCT, device.name)
    known = {k: v for k, v in device.properties.items() if k in _PROPERTIES and _is_plain(v)}
    return Device(device.index, name, known)


def _is_plain(value: object) -> bool:
    """Say whether a property is a number or the name of a product."""
    if isinstance(value, str):
        return vocabulary.is_literal(value) or vocabulary.is_product(value)
    return isinstance(value, int | float)


def _group(group: ProcessGroup, names: Names) -> ProcessGroup:
    about = group.description
    return ProcessGroup(
        names.one(kinds.GROUP, group.name),
        None if about is None else names.one(kinds.GROUP_TEXT, about),
        group.ranks,
    )


def _producer(fields: Mapping[str, object]) -> dict[str, object]:
    return {k: v for k, v in fields.items() if k in PRODUCER_FIELDS and _is_told(v)}


def _is_told(value: object) -> bool:
    if isinstance(value, str):
        return vocabulary.is_phrase(value) or vocabulary.is_version(value)
    return isinstance(value, int | float)
