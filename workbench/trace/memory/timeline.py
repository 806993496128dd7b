"""torch's memory timeline in raw form (`export_memory_timeline` to `*.raw.json.gz`).

A list of [time in ns, action, bytes, category]; the file is of one device and does not say which.
Actions and categories are those of torch/profiler/_memory_profiler.py.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from workbench.errors import InputError
from workbench.trace import container
from workbench.trace.assemble import EARLIEST_NS, LATEST_NS, assemble
from workbench.trace.core import Trace, TraceMeta
from workbench.trace.problems import Problem

CATEGORIES = (
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "unknown",
)
"""In the order of their numbers in the file."""
PREEXISTING = -1
"""Time of what was allocated before the recording began."""
_REASON = "a memory timeline holds allocations, no device activity: see `show … memory`"
_MOST_BYTES = 2**50


def read(path: Path) -> Trace:
    """Read one timeline.

    A change of version (a tensor that was written to) is two rows: the bytes leave one category
    and enter another. What existed before stands at the first time. The device is null, since the
    file doesn't say it.

    Raises
    ------
    InputError
        The file is damaged or isn't a list of such rows.
    """
    data = container.read(path)
    try:
        rows = msgspec.json.decode(data, type=list[tuple[int, int, int, int]])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        raise InputError(f"{path} is no whole torch memory timeline: {e}.") from None
    columns = ("t_ns", "action", "bytes", "category")
    series = {n: pl.Series([r[i] for r in rows], dtype=pl.Int64, strict=False)
              for i, n in enumerate(columns)}  # fmt: skip
    every = pl.DataFrame(series)
    good = every.filter(
        pl.col("t_ns").is_between(EARLIEST_NS, LATEST_NS)
        & pl.col("bytes").is_between(-_MOST_BYTES, _MOST_BYTES)
        & pl.col("category").is_between(0, len(CATEGORIES) - 1)
    )
    memory, first = _memory(good)
    meta = TraceMeta(
        path=path,
        format="torch-memory-timeline",
        sha256=container.sha256(path),
        origin_ns=first,
        events=len(rows),
        device_reason=_REASON,
    )
    return assemble(
        meta, {"memory": memory}, _problems(every.height - good.height), "torch memory timeline"
    )


def _memory(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    recorded = rows["t_ns"].filter(rows["t_ns"] != PREEXISTING)
    first = int(recorded.min()) if len(recorded) else 0  # type: ignore[arg-type]
    at = pl.when(pl.col("t_ns") == PREEXISTING).then(first).otherwise(pl.col("t_ns")) - first
    memory = rows.select(
        t_ns=at,
        bytes="bytes",
        category=pl.col("category").replace_strict(
            np.arange(len(CATEGORIES)), list(CATEGORIES), return_dtype=pl.String
        ),
    ).sort("t_ns", maintain_order=True)
    return memory.with_columns(total_allocated=pl.col("bytes").cum_sum()), first


def _problems(lost: int) -> list[Problem]:
    if not lost:
        return []
    effect = "no usable time, size or category, so left out of every total"
    return [Problem("invalid_record", lost, "a row of the timeline", effect)]
