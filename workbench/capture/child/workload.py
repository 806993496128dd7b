"""Record one of the project's own workloads."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .job import make_recorder
from .ranks import Ranks

if TYPE_CHECKING:
    from .events import Events


def run_workload(job: dict[str, Any], *, torch: Any, device: Any, events: Events) -> None:
    """Build the workload on this rank and run its steps until the trace is written."""
    build, spec = _load(job)
    meeting = Path(job["folder"]) / ".meeting"
    ranks = Ranks(torch, rank=job["rank"], world=job["world"], device=device, meeting=meeting)
    events.send("setup", message="building the model")
    training = build(spec, device=device, rank=job["rank"], wrap=ranks.wrap)
    events.send("setup", facts=training.facts())
    recorder = make_recorder(job, torch=torch, device=device, events=events, agree=ranks.agree)
    recorder.begin()
    while not recorder.finished:
        training.step()
        recorder.end_step()
    ranks.close()


def _load(job: dict[str, Any]) -> tuple[Any, Any]:
    """Import the workload from this project's folder, without its folder on `sys.path`."""
    package = types.ModuleType("workbench")
    package.__path__ = [str(Path(__file__).resolve().parents[2])]
    sys.modules["workbench"] = package
    workload = import_module("workbench.workloads.registry").get(job["workload"])
    return import_module(workload.module).build, workload.spec(job["spec"])
