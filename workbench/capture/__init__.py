"""Capture: from a plan through a child process to a run folder.

`record(CapturePlan(workload="gpt"))` starts a recording and returns a `Run`.
"""

from workbench.capture.folder import RunInfo, list_runs
from workbench.capture.plan import CapturePlan
from workbench.capture.run import Run, record
from workbench.capture.supervisor import Progress

__all__ = ["CapturePlan", "Progress", "Run", "RunInfo", "list_runs", "record"]
