"""Record one of the project's own workloads."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .job import make_recorder
from .ranks import Ranks
from .tracing import RecordingError

if TYPE_CHECKING:
    from .events import Events


def run_workload(job: dict[str, Any], *, torch: Any, device: Any, events: Events) -> None:
    """Build the workload on this rank and run its steps until the trace is written."""
    try:
        workload, spec, training_class = _load(job)
    except sys.modules["workbench.errors"].UsageError as error:
        raise RecordingError(f"{str(error).rstrip('.')} [in {sys.executable}].") from error
    rank, world = job["rank"], job["world"]
    ranks = Ranks(torch, rank=rank, world=world, device=device, meeting=job["meeting"])
    events.send("setup", message="building the model")
    try:
        training = training_class(workload, spec, device=device, rank=ranks.rank, world=ranks.world)
    except sys.modules["workbench.errors"].UsageError as error:
        raise RecordingError(str(error)) from error
    events.send("setup", facts=training.facts())
    recorder = make_recorder(job, torch=torch, device=device, events=events, agree=ranks.agree)
    recorder.begin()
    while not recorder.finished:
        recorder.end_step(training.step())
    ranks.close()


def _load(job: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the workload, its spec and `Training`, imported without a folder on `sys.path`."""
    package = types.ModuleType("workbench")
    package.__path__ = [str(Path(__file__).resolve().parents[2])]
    sys.modules["workbench"] = package
    workload = import_module("workbench.workloads.registry").get(job["workload"])
    training = import_module("workbench.workloads.training").Training
    return workload, workload.spec(job["spec"]), training
