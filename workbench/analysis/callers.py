"""Which Python function made a call of the runtime."""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.analysis.window import spans
from workbench.trace import nesting
from workbench.trace.core import Trace

SOURCE_LINE = r"\(\d+\): "
"""In the name of a Python frame with source: `file(line): function`."""
TORCH = r"^([^(]*/)?torch/"
"""At the begin of such a name, in a file of torch itself: it waits on behalf of its caller."""


def python(trace: Trace, calls: pl.DataFrame) -> pl.Series:
    """Return the innermost Python function around each call, outside torch where there is one."""
    if not calls.height:
        return pl.Series([], dtype=pl.String)
    names = trace.frames["name"].unique().cast(pl.String)
    with_source = names.filter(names.str.contains(SOURCE_LINE))
    around = _around(trace.frames, calls)
    found = pl.DataFrame(
        {
            "own": _innermost(around, with_source.filter(~with_source.str.contains(TORCH)), calls),
            "any": _innermost(around, with_source, calls),
        }
    )
    return found.select(pl.coalesce("own", "any")).to_series()


def _innermost(frames: pl.DataFrame, names: pl.Series, calls: pl.DataFrame) -> pl.Series:
    """Return the innermost frame of these names around each call."""
    frames = frames.filter(pl.col("name").cast(pl.String).is_in(names.implode()))
    rows, nested = nesting.sort_and_nest(frames)
    at = nesting.innermost(nested, calls["thread"].to_numpy(), calls["start_ns"].to_numpy())
    return nesting.gathered(frames["name"][rows], at).cast(pl.String)


def _around(frames: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the few frames in which any of the calls begins."""
    thread = frames["thread"].to_numpy()
    start, end = spans(frames)
    at = (calls["thread"].to_numpy(), calls["start_ns"].to_numpy())
    axis = nesting.Axis(at, (thread, start), (thread, end))
    begins = np.sort(axis(*at))
    first = np.searchsorted(begins, axis(thread, start), "left")
    last = np.searchsorted(begins, axis(thread, end), "left")
    return frames.filter(pl.Series(last > first))
