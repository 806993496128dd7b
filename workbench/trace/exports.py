"""Which reader an SQLite file asks for: told by its tables."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import NotATraceError
from workbench.trace import nsys, rpd, sqlite
from workbench.trace.core import Trace
from workbench.trace.nsys.read import OWN as NSYS_TABLES

_NVPROF = "StringTable"
_SHOWN = 5


def read(path: Path) -> Trace:
    """Read an SQLite file with the reader that its tables ask for.

    Raises
    ------
    NotATraceError
        It holds the tables of no known export.
    InputError
        It is damaged, or the reader of its kind refuses it.
    """
    with sqlite.opened(path) as database:
        tables = database.tables
    if tables & set(rpd.OWN):
        return rpd.read(path)
    if tables & set(NSYS_TABLES):
        return nsys.read(path)
    if _NVPROF in tables:
        raise NotATraceError(
            f"{path} is a database of nvprof, which isn't read; record with nsys and export it."
        )
    raise NotATraceError(
        f"{path} is an SQLite file, but neither an export of Nsight Systems nor a rocm RPD: "
        f"{_named(tables)}."
    )


def _named(tables: set[str]) -> str:
    if not tables:
        return "it has no tables"
    some = ", ".join(sorted(tables)[:_SHOWN])
    return f"its tables are {some}{', …' if len(tables) > _SHOWN else ''}"
