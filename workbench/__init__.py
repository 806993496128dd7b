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
    from workbench.analysis.fragmentation import fragmentation
    from workbench.analysis.kernels import kernels
    from workbench.analysis.memory import memory
    from workbench.analysis.memory_peak import memory_peak
    from workbench.analysis.memory_timeline import memory_timeline
    from workbench.analysis.ops import ops
    from workbench.analysis.overlap import exposed, overlap
    from workbench.analysis.roofline import roofline
    from workbench.analysis.steps import steps
    from workbench.analysis.summary import summary
    from workbench.capture import CapturePlan, Run, record
    from workbench.panels.explorer import Explorer
    from workbench.panels.launcher import Launcher
    from workbench.trace.core import Job, Trace
    from workbench.trace.open import open_source as open  # noqa: A004 - wb.open is its name
    from workbench.views.timeline import Timeline

_HOME = {
    "CapturePlan": "workbench.capture",
    "Explorer": "workbench.panels.explorer",
    "Job": "workbench.trace.core",
    "Launcher": "workbench.panels.launcher",
    "Run": "workbench.capture",
    "Timeline": "workbench.views.timeline",
    "Trace": "workbench.trace.core",
    "allocator": "workbench.analysis.allocator",
    "allocator_causes": "workbench.analysis.allocator",
    "breakdown": "workbench.analysis.breakdown",
    "collectives": "workbench.analysis.collectives",
    "exposed": "workbench.analysis.overlap",
    "fragmentation": "workbench.analysis.fragmentation",
    "kernels": "workbench.analysis.kernels",
    "memory": "workbench.analysis.memory",
    "memory_peak": "workbench.analysis.memory_peak",
    "memory_timeline": "workbench.analysis.memory_timeline",
    "open": "workbench.trace.open:open_source",
    "ops": "workbench.analysis.ops",
    "overlap": "workbench.analysis.overlap",
    "record": "workbench.capture",
    "roofline": "workbench.analysis.roofline",
    "steps": "workbench.analysis.steps",
    "summary": "workbench.analysis.summary",
}
__all__ = [
    "CapturePlan",
    "Explorer",
    "Job",
    "Launcher",
    "Run",
    "Timeline",
    "Trace",
    "__version__",
    "allocator",
    "allocator_causes",
    "breakdown",
    "collectives",
    "exposed",
    "fragmentation",
    "kernels",
    "memory",
    "memory_peak",
    "memory_timeline",
    "open",
    "ops",
    "overlap",
    "record",
    "roofline",
    "steps",
    "summary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    value = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
