"""A source that is open: what it was given as, the path that opens it, what lies beside it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.panels.beside import Beside
from workbench.trace.core import Job, Trace
from workbench.trace.open import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

Given = str | Path | Trace | Job


class Opened:
    """A source, opened; WorkbenchError when it can't be."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.source = given if isinstance(given, (Trace, Job)) else open_source(given)
        self.beside = Beside(self.source)

    @cached_property
    def path(self) -> str | None:
        """The path that opens to the same source; None for an object that no path opens to."""
        given = self.given
        if not isinstance(given, (Trace, Job)):
            return str(given)
        first = given.ranks[0].meta.path
        path = first.parent if isinstance(given, Job) else first
        return str(path) if _opens_to(path, given) else None


def name(given: Given) -> str:
    """Return what a source is called where it is offered."""
    if isinstance(given, (Trace, Job)):
        return given.ranks[0].meta.path.parent.name or "the given trace"
    return Path(given).name


def is_same(path: str, other: str | None) -> bool:
    """Say whether two paths name one place."""
    return other is not None and Path(path).resolve() == Path(other).resolve()


def _opens_to(path: Path, given: Trace | Job) -> bool:
    try:
        opened = open_source(path) if path.exists() else None
    except (WorkbenchError, OSError):
        return False
    return type(opened) is type(given) and list(_signs(opened)) == list(_signs(given))


def _signs(source: Trace | Job | None) -> Iterator[tuple[Any, ...]]:
    """Yield what tells a trace from another of the same files: what it is of, and how much."""
    for trace in source.ranks if source is not None else ():
        yield trace.meta, {name: table.height for name, table in trace.tables.items()}
