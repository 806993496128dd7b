"""What an analysis needs from a recording, and the sentence to say when it is not there.

An analysis names its needs in a module constant `NEEDS`; `unmet` says which of them a source lacks,
and `workbench show` prints that beside the rows. `analysis.trust` lists all of them for a source.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from workbench.analysis import calltree, compiled, hostwork
from workbench.trace.names import matching
from workbench.trace.schema import COPY_KINDS

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
    codes: tuple[str, ...] = ()
    """Problems of a recording whose effect says better why it is missing."""

    def why(self, trace: Trace) -> str:
        """Say in a sentence why a trace lacks it."""
        told = trace.problems.filter(pl.col("code").is_in(self.codes))["effect"]
        return "; ".join(told) or f"{self.missing}; {self.remedy}"


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


def _sized(trace: Trace) -> bool:
    """Say whether some copy has a size, or there is none to have one."""
    copies = trace.activities.filter(pl.col("kind").is_in(COPY_KINDS))
    return not copies.height or copies["bytes"].count() > 0


def _marked(rule: Callable[[str], bool]) -> Callable[[Trace], bool]:
    """Say whether an operator or annotation has a name of some kind."""

    def present(trace: Trace) -> bool:
        return any(matching(t["name"], rule).any() for t in (trace.ranges, trace.ops))

    return present


NEEDS: Mapping[str, Need] = {
    "activity": Need(
        lambda trace: trace.meta.timed and bool(trace.activities.height),
        "no device activity is recorded",
        "record with the device's activities on (ProfilerActivity.CUDA)",
    ),
    "accelerator": Need(
        lambda trace: (
            trace.meta.timed and trace.meta.device_kind != "cpu" and bool(trace.activities.height)
        ),
        "no accelerator is in the trace",
        "record on a machine with an accelerator",
    ),
    "launches": Need(
        _some("activities", "launch"),
        "no activity is tied to the call that launched it",
        "record with the runtime calls on (ProfilerActivity.CPU beside CUDA)",
    ),
    "calls": Need(
        lambda trace: bool(trace.launches.height),
        "no runtime calls are recorded",
        "record with the runtime calls on (ProfilerActivity.CPU beside CUDA)",
    ),
    "copy sizes": Need(
        _sized,
        "copies have no sizes, so their bandwidth is unknown",
        "record with a profiler that writes bytes",
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
    "module calls": Need(
        lambda trace: _some("ops", "module")(trace) or calltree.marked(trace),
        "modules are not recorded",
        "record with with_stack=True or with_modules=True, or mark them with NVTX ranges",
    ),
    "phases": Need(
        _some("activities", "phase"),
        "no activity is tied to the host position that launched it, so phases are unknown",
        "record with the operators and runtime calls on (ProfilerActivity.CPU beside CUDA)",
    ),
    "autograd numbers": Need(
        _some("ops", "sequence"),
        "no operator carries autograd's sequence number, so backward can't be told from forward",
        "record training steps with ProfilerActivity.CPU on",
    ),
    "compiled code": Need(
        compiled.present,
        "nothing that torch.compile made is recorded",
        "compile the model, and record with ProfilerActivity.CPU beside CUDA",
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
        ("no_memory_events", "history_not_enabled"),
    ),
    "segments": Need(
        lambda trace: bool(trace.segments.height),
        "the allocator's segments are not recorded",
        "take a snapshot with torch.cuda.memory._dump_snapshot(PATH)",
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
    "counters": Need(
        _some("kernel_counters", "value"),
        "no hardware counters of kernels are in it",
        "collect them with ncu --csv --page raw or rocprof-compute, and give the file with "
        "--counters",
    ),
    "occupancy": Need(
        _some("activities", "occupancy"),
        "kernels have no occupancy",
        "record with CUDA's profiler",
    ),
}


def unmet(source: Source, needs: tuple[str, ...]) -> list[str]:
    """Return a sentence for each need that no rank of the source meets.

    Where there is no accelerator, what else would be recorded of one is not asked for.
    """
    found: list[str] = []
    for name in needs:
        need = NEEDS[name]
        if not any(need.present(trace) for trace in source.ranks):
            found += dict.fromkeys(need.why(trace) for trace in source.ranks)
            if name == "accelerator":
                break
    return found


def of(module: str) -> tuple[str, ...]:
    """Return the needs that an analysis' module declares."""
    declared: tuple[str, ...] = getattr(importlib.import_module(module), "NEEDS", ())
    return declared
