"""The faults that can be put into a schedule: each once, on rank 0, in its first step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.trace.synthetic.spec import FAULTY_GAPS

if TYPE_CHECKING:
    from workbench.trace.synthetic.program import Program
    from workbench.trace.synthetic.recorder import Activity

INVERSION_NS = 700
OVERLAP_NS = 1_000


def apply(program: Program, faults: tuple[str, ...]) -> None:
    """Change the schedule; `invalid_record` changes only the file, so the writer adds it."""
    for fault in faults:
        if fault in FAULTY_GAPS:
            kernel = _planted(program, FAULTY_GAPS[fault])
            if fault == "clock_inversion":
                _invert(kernel)
            elif fault == "missing_launch":
                _orphan(kernel)
            else:
                _overlap(program, kernel)


def _planted(program: Program, gap: str) -> Activity:
    """Return the first kernel that ends a planted gap of a kind."""
    name = f"planted_{gap.removesuffix('_ns')}"
    return next(a for a in program.recorder.activities if a.name == name)


def _invert(kernel: Activity) -> None:
    """Start the kernel before its call; the device is idle there, so nothing else changes."""
    assert kernel.call is not None
    kernel.start = kernel.call.start - INVERSION_NS


def _orphan(kernel: Activity) -> None:
    """Take the call out of the recording."""
    assert kernel.call is not None
    kernel.call.lost = True
    kernel.call = None


def _overlap(program: Program, kernel: Activity) -> None:
    """Let the kernel end after the next one on its stream has begun."""
    later = [
        a.start
        for a in program.recorder.activities
        if a.stream == kernel.stream and a.start > kernel.start
    ]
    kernel.end = min(later) + OVERLAP_NS
