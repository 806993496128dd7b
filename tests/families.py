"""What each workload's tests compare with: counts by hand, and what `tiny` keeps."""

from __future__ import annotations

import gc
from pathlib import Path

import torch

import workbench as wb
from workbench.workloads import get
from workbench.workloads.training import Training

CPU = torch.device("cpu")


def tiny(name, **overrides):
    return get(name).resolve("tiny", overrides)


def training(name, **overrides):
    return Training(get(name), tiny(name, **overrides), device=CPU)


def losses(name, steps, **overrides):
    made = training(name, **overrides)
    return [made.step().item() for _ in range(steps)]


def recorded_flops(made: Training, folder: Path) -> float:
    """Return the matrix FLOPs of a step by its recorded operators: what ran, but nothing twice."""
    path = folder / "trace.json"
    made.step()
    gc.collect()
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=schedule,
        record_shapes=True,
        on_trace_ready=lambda profile: profile.export_chrome_trace(str(path)),
    ) as profile:
        for _ in range(3):
            made.step()
            profile.step()
    return wb.mfu(wb.open(path, cache=False))["model_flops"].item()
