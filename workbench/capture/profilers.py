"""Nsight Systems and Nsight Compute in the place of torch's profiler: commands and results.

The driver serves one profiler at a time, so torch's does not run in such a recording. The worker
switches the other on for the traced steps alone (`child/ranged.py`); what it wrote lies in the run
folder as `rank0.nsys-rep` and `rank0.sqlite`, or as `rank0.ncu.csv`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.capture.plan import CapturePlan
    from workbench.capture.process import RankProcess

PRODUCTS = {"nsys": "Nsight Systems", "ncu": "Nsight Compute"}
"""What `--with` takes: the program, and what it belongs to."""
WRITES_S = 900.0
"""How long a program may take to write its report after the training has ended."""
_POLL_S = 0.1
_SAID = 300
_HEADER = b'"Kernel Name"'
_CHUNK = 1 << 20


def program(name: str) -> str:
    """Return where a profiler is installed; UsageError with what is missing."""
    found = shutil.which(name)
    if found is None:
        raise UsageError(
            f"{name} is not on the PATH: --with {name} needs {PRODUCTS[name]} "
            f"({page(name)}); install it or add its folder to PATH, "
            "or leave --with out and record with torch's own profiler."
        )
    return found


def page(name: str) -> str:
    """Return where a profiler's product is to be had."""
    return f"https://developer.nvidia.com/{PRODUCTS[name].lower().replace(' ', '-')}"


def around(plan: CapturePlan, folder: Path, rank: int) -> list[str]:
    """Return the words of the command that stand before the training's own; none without one."""
    if plan.profiler is None:
        return []
    first = program(plan.profiler)
    return [first, *(_nsys(folder, rank) if plan.profiler == "nsys" else _ncu(plan, folder, rank))]


def collect(
    plan: CapturePlan,
    folder: Path,
    processes: Sequence[RankProcess],
    has_to_end: Callable[[], bool],
) -> str | None:
    """Turn what the profiler wrote into what can be read; return the sentence of what went wrong.

    Ends early, without a sentence, once `has_to_end`.
    """
    for process in processes:
        if plan.profiler == "nsys":
            fault = _export(folder, process, has_to_end)
        else:
            fault = _has_counters(plan, folder, process)
        if fault is not None or has_to_end():
            return fault
    return None


# ---- Nsight Systems --------------------------------------------------------------------------


def _nsys(folder: Path, rank: int) -> list[str]:
    return [
        "profile",
        "--trace=cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        # A graph's kernels one by one, as torch's profiler records them.
        "--cuda-graph-trace=node",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--force-overwrite=true",
        f"--output={_escaped(_report(folder, rank))}",
    ]


def _report(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.nsys-rep"


def _export(folder: Path, process: RankProcess, has_to_end: Callable[[], bool]) -> str | None:
    """Convert the report of a rank to SQLite, as `rank0.sqlite`, whole or not at all."""
    report = _report(folder, process.rank)
    if not report.is_file():
        return f"nsys wrote no report of rank {process.rank}{_ending(process.tail)}"
    part, said = folder / f".{report.stem}.sqlite", folder / f".{report.stem}.said"
    command = [program("nsys"), "export", "--type", "sqlite", "--force-overwrite", "true"]
    command += ["--output", str(part), str(report)]
    with said.open("wb") as output:
        done = _run(command, output.fileno(), has_to_end)
    if has_to_end():
        return None
    if done or not part.is_file():
        lines = said.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"nsys export could not convert {report.name}{_ending(lines)}"
    part.replace(folder / f"{report.stem}.sqlite")
    return None


def _run(command: list[str], output: int, has_to_end: Callable[[], bool]) -> int:
    """Run a program to its end, or until it has to; return its exit code."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    while process.poll() is None and not has_to_end():
        time.sleep(_POLL_S)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


# ---- Nsight Compute --------------------------------------------------------------------------


def _ncu(plan: CapturePlan, folder: Path, rank: int) -> list[str]:
    return [
        "--set=full",
        "--csv",
        "--page=raw",
        "--print-units=base",
        "--target-processes=all",
        "--profile-from-start=off",
        f"--kernel-name=regex:{plan.kernel}",
        f"--log-file={_escaped(_page(folder, rank))}",
    ]


def _page(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.ncu.csv"


def _has_counters(plan: CapturePlan, folder: Path, process: RankProcess) -> str | None:
    page = _page(folder, process.rank)
    if not page.is_file():
        return f"ncu wrote no counters of rank {process.rank}{_ending(process.tail)}"
    with page.open("rb") as file:
        before = b""
        while chunk := file.read(_CHUNK):
            if _HEADER in before + chunk:
                return None
            before = chunk[-len(_HEADER) :]
        file.seek(max(0, file.tell() - _CHUNK))
        lines = file.read().decode(errors="replace").splitlines()
    return f"ncu counted no kernel whose name matches {plan.kernel!r}{_ending(lines)}"


# ---- both ------------------------------------------------------------------------------------


def _escaped(path: Path) -> str:
    """Write a path so that neither program takes a part of it for a placeholder, as %h."""
    return str(path).replace("%", "%%")


def _ending(lines: Sequence[str]) -> str:
    said = [line.strip() for line in lines if line.strip()][-3:]
    return f"; it said: {' | '.join(said)[-_SAID:]}" if said else "; it said nothing."
