"""What a recording lacks that `workbench record` can give, each gap with its fix.

The rows come from `trust`, so that what is printed as a recording ends is what `workbench show RUN
trust` tells later.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import show
from workbench.analysis.needs import NEEDS
from workbench.capture import folder, remarks
from workbench.trace.open import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA = {"aspect": pl.String(), "detail": pl.String(), "fix": pl.String()}
FIXES: Mapping[str, str] = {
    "shapes": "leave out --no-shapes; FLOPs, rooflines and MFU need them",
    "memory": "leave out --no-memory",
    "frames": "add --stacks (steps take longer, and the trace is larger)",
    "modules": "add --stacks (steps take longer, and the trace is larger)",
    "steps": "record at least two (--steps)",
    "graph_kernels_missing": "add --early-profiler: it must run once before graphs are captured",
}
"""What an option of `record` gives."""
_DOCTOR = "`workbench doctor` says whether the driver lets you record the device"
ON_A_GPU: Mapping[str, str] = dict.fromkeys(("activity", "accelerator", "launches"), _DOCTOR)
"""What only a run on a GPU should hold."""
NO_FIX = (
    "activities with a launch",
    "activities with an operator",
    "clock resolution",
    "the profiler's own work",
)
"""What `trust` tells for the reader's information."""
LARGEST = 40 * 10**6
"""Bytes of compressed traces, some seconds to read, up to which they are looked at unasked."""


def lint(run: Path) -> pl.DataFrame:
    """Return `aspect detail fix`, a row for each gap of a run folder; those of one fix together.

    Of files above `LARGEST` only what the folder says beside them is told.
    """
    size = sum(f.stat().st_size for f in run.glob("rank*.*"))
    if size > LARGEST:
        told = [(r.aspect, r.detail, r.advice) for r in remarks.recorded(run).rows]
        return pl.DataFrame(told, schema=SCHEMA, orient="row")
    table = show.frame(open_source(run), "trust", show.Choice())
    device = str(folder.read_manifest(run).get("device") or "")
    fixes = {**FIXES, **(ON_A_GPU if device.startswith("cuda") else {})}
    rows = list(_gaps(table.filter(pl.col("state") != "yes"), fixes))
    return _joined(pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def lines(run: Path, gaps: pl.DataFrame) -> list[str]:
    """Write gaps for a person, one a line, below a line that says where the rest stands."""
    if gaps.is_empty():
        return []
    count = f"{gaps.height} thing{'s' if gaps.height > 1 else ''} to know"
    head = f"{count} (all of it: workbench show {run} trust)"
    return [head, *(_line(row) for row in gaps.iter_rows(named=True))]


def _gaps(table: pl.DataFrame, fixes: Mapping[str, str]) -> Iterator[tuple[str, str, str | None]]:
    for row in table.iter_rows(named=True):
        name = row["aspect"]
        if name in fixes:
            yield name, row["detail"], fixes[name]
        elif name not in NEEDS and name not in NO_FIX:
            yield name, row["detail"], row["advice"]


def _joined(gaps: pl.DataFrame) -> pl.DataFrame:
    """Join gaps that have the same fix."""
    same = pl.col("fix").fill_null(pl.col("aspect")).alias("same")
    together = gaps.group_by(same, maintain_order=True).agg(
        pl.col("fix").first(),
        pl.col("aspect").str.join(", "),
        pl.col("detail").unique(maintain_order=True).str.join("; "),
    )
    return together.select(*SCHEMA)


def _line(row: dict[str, Any]) -> str:
    fix = f" -> {row['fix']}" if row["fix"] else ""
    return f"  {row['aspect']}: {row['detail']}{fix}"
