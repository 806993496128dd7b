"""What an analysis needs from a recording, and the sentence to say when it is not there.

An analysis names its needs in a module constant `NEEDS`; `unmet` says which of them a source lacks,
and `workbench show` prints that beside the rows. `analysis.trust` lists all of them for a source.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from workbench.analysis import hostwork
from workbench.trace.names import matching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.trace.core import Source, Trace


class Need(NamedTuple):
    """One thing that a recording may hold."""

    present: Callable[[Trace], bool]
    missing: str
    """What is not there."""
    remedy: str
    """How to record it."""


def _some(table: str, column: str) -> Callable[[Trace], bool]:
    """Say whether a column of a table holds any value."""

    def present(trace: Trace) -> bool:
        values = trace.tables[table][column]
        return values.null_count() < len(values)

    return present


def _domain(*domains: str) -> Callable[[Trace], bool]:
    """Say whether there is an annotation of one of these domains."""

    def present(trace: Trace) -> bool:
        return bool(trace.ranges["domain"].cast(pl.String).is_in(domains).any())

    return present


def _marked(rule: Callable[[str], bool]) -> Callable[[Trace], bool]:
    """Say whether an operator or annotation has a name of some kind."""

    def present(trace: Trace) -> bool:
        return any(matching(t["name"], rule).any() for t in (trace.ranges, trace.ops))

    return present


NEEDS: Mapping[str, Need] = {
    "activity": Need(
        lambda trace: bool(trace.activities.height),
        "no device activity is recorded",
        "record with the device's activities on (ProfilerActivity.CUDA)",
    ),
    "accelerator": Need(
        lambda trace: trace.meta.device_kind != "cpu" and bool(trace.activities.height),
        "no accelerator is in the trace",
        "record on a machine with an accelerator",
    ),
    "launches": Need(
        _some("activities", "launch"),
        "no activity is tied to the call that launched it",
        "record with the runtime calls on (ProfilerActivity.CPU beside CUDA)",
    ),
    "ops": Need(
        lambda trace: bool(trace.ops.height),
        "no operators are recorded",
        "record with ProfilerActivity.CPU on",
    ),
    "shapes": Need(
        _some("ops", "input_dims"),
        "operators have no shapes",
        "record with record_shapes=True",
    ),
    "modules": Need(
        _some("ops", "module"),
        "modules are not recorded",
        "record with with_stack=True or with_modules=True",
    ),
    "frames": Need(
        lambda trace: bool(trace.frames.height),
        "Python calls are not recorded",
        "record with with_stack=True",
    ),
    "steps": Need(
        lambda trace: bool(trace.steps["complete"].any()),
        "no complete step is marked",
        "call profiler.step() once a step and record at least two steps",
    ),
    "waits": Need(
        _domain("cuda_sync"),
        "waits of streams on events are not recorded",
        "record with _ExperimentalConfig(enable_cuda_sync_events=True)",
    ),
    "collectives": Need(
        lambda trace: bool(trace.collectives.height),
        "no collective is recorded",
        "record a distributed run",
    ),
    "sequence numbers": Need(
        _some("collectives", "seq"),
        "collectives have no sequence numbers, so those of several ranks can't be matched",
        "record with a PyTorch of 2.4 or newer and NCCL",
    ),
    "memory": Need(
        lambda trace: bool(trace.memory.height),
        "no memory events are recorded",
        "record with profile_memory=True",
    ),
    "segments": Need(
        lambda trace: bool(trace.segments.height),
        "the allocator's segments are not recorded",
        "take a snapshot with torch.cuda.memory._snapshot()",
    ),
    "grid": Need(
        _some("activities", "grid"),
        "kernels have no grid and block sizes",
        "record with a profiler that writes launch parameters",
    ),
    "causes of idle time": Need(
        lambda trace: trace.meta.device_kind == "cpu" or bool(trace.activities["launch"].count()),
        "no activity is tied to the call that launched it, so no idle time has a cause",
        "record with the runtime calls on (ProfilerActivity.CPU beside CUDA)",
    ),
    "data loading": Need(
        _marked(hostwork.is_data_loading),
        "no data loading is marked",
        "iterate over a torch DataLoader while the profiler runs",
    ),
    "garbage collections": Need(
        lambda trace: (
            _marked(hostwork.is_collection)(trace)
            or bool(matching(trace.frames["name"], hostwork.is_collection).any())
        ),
        "no garbage collection is recorded",
        "record with with_stack=True, or annotate gc.collect()",
    ),
    "occupancy": Need(
        _some("activities", "occupancy"),
        "kernels have no occupancy",
        "record with CUDA's profiler",
    ),
}


def unmet(source: Source, needs: tuple[str, ...]) -> list[str]:
    """Return a sentence for each need that no rank of the source meets."""
    found = []
    for name in needs:
        need = NEEDS[name]
        if not any(need.present(trace) for trace in source.ranks):
            found.append(f"{need.missing}; {need.remedy}")
    return found


def of(module: str) -> tuple[str, ...]:
    """Return the needs that an analysis' module declares."""
    declared: tuple[str, ...] = getattr(importlib.import_module(module), "NEEDS", ())
    return declared
