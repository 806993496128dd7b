"""Workbench: performance analysis of AI training, in a notebook.

`import workbench as wb`; every public name loads its module when it is first used, so that the
import itself stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from workbench.version import __version__

if TYPE_CHECKING:
    from workbench.analysis.breakdown import breakdown
    from workbench.analysis.collectives import collectives
    from workbench.analysis.data_wait import input_wait
    from workbench.analysis.garbage import gc
    from workbench.analysis.idle import idle, idle_causes
    from workbench.analysis.kernels import kernels
    from workbench.analysis.ops import ops
    from workbench.analysis.overlap import exposed, overlap
    from workbench.analysis.roofline import roofline
    from workbench.analysis.steps import steps
    from workbench.analysis.summary import summary
    from workbench.analysis.waterfall import waterfall, waterfall_mean
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
    "breakdown": "workbench.analysis.breakdown",
    "collectives": "workbench.analysis.collectives",
    "exposed": "workbench.analysis.overlap",
    "gc": "workbench.analysis.garbage",
    "idle": "workbench.analysis.idle",
    "idle_causes": "workbench.analysis.idle",
    "input_wait": "workbench.analysis.data_wait",
    "kernels": "workbench.analysis.kernels",
    "open": "workbench.trace.open:open_source",
    "ops": "workbench.analysis.ops",
    "overlap": "workbench.analysis.overlap",
    "record": "workbench.capture",
    "roofline": "workbench.analysis.roofline",
    "steps": "workbench.analysis.steps",
    "summary": "workbench.analysis.summary",
    "waterfall": "workbench.analysis.waterfall",
    "waterfall_mean": "workbench.analysis.waterfall",
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
    "breakdown",
    "collectives",
    "exposed",
    "gc",
    "idle",
    "idle_causes",
    "input_wait",
    "kernels",
    "open",
    "ops",
    "overlap",
    "record",
    "roofline",
    "steps",
    "summary",
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


def __dir__() -> list[str]:
    return sorted(__all__)
