"""Python frames of a file, in a pass of their own.

They are the bulk of a trace with stacks and few questions need them, so opening a trace passes
over them, and asking for them reads the file again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from workbench.errors import InputError
from workbench.intervals import Times
from workbench.trace import container
from workbench.trace.core import TraceMeta
from workbench.trace.kineto import columns as col
from workbench.trace.kineto.arguments import FrameArgs
from workbench.trace.kineto.categories import CATEGORIES
from workbench.trace.kineto.events import Event, InexactTimesError, Reader, starts_and_durations
from workbench.trace.kineto.pieces import EventLists

_NO_ARGS = FrameArgs()


def read_frames(meta: TraceMeta, first_ns: int) -> pl.DataFrame:
    """Read the frames of a trace's file; `first_ns` is the recorded time of the trace's zero.

    Raises
    ------
    InputError
        The file is gone, or is no longer the one that was opened.
    """
    path = meta.path
    reader = Reader(FrameArgs)
    threads: dict[Any, int] = {(t.pid, t.tid): i for i, t in enumerate(meta.threads)}
    names, parts = col.Codes(), []
    with container.ahead(path) as (stream, sha256):
        if sha256.result() != meta.sha256:
            raise InputError(f"{path} has changed since it was opened; open it again.")
        for piece in EventLists(stream, reader, path):
            try:
                parts.append(_part(piece.events, threads, names))
            except InexactTimesError:
                reader.as_text = True
                parts.append(_part(reader.decode(piece.text), threads, names))
    return _finish(pl.concat(parts), names, first_ns)


def _part(
    events: list[Event[FrameArgs]], threads: dict[Any, int], names: col.Codes
) -> pl.DataFrame:
    chosen = [e for e in events if e.ph == "X" and CATEGORIES.get(e.cat) == "frames"]
    start, duration = starts_and_durations(chosen)
    args = [e.args or _NO_ARGS for e in chosen]
    return pl.DataFrame(
        {
            "name": names.column(e.name or "" for e in chosen),
            "thread": pl.Series([threads.get((e.pid, e.tid)) for e in chosen], dtype=pl.Int32),
            "start_ns": start,
            "dur_ns": duration,
            "py_id": col.ids([a.id for a in args]),
            "py_parent": col.ids([a.parent for a in args]),
            "is_module": pl.Series([a.module is not None for a in args], dtype=pl.Boolean),
        }
    )


def _finish(frame: pl.DataFrame, names: col.Codes, first_ns: int) -> pl.DataFrame:
    """Bring frames in order and find their callers by the interpreter's own ids."""
    frame = frame.with_columns(start_ns=pl.Series(_relative(frame, first_ns)))
    frame = frame.filter(pl.col("dur_ns") >= 0, pl.col("start_ns") >= 0).sort(
        "start_ns", maintain_order=True
    )
    frame = frame.with_row_index("id").with_columns(name=names.texts().gather(frame["name"]))
    callers = frame.select(pl.col("py_id").alias("py_parent"), pl.col("id").alias("parent"))
    callers = callers.drop_nulls().unique("py_parent", keep="first")
    frame = frame.join(callers, on="py_parent", how="left", maintain_order="left")
    return frame.with_columns(module=pl.when("is_module").then(pl.col("name")))


def _relative(frame: pl.DataFrame, first_ns: int) -> Times:
    """Return starts relative to the trace's zero; -1 for those before it, or without a time."""
    start: Times = frame["start_ns"].to_numpy()
    return np.where(start >= first_ns, start - first_ns, -1)
