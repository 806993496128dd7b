"""Where a view's recording lies, so that a notebook that holds the view can be exported alive.

Kept in the metadata of a cell's output, relative to the notebook. A recording counts as the same
only when its content does, by hash and by number of rows, so no other file is ever shown.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import InputError, WorkbenchError
from workbench.trace.core import Job, Source, Trace
from workbench.trace.open import open_source

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTED = ("activities", "ops", "ranges", "steps")
KEY = "workbench"
"""Of an output's metadata."""


def origin(source: object) -> dict[str, Any] | None:
    """Return path and content of a recording as JSON can hold them; None for anything else."""
    if not isinstance(source, (Trace, Job)):
        return None
    first = source.ranks[0].meta.path
    path = first.parent if isinstance(source, Job) else first
    try:
        shown = os.path.relpath(path)
    except ValueError:  # on another drive of Windows
        shown = str(path)
    return {"path": Path(shown).as_posix(), "ranks": [_signs(trace) for trace in source.ranks]}


def reopen(wanted: Mapping[str, Any], folder: Path) -> Source:
    """Open the recording again; InputError where it is gone, or another one."""
    name = str(wanted.get("path"))
    try:
        source = open_source(folder / name)
    except (WorkbenchError, OSError):
        raise InputError(f"its recording is not at {name}") from None
    if [_signs(trace) for trace in source.ranks] != wanted.get("ranks"):
        raise InputError(f"the recording at {name} is not the one that it shows")
    return source


def _signs(trace: Trace) -> dict[str, Any]:
    rows = [trace.rows(name) for name in COUNTED]
    return {"sha256": trace.meta.sha256, "rank": trace.meta.rank, "rows": rows}
