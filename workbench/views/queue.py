"""How much launched work waits for the device, over time: a step line for each stream.

`depth` draws a frame of `analysis.queue_depth`; `lines` is the frame that is drawn. Where the line
lies on zero the host is behind; where it stays high the device is.
"""

from __future__ import annotations

import holoviews as hv
import holoviews.plotting.bokeh
import numpy as np
import polars as pl

from workbench import units
from workbench.views.breakdown import sentence
from workbench.views.figure import themed
from workbench.views.tables import place
from workbench.views.theme import THEMES, Theme

MOST_POINTS = 4000
"""A line of more points keeps the lowest and highest of each of half as many stretches of time."""
MOST_LINES = 8
NOTHING = "No launched work is tied to a device in this window, so its queue is unknown."
HEIGHT = 260


def lines(frame: pl.DataFrame) -> pl.DataFrame:
    """Return `line ms depth`, one line for each (rank, device, stream), `ms` from the earliest.

    The whole device is the line without a stream, and an only stream has no line of its own; the
    busiest come first, eight lines at most. Depth is that from each time on.
    """
    begin = frame["t_ns"].min()
    only = pl.col("stream").drop_nulls().n_unique().over("rank", "device") == 1
    frame = frame.filter(pl.col("stream").is_null() | ~only)
    keys = ["rank", "device", "stream"]
    parts = frame.sort("t_ns", maintain_order=True).partition_by(keys, maintain_order=True)
    parts.sort(key=lambda p: (p["stream"][0] is not None, -p.height))
    drawn = [
        thinned(part).select(
            line=pl.lit(_name(part)),
            ms=(pl.col("t_ns") - begin) / units.NS_PER_MS,
            depth="depth",
        )
        for part in parts[:MOST_LINES]
    ]
    schema = {"line": pl.String(), "ms": pl.Float64(), "depth": pl.Int64()}
    return pl.concat(drawn) if drawn else pl.DataFrame(schema=schema)


def _name(part: pl.DataFrame) -> str:
    stream = part["stream"][0]
    where = place(part["rank"][0], part["device"][0])
    return where if stream is None else f"{where} · stream {stream}"


def thinned(part: pl.DataFrame, points: int = MOST_POINTS) -> pl.DataFrame:
    """Keep of each stretch of time the lowest and the highest row; few rows stay as they are."""
    if part.height <= points:
        return part
    t = part["t_ns"].to_numpy()
    span = max(int(t[-1] - t[0]), 1)
    bucket = pl.Series((t - t[0]) * (points // 2) // (span + 1))
    numbered = part.with_columns(bucket=bucket, row=np.arange(part.height))
    ends = numbered.group_by("bucket").agg(
        low=pl.col("row").gather(pl.col("depth").arg_min()),
        high=pl.col("row").gather(pl.col("depth").arg_max()),
    )
    kept = pl.concat([ends["low"].explode(), ends["high"].explode()]).unique().sort()
    return part[kept]


def depth(frame: pl.DataFrame, *, theme: str = "light", width: int = 900) -> hv.Overlay:
    """Draw the depth over time."""
    look = THEMES[theme]
    drawn = lines(frame)
    if drawn.is_empty():
        return sentence(NOTHING, look, width)
    parts = drawn.partition_by("line", maintain_order=True)
    return hv.Overlay([_line(part, number, look) for number, part in enumerate(parts)]).opts(
        width=width,
        height=HEIGHT,
        xlabel="ms",
        ylabel="launched and not begun",
        ylim=(0, max(1, int(drawn["depth"].max()) * 1.08)),  # type: ignore[arg-type]
        show_grid=True,
        legend_position="right",
        active_tools=["xwheel_zoom"],
        hooks=[themed(look, legend_below=True)],
        backend="bokeh",
    )


def _line(part: pl.DataFrame, number: int, look: Theme) -> hv.Curve:
    columns = {n: part[n].to_list() for n in ("ms", "depth")}
    colour = look.of("compute") if number == 0 else look.families[(number + 2) % len(look.families)]
    return hv.Curve(columns, "ms", "depth", label=part["line"][0]).opts(
        interpolation="steps-post",
        color=colour,
        line_width=1.5,
        default_tools=["xpan", "xwheel_zoom", "reset"],
        tools=["hover"],
        backend="bokeh",
    )
