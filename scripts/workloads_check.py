"""Record the tiny preset of workloads on the CPU, on one rank and on two; print a table.

    python scripts/workloads_check.py [NAME ...] [--one-rank] [--keep FOLDER]

Each recording is the command that a user gives, from its start to `done`, which may take a minute
on one rank. Ends with 1 where one failed or took longer, after all were tried.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from workbench import open as open_trace
from workbench import workloads
from workbench.capture import folder
from workbench.capture.overhead import overhead
from workbench.units import NS_PER_MS

LIMIT_S = {1: 60, 2: 180}
"""Seconds from the command to `done`: promised of one rank, generous for two that share cores."""
DONE = "done"


@dataclass
class Row:
    """One recording; what is unknown is a dash."""

    workload: str
    ranks: int
    parallel: str
    seconds: str
    steps: str = "-"
    step_ms: str = "-"
    events: str = "-"
    overhead: str = "-"
    status: str = DONE


def main() -> int:
    """Record, print a row after each, and say how many failed."""
    parser = argparse.ArgumentParser(description="Record the tiny preset of each workload.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--one-rank", action="store_true", help="leave out the runs on two ranks")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the runs stay")
    chosen = parser.parse_args()
    names = chosen.names or workloads.names()
    wanted = [(name, *how) for name in names for how in ways(name, one_rank=chosen.one_rank)]
    print(line([field.name for field in fields(Row)]))
    with tempfile.TemporaryDirectory(prefix="workloads-check-") as scratch:
        rows = [shown(recorded(*want, chosen.keep or Path(scratch))) for want in wanted]
    bad = [row for row in rows if row.status != DONE]
    print(f"{len(rows) - len(bad)} of {len(rows)} recordings are done", flush=True)
    return 1 if bad else 0


def ways(name: str, *, one_rank: bool) -> list[tuple[int, str]]:
    """Return ranks and sharing of each recording: one, and two by DDP and, if it can, by FSDP2."""
    shared = next(f for f in workloads.get(name).describe("tiny") if f.name == "parallel").choices
    two = [(2, how) for how in ("ddp", "fsdp") if how in (shared or ())]
    return [(1, "-"), *([] if one_rank else two)]


def recorded(name: str, ranks: int, parallel: str, runs: Path) -> Row:
    """Record one and return what it came to."""
    run = runs / f"{name}-{ranks}-{parallel}"
    command = [sys.executable, "-m", "workbench", "record", name, "--device", "cpu"]
    command += ["--ranks", str(ranks), "--timeout", str(LIMIT_S[ranks]), "--output", str(run)]
    command += ["--set", f"parallel={parallel}"] if ranks > 1 else []
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    row = Row(name, ranks, parallel, f"{seconds:.1f}")
    if done.returncode:
        row.status = (done.stderr.strip().splitlines() or ["failed"])[-1]
        return row
    if seconds > LIMIT_S[ranks]:
        row.status = f"took longer than {LIMIT_S[ranks]} s"
    return measured(row, run)


def measured(row: Row, run: Path) -> Row:
    """Fill in what the run folder holds."""
    cost = overhead(folder.read_manifest(run))
    row.events = f"{sum(trace.meta.events for trace in open_trace(run).ranks):,}"
    row.steps = f"{cost.untraced}+{cost.traced}"
    row.step_ms = "-" if cost.untraced_ns is None else f"{cost.untraced_ns / NS_PER_MS:.0f}"
    if cost.ratio is not None and cost.low is not None and cost.high is not None:
        low, high = 100 * cost.low, 100 * cost.high
        row.overhead = f"{100 * cost.ratio:+.0f} % ({low:+.0f} to {high:+.0f})"
    return row


def shown(row: Row) -> Row:
    """Print a row and return it."""
    print(line(list(map(str, astuple(row)))), flush=True)
    return row


def line(cells: list[str]) -> str:
    """Lay the cells of a row out in columns."""
    widths = (16, 5, 8, 8, 6, 8, 9, 22, 0)
    return "  ".join(f"{c:<{n}}" for c, n in zip(cells, widths, strict=True)).rstrip()


if __name__ == "__main__":
    sys.exit(main())
