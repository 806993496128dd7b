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
    from workbench.analysis.frames import frames
    from workbench.analysis.kernels import kernels
    from workbench.analysis.modules import modules
    from workbench.analysis.ops import ops
    from workbench.analysis.overlap import exposed, overlap
    from workbench.analysis.phases import phases
    from workbench.analysis.recompute import recompute
    from workbench.analysis.regions import regions
    from workbench.analysis.roofline import roofline
    from workbench.analysis.sequences import sequences
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
    "breakdown": "workbench.analysis.breakdown",
    "collectives": "workbench.analysis.collectives",
    "exposed": "workbench.analysis.overlap",
    "frames": "workbench.analysis.frames",
    "kernels": "workbench.analysis.kernels",
    "modules": "workbench.analysis.modules",
    "open": "workbench.trace.open:open_source",
    "ops": "workbench.analysis.ops",
    "overlap": "workbench.analysis.overlap",
    "phases": "workbench.analysis.phases",
    "recompute": "workbench.analysis.recompute",
    "record": "workbench.capture",
    "regions": "workbench.analysis.regions",
    "roofline": "workbench.analysis.roofline",
    "sequences": "workbench.analysis.sequences",
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
    "breakdown",
    "collectives",
    "exposed",
    "frames",
    "kernels",
    "modules",
    "open",
    "ops",
    "overlap",
    "phases",
    "recompute",
    "record",
    "regions",
    "roofline",
    "sequences",
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
