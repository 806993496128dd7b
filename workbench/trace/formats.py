"""Which reader a file's content asks for; names and suffixes are never trusted."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workbench.errors import InputError
from workbench.trace import container, sniffing
from workbench.trace.core import Trace

HEAD_BYTES = 1 << 16
"""How much of the unpacked content a format may look at."""


class Format(NamedTuple):
    """One kind of file: how its content is told, and the module whose `read(path)` opens it."""

    name: str
    matches: Callable[[bytes], bool]
    module: str


FORMATS = (
    Format("Nsight Systems or rocm RPD SQLite", sniffing.is_sqlite, "workbench.trace.exports"),
    Format("Nsight Systems report", sniffing.is_nsys_report, "workbench.trace.nsys.report"),
    Format("Nsight Compute CSV", sniffing.is_ncu, "workbench.trace.counters.ncu"),
    Format(
        "rocprofiler-compute CSV",
        sniffing.is_rocprof_compute,
        "workbench.trace.counters.rocprof_compute",
    ),
    Format("rocprofv3 JSON", sniffing.is_rocprof, "workbench.trace.rocprof"),
    Format("PyTorch execution trace", sniffing.is_execution_trace, "workbench.trace.graphs.torch"),
    Format("Chakra graph as JSON", sniffing.is_chakra_json, "workbench.trace.graphs.chakra_json"),
    Format("torch memory timeline", sniffing.is_memory_timeline, "workbench.trace.memory.timeline"),
    Format("torch memory snapshot", sniffing.is_pickle, "workbench.trace.memory.snapshot"),
    Format(
        "torch memory snapshot as JSON",
        sniffing.is_memory_snapshot,
        "workbench.trace.memory.snapshot",
    ),
    Format("PyTorch profiler or Chrome JSON", sniffing.is_json, "workbench.trace.kineto"),
    Format("XLA XPlane", sniffing.is_xplane, "workbench.trace.xplane"),
    Format("Chakra execution trace", sniffing.is_chakra, "workbench.trace.graphs.chakra"),
)
"""The first that matches reads the file, so the more particular stand before the general."""


def read(path: Path) -> Trace:
    """Read a file with the reader that its content asks for.

    Raises
    ------
    InputError
        No format matches, or the reader of the one that does refuses the file.
    """
    head = container.head(path, HEAD_BYTES)
    for form in FORMATS:
        if form.matches(head):
            trace: Trace = importlib.import_module(form.module).read(path)
            return trace
    known = ", ".join(f.name for f in FORMATS)
    raise InputError(f"{path} is none of the formats that are read: {known}.")
