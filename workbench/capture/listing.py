"""Run folders as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.capture.overhead import Overhead, overhead

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_PERCENT = 100


def frame(runs: Sequence[RunInfo]) -> pl.DataFrame:
    """Return one row a run; `step_ns` is the median traced step, `workload` may be a script."""
    return pl.DataFrame([_row(run) for run in runs], schema=_SCHEMA)


def _row(run: RunInfo) -> dict[str, Any]:
    manifest = run.manifest
    plan = manifest.get("plan") if isinstance(manifest.get("plan"), dict) else {}
    assert isinstance(plan, dict)
    cost = _overhead(run)
    ratio = cost.ratio if cost else None
    ranks = plan.get("ranks")
    return {
        "name": run.name,
        "status": run.status,
        "workload": _text(manifest.get("workload") or plan.get("script")),
        "preset": _text(manifest.get("preset")),
        "device": _text(manifest.get("device")),
        "ranks": ranks if isinstance(ranks, int) else None,
        "started": _text(manifest.get("started")),
        "step_ns": cost.traced_ns if cost else None,
        "overhead_pct": None if ratio is None else _PERCENT * ratio,
        "size_bytes": sum(x.lstat().st_size for x in run.path.iterdir() if x.is_file()),
        "error": _text(manifest.get("error")),
    }


def _overhead(run: RunInfo) -> Overhead | None:
    try:
        return overhead(run.manifest)
    except (KeyError, TypeError, ValueError):
        return None  # a manifest that others wrote may hold anything


def _text(value: object) -> str | None:
    return None if value is None else str(value)
