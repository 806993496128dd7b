"""Workbench: performance analysis of AI training, in a notebook.

`import workbench as wb`; every public name loads its module when it is first used, so that the
import itself stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from workbench.version import __version__

if TYPE_CHECKING:
    from workbench.analysis.allocator import allocator, allocator_causes
    from workbench.analysis.breakdown import breakdown
    from workbench.analysis.collectives import collectives
    from workbench.analysis.compare import compare
    from workbench.analysis.copies import copies
    from workbench.analysis.counter_roofline import counter_roofline
    from workbench.analysis.counters import counters
    from workbench.analysis.coverage import coverage
    from workbench.analysis.data_wait import input_wait
    from workbench.analysis.definitions import definitions
    from workbench.analysis.energy import energy
    from workbench.analysis.fragmentation import fragmentation
    from workbench.analysis.frames import frames
    from workbench.analysis.garbage import gc
    from workbench.analysis.groups import groups
    from workbench.analysis.idle import idle, idle_causes
    from workbench.analysis.kernels import kernels
    from workbench.analysis.launches import delays, launches
    from workbench.analysis.leads import leads
    from workbench.analysis.memory import memory
    from workbench.analysis.memory_peak import memory_peak
    from workbench.analysis.memory_timeline import memory_timeline
    from workbench.analysis.mfu import mfu
    from workbench.analysis.modules import modules
    from workbench.analysis.only import Only
    from workbench.analysis.op_tree import op_tree
    from workbench.analysis.ops import ops
    from workbench.analysis.overlap import exposed, overlap
    from workbench.analysis.phases import phases
    from workbench.analysis.queue import queue, queue_depth
    from workbench.analysis.recompute import recompute
    from workbench.analysis.recoverable import recoverable
    from workbench.analysis.regions import regions
    from workbench.analysis.roofline import roofline
    from workbench.analysis.sequences import sequences
    from workbench.analysis.step_times import step_times
    from workbench.analysis.steps import steps
    from workbench.analysis.summary import summary
    from workbench.analysis.syncs import sync_calls, syncs
    from workbench.analysis.trust import trust
    from workbench.analysis.waterfall import waterfall, waterfall_mean
    from workbench.capture import CapturePlan, Run, Sweep, record, sweep
    from workbench.noting.frame import notes
    from workbench.panels.explorer import Explorer
    from workbench.panels.launcher import Launcher
    from workbench.redaction import redact
    from workbench.trace.core import Job, Trace
    from workbench.trace.open import open_source as open  # noqa: A004 - wb.open is its name
    from workbench.views.saving import save_view
    from workbench.views.timeline import Timeline

_HOME = {
    "CapturePlan": "workbench.capture",
    "Explorer": "workbench.panels.explorer",
    "Job": "workbench.trace.core",
    "Launcher": "workbench.panels.launcher",
    "Only": "workbench.analysis.only",
    "Run": "workbench.capture",
    "Sweep": "workbench.capture",
    "Timeline": "workbench.views.timeline",
    "Trace": "workbench.trace.core",
    "allocator": "workbench.analysis.allocator",
    "allocator_causes": "workbench.analysis.allocator",
    "breakdown": "workbench.analysis.breakdown",
    "collectives": "workbench.analysis.collectives",
    "compare": "workbench.analysis.compare",
    "copies": "workbench.analysis.copies",
    "coverage": "workbench.analysis.coverage",
    "counter_roofline": "workbench.analysis.counter_roofline",
    "counters": "workbench.analysis.counters",
    "definitions": "workbench.analysis.definitions",
    "delays": "workbench.analysis.launches",
    "energy": "workbench.analysis.energy",
    "exposed": "workbench.analysis.overlap",
    "fragmentation": "workbench.analysis.fragmentation",
    "frames": "workbench.analysis.frames",
    "gc": "workbench.analysis.garbage",
    "groups": "workbench.analysis.groups",
    "idle": "workbench.analysis.idle",
    "idle_causes": "workbench.analysis.idle",
    "input_wait": "workbench.analysis.data_wait",
    "kernels": "workbench.analysis.kernels",
    "launches": "workbench.analysis.launches",
    "leads": "workbench.analysis.leads",
    "memory": "workbench.analysis.memory",
    "memory_peak": "workbench.analysis.memory_peak",
    "memory_timeline": "workbench.analysis.memory_timeline",
    "mfu": "workbench.analysis.mfu",
    "modules": "workbench.analysis.modules",
    "notes": "workbench.noting.frame",
    "open": "workbench.trace.open:open_source",
    "op_tree": "workbench.analysis.op_tree",
    "ops": "workbench.analysis.ops",
    "overlap": "workbench.analysis.overlap",
    "phases": "workbench.analysis.phases",
    "queue": "workbench.analysis.queue",
    "queue_depth": "workbench.analysis.queue",
    "recompute": "workbench.analysis.recompute",
    "record": "workbench.capture",
    "redact": "workbench.redaction",
    "regions": "workbench.analysis.regions",
    "recoverable": "workbench.analysis.recoverable",
    "roofline": "workbench.analysis.roofline",
    "save_view": "workbench.views.saving",
    "sequences": "workbench.analysis.sequences",
    "step_times": "workbench.analysis.step_times",
    "steps": "workbench.analysis.steps",
    "summary": "workbench.analysis.summary",
    "sweep": "workbench.capture",
    "sync_calls": "workbench.analysis.syncs",
    "syncs": "workbench.analysis.syncs",
    "trust": "workbench.analysis.trust",
    "waterfall": "workbench.analysis.waterfall",
    "waterfall_mean": "workbench.analysis.waterfall",
}
__all__ = [
    "CapturePlan",
    "Explorer",
    "Job",
    "Launcher",
    "Only",
    "Run",
    "Sweep",
    "Timeline",
    "Trace",
    "__version__",
    "allocator",
    "allocator_causes",
    "breakdown",
    "collectives",
    "compare",
    "copies",
    "counter_roofline",
    "counters",
    "coverage",
    "definitions",
    "delays",
    "energy",
    "exposed",
    "fragmentation",
    "frames",
    "gc",
    "groups",
    "idle",
    "idle_causes",
    "input_wait",
    "kernels",
    "launches",
    "leads",
    "memory",
    "memory_peak",
    "memory_timeline",
    "mfu",
    "modules",
    "notes",
    "op_tree",
    "open",
    "ops",
    "overlap",
    "phases",
    "queue",
    "queue_depth",
    "recompute",
    "record",
    "recoverable",
    "redact",
    "regions",
    "roofline",
    "save_view",
    "sequences",
    "step_times",
    "steps",
    "summary",
    "sweep",
    "sync_calls",
    "syncs",
    "trust",
    "waterfall",
    "waterfall_mean",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    value = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook `%%record` and `%record_last`: `%load_ext workbench`."""
    importlib.import_module("workbench.panels.magic").load(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
