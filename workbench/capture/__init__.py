"""Capture: from a plan through a child process to a run folder.

`record(CapturePlan(workload="gpt"))` starts a recording and returns a `Run`; `step` and `workload`
mark the steps of a script. Names load their module when they are first used: reading a run folder
does not import what records one, and a script that marks its steps imports nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.capture.folder import RunInfo, list_runs
    from workbench.capture.marks import step, workload
    from workbench.capture.plan import CapturePlan
    from workbench.capture.run import Run, record
    from workbench.capture.supervisor import Progress
    from workbench.capture.sweeping import Sweep, sweep

_HOME = {
    "CapturePlan": "plan",
    "Progress": "supervisor",
    "Run": "run",
    "RunInfo": "folder",
    "Sweep": "sweeping",
    "list_runs": "folder",
    "record": "run",
    "step": "marks",
    "sweep": "sweeping",
    "workload": "marks",
}

__all__ = [
    "CapturePlan",
    "Progress",
    "Run",
    "RunInfo",
    "Sweep",
    "list_runs",
    "record",
    "step",
    "sweep",
    "workload",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
