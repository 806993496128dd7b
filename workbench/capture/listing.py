"""Run folders, and what can be recorded, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.capture.overhead import known
from workbench.workloads import registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workbench.capture.folder import RunInfo

_SCHEMA = {
    "name": pl.String(),
    "status": pl.String(),
    "workload": pl.String(),
    "preset": pl.String(),
    "device": pl.String(),
    "ranks": pl.Int64(),
    "started": pl.String(),
    "step_ns": pl.Float64(),
    "overhead_pct": pl.Float64(),
    "size_bytes": pl.Int64(),
    "error": pl.String(),
}
_PRESETS = {
    "workload": pl.String(),
    "preset": pl.String(),
    "parameters": pl.Int64(),
    "step_flops": pl.Int64(),
    "size": pl.String(),
    "summary": pl.String(),
}
_PERCENT = 100


def frame(runs: Sequence[RunInfo]) -> pl.DataFrame:
    """Return one row a run; `step_ns` is the median traced step, `workload` may be a file."""
    return pl.DataFrame([_row(run) for run in runs], schema=_SCHEMA)


def presets() -> pl.DataFrame:
    """Return one row a preset of each workload; `step_flops` are those of a step on one rank."""
    rows = [
        _preset(registry.get(name), preset)
        for name in registry.names()
        for preset in registry.get(name).presets
    ]
    return pl.DataFrame(rows, schema=_PRESETS)


def parameters(name: str) -> pl.DataFrame:
    """Return one row a parameter: type, what is allowed, help, and its value in each preset."""
    workload = registry.get(name)
    values = {preset: workload.describe(preset) for preset in workload.presets}
    rows = [
        {
            "parameter": info.name,
            "type": info.type.__name__,
            "help": info.help,
            "choices": ", ".join(map(str, info.choices)) or None,
            "minimum": None if info.minimum is None else _value(info.minimum),
            "maximum": None if info.maximum is None else _value(info.maximum),
            **{preset: _value(infos[index].default) for preset, infos in values.items()},
        }
        for index, info in enumerate(next(iter(values.values())))
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String()))


def _preset(workload: registry.Workload, name: str) -> dict[str, Any]:
    spec = workload.preset(name)
    return {
        "workload": workload.name,
        "preset": name,
        "parameters": workload.parameters(spec),
        "step_flops": workload.flops(spec),
        "size": workload.preset_help[name],
        "summary": workload.summary,
    }


def _row(run: RunInfo) -> dict[str, Any]:
    manifest = run.manifest
    plan = manifest.get("plan") if isinstance(manifest.get("plan"), dict) else {}
    assert isinstance(plan, dict)
    cost = known(run.manifest)
    ratio = cost.ratio if cost else None
    ranks, nnodes = plan.get("ranks"), plan.get("nnodes", 1)
    return {
        "name": run.name,
        "status": run.status,
        "workload": _text(manifest.get("workload") or plan.get("script") or plan.get("code")),
        "preset": _text(manifest.get("preset")),
        "device": _text(manifest.get("device")),
        "ranks": ranks * nnodes if isinstance(ranks, int) and isinstance(nnodes, int) else None,
        "started": _text(manifest.get("started")),
        "step_ns": cost.traced_ns if cost else None,
        "overhead_pct": None if ratio is None else _PERCENT * ratio,
        "size_bytes": _size(run.path),
        "error": _text(manifest.get("error")),
    }


def _size(path: Path) -> int | None:
    try:
        return sum(entry.lstat().st_size for entry in path.iterdir())
    except OSError:
        return None  # it got its final name, or was deleted, just now


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
