"""Which reader a file's content asks for; names and suffixes are never trusted."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workbench.errors import InputError
from workbench.trace import container
from workbench.trace.core import Trace

HEAD_BYTES = 1 << 16
"""How much of the unpacked content a format may look at."""


class Format(NamedTuple):
    """One kind of file: how its content is told, and the module whose `read(path)` opens it."""

    name: str
    matches: Callable[[bytes], bool]
    module: str


def _is_json(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def _starts(magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


FORMATS = (
    Format(
        "Nsight Systems or rocm RPD SQLite",
        _starts(b"SQLite format 3\x00"),
        "workbench.trace.exports",
    ),
    Format(
        "Nsight Systems report",
        _starts(b"NVIDIA Tegra Profiler Report "),
        "workbench.trace.nsys.report",
    ),
    Format("PyTorch profiler or Chrome JSON", _is_json, "workbench.trace.kineto"),
)
"""The first that matches reads the file, so the more particular stand before the general."""
_REFUSED = (
    (b"\x80", "a pickle, which is never loaded from a foreign file"),
    (b"PAR1", "a Parquet file"),
)


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
    for magic, what in _REFUSED:
        if head.startswith(magic):
            raise InputError(f"{path} is {what}; this is not read yet.")
    known = ", ".join(f.name for f in FORMATS)
    raise InputError(f"{path} is none of the formats that are read: {known}.")
